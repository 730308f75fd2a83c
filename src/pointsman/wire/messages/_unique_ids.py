"""Ids of calls, told apart: Messages refuses a request in which two calls have one id.

Some servers number the calls of each answer from zero, or give every call the same id.
"""

from __future__ import annotations

from collections import defaultdict, deque

from msgspec.structs import replace

from pointsman.vocabulary import Role
from pointsman.wire.conversation import Call, Message, Part, Result

__all__ = ["with_unique_ids"]


def with_unique_ids(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with every call's id its own, and its result under the same one."""
    ids = [
        part.id
        for message in messages
        if message.role is Role.ASSISTANT
        for part in message.parts
        if type(part) is Call
    ]
    return messages if len(set(ids)) == len(ids) else tuple(map(_Renaming(set(ids)).message, messages))


class _Renaming:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._seen: set[str] = set()
        self._last: dict[str, int] = {}  # number given last, by the id that it was added to
        self._awaited: dict[str, deque[str]] = defaultdict(deque)  # new ids of calls without a result

    def message(self, message: Message) -> Message:
        if message.role is Role.ASSISTANT:
            self._awaited.clear()  # a result that has not come belongs to no later call
        return Message(message.role, tuple(map(self._part, message.parts)))

    def _part(self, part: Part) -> Part:
        if isinstance(part, Call):
            new = self._new(part.id)
            self._awaited[part.id].append(new)
            return replace(part, id=new)
        if isinstance(part, Result) and self._awaited.get(part.call_id):
            return replace(part, call_id=self._awaited[part.call_id].popleft())
        return part

    def _new(self, identifier: str) -> str:
        new, number = identifier, self._last.get(identifier, 1)
        while new in self._seen or (number > 1 and new in self._taken):
            number += 1
            new = f"{identifier}_{number}"
        self._last[identifier] = number
        self._seen.add(new)
        return new
