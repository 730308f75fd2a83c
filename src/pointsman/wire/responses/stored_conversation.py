"""Conversations stored by the provider: what is kept of their items to decide the next request.

With ``previous_response_id`` an agent sends only what is new. The rest is put back here as far as a decision
looks at it: how the conversation began, the person's latest words, and the calls that wait for a result. All
other items are stood in for by one that says nothing, so that every position is what it would be in a history
sent whole (docs/decisions/0071).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import AgentRequest, Message, Role
from pointsman.wire import sse
from pointsman.wire.base import Member
from pointsman.wire.responses._request import PASSED, read_item

__all__ = [
    "StoredConversation",
    "answered",
    "continues",
    "conversation_id",
    "is_stored",
    "previous_response",
    "stored_conversation",
]

#: Characters kept of a result that has been counted already. Only strings matter that come again in the next
#: call's arguments, and those are looked for in its beginning (``trajectory.arguments.MAX_SOURCE``).
_RESULT: Final = 20_000


class _Stored(msgspec.Struct, gc=False):
    id: str
    output: list[msgspec.Raw]


class _StoredEvent(msgspec.Struct, gc=False):
    response: _Stored


class _Conversation(msgspec.Struct, gc=False):
    id: str = ""


_decode_stored: Final = msgspec.json.Decoder(_Stored).decode
_decode_stored_event: Final = msgspec.json.Decoder(_StoredEvent).decode
_decode_id: Final = msgspec.json.Decoder(_Conversation | str | None).decode


class StoredConversation(msgspec.Struct, frozen=True):
    """What is known of the items before those of a request."""

    count: int  # how many there are
    kept: tuple[tuple[int, bytes], ...]  # position and item, of those that matter
    size: int  # bytes of the whole conversation, as it was sent
    features: frozenset[str]  # what it needs of a model

    def items(self) -> list[bytes]:
        """Return an item for every position."""
        items = [PASSED] * self.count
        for position, item in self.kept:
            items[position] = item
        return items

    @property
    def weight(self) -> int:
        """Bytes it takes to keep."""
        return sum(len(item) for _, item in self.kept)


def stored_conversation(
    request: AgentRequest, answered: Sequence[bytes], words_at: int
) -> StoredConversation:
    """Return what is to be known when a turn, answered with these items, is continued.

    Args:
        request: A request in the Responses format; its history may begin with items that were put back.
        answered: The items of the answer, as JSON.
        words_at: Position of the item with the person's latest words; -1 for none.
    """
    history, count = request.history, len(request.history)
    positions = [*_opening(request), words_at, count - 1]
    kept = {at: _shortened(history[at]) for at in positions if at >= 0}
    kept |= {count + at: item for at, item in enumerate(answered) if _is_call(item)}
    return StoredConversation(
        count=count + len(answered),
        kept=tuple(sorted(kept.items())),
        size=request.size + sum(map(len, answered)),
        features=request.features & {"vision"},  # the others go by what a request asks for itself
    )


def _opening(request: AgentRequest) -> list[int]:
    """Positions before the model's first item: by these words a conversation is known again."""
    positions = []
    for position in range(len(request.history)):
        if request.history.role(position) is Role.ASSISTANT:
            break
        positions.append(position)
    return positions


def _shortened(message: Message) -> bytes:
    """Return an item that is read as this message is, apart from images and the end of long results."""
    item: dict[str, Any]
    if message.results:
        result = message.results[0]
        item = {
            "type": "function_call_output",
            "call_id": result.call_id,
            "output": result.text[:_RESULT],
        }
    elif message.calls:
        call = message.calls[0]
        item = {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
    else:
        blocks = [{"type": "input_text", "text": text} for text in message.texts]
        item = {"role": message.role, "content": blocks}
    return msgspec.json.encode(item)


def _is_call(item: bytes) -> bool:
    try:
        read = msgspec.json.decode(item)
    except UNREADABLE:
        return False
    return isinstance(read, dict) and bool(read_item(read).calls)


def continues(member: Member) -> str:
    """Return the id of the response or conversation that a request goes on from; empty when it holds all."""
    return _named(member, "previous_response_id") or _named(member, "conversation")


def previous_response(member: Member) -> str:
    """Return the id of the response that a request goes on from; empty when it names none."""
    return _named(member, "previous_response_id")


def conversation_id(member: Member) -> str:
    """Return the id of the conversation that a request belongs to; empty when it names none."""
    return _named(member, "conversation")


def is_stored(member: Member) -> bool:
    """Whether the provider keeps the answer, so that a request can go on from it."""
    return bytes(member("store") or b"") != b"false"


def _named(member: Member, name: str) -> str:
    raw = member(name)
    if raw is None:
        return ""
    try:
        named = _decode_id(raw) or ""
    except UNREADABLE:
        return ""  # for the upstream to refuse
    return named if isinstance(named, str) else named.id


def answered(parts: Sequence[bytes]) -> tuple[str, list[bytes]] | None:
    """Return the id and the items of a whole body, or of the last events of a stream; None without such."""
    whole = b"".join(parts)
    streamed = not whole.lstrip().startswith(b"{")
    for payload in reversed([sse.data(event) for event in sse.events(whole)]) if streamed else (whole,):
        try:
            found = _decode_stored_event(payload).response if streamed else _decode_stored(payload)
        except UNREADABLE:
            continue  # a comment, or half an event
        return found.id, [bytes(item) for item in found.output]
    return None
