"""In-band commands of the selection of capabilities, ``/caps:off`` and ``/caps:off session``.

An agent resends a person's texts with every request. So a command is taken off wherever such a text begins
with one, also in earlier messages: each request begins with the bytes of the one before, and no model
sees a command. Only the latest message's command counts; its effect on the session is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities import CapabilityDecision, switch_pattern, take_switch
from pointsman.decoding import UNREADABLE, decode_items, decode_members
from pointsman.offload import offload_large
from pointsman.text.extract import persons_words
from pointsman.vocabulary import USER, AgentRequest
from pointsman.wire import Body
from pointsman.wire.body import Edit, Span
from pointsman.wire.request import JsonHistory

__all__ = ["Taken", "answer_switch", "may_hold_command", "take_commands"]

_MARK: Final = re.compile(rb"/cap", re.IGNORECASE)
#: A text as JSON, from its quote to the end of the command. Tags in which clients wrap a person's words may
#: stand before it.
_BLANK: Final = r"(?:[ ]|\\[nrt])"
_LINE_END: Final = rf'{_BLANK}*(?:\\n|")'
_IN_JSON: Final = re.compile(
    rf'"((?:<(?:user_query|user_request|user_message|task)>|{_BLANK})*+)'
    rf'{switch_pattern(_LINE_END)}(?:{_BLANK}++|(?="))'.encode(),
    re.IGNORECASE,
)
_TEXTS: Final = frozenset({"text", "input_text"})


class Taken(NamedTuple):
    """A request without its commands."""

    body: Body
    request: AgentRequest  # with the latest message's command
    is_alone: bool = False  # the latest message is a command and nothing else


def may_hold_command(body: Body) -> bool:
    """Whether a body may contain a command; false for most requests."""
    return _MARK.search(body.raw) is not None


async def take_commands(body: Body, request: AgentRequest) -> Taken:
    """Take the commands off a request, and off the bytes that go upstream; nothing else changes."""
    command, is_alone = _command(request)
    edits = list(_edits(body, request))
    if not edits:
        return Taken(body, msgspec.structs.replace(request, command=command), is_alone)
    taken = await offload_large(len(body.raw), _without, body, request, edits, command)
    return taken._replace(is_alone=is_alone)


def answer_switch(command: str, decided: CapabilityDecision | None) -> str:
    """Return the answer to a message that is a command and nothing else."""
    if decided is None:
        return "Pointsman selects no capabilities for this request; [capabilities] configures it."
    state = "off: all capabilities are active" if decided.bypass else "on"
    if command.endswith(":session"):
        return f"Selection of capabilities is {state}, for this session."
    return f"Selection of capabilities is {state}, for this message only. For the session: {command} session"


def _command(request: AgentRequest) -> tuple[str, bool]:
    """The latest message's command in its one spelling, and whether the message holds nothing else."""
    command, rest = take_switch(persons_words(request))
    return command, bool(command) and not rest


def _without(body: Body, request: AgentRequest, edits: list[tuple[int, Edit]], command: str) -> Taken:
    changed = Body(body.wire, body.edited([edit for _, edit in edits]))
    history = request.history
    if isinstance(history, JsonHistory):
        items = changed.items()
        behind = len(history) - len(items)
        new = {index + behind: items[index] for index, _ in edits} if items else _only(changed, behind)
        history = history.replaced(new)
    size = request.size - len(body.raw) + len(changed.raw)
    return Taken(changed, msgspec.structs.replace(request, history=history, size=size, command=command))


def _only(body: Body, count: int) -> Mapping[int, bytes]:
    """The one new message of a request whose conversation is a text; the last of ``count``."""
    text = body.text(body.wire.items) or ""
    return {count - 1: msgspec.json.encode({"role": "user", "content": text})}


def _edits(body: Body, request: AgentRequest) -> Iterator[tuple[int, Edit]]:
    """Yield the edits that remove a command from the beginning of a person's text, each with its item."""
    items = body.items()
    if not items:
        if span := body.span(body.wire.items):
            yield from ((0, (found, b"")) for found in _in_text(body.raw, span[0]))
        return
    behind = len(request.history) - len(items)
    wanted = [
        index
        for index, item in enumerate(items)
        if _MARK.search(memoryview(item)) and request.history.role(index + behind) is USER
    ]
    for index, (start, _) in zip(wanted, body.item_spans(items, wanted), strict=False):
        try:
            found = list(_in_item(bytes(items[index])))
        except UNREADABLE:  # for the upstream to refuse
            continue
        yield from ((index, ((start + at, start + end), b"")) for at, end in found)


def _in_item(item: bytes) -> Iterator[Span]:
    members = decode_members(item)
    content = bytes(members.get("content", msgspec.Raw(b"null")))
    at = item.find(content)
    if content[:1] == b'"':
        yield from _in_text(item, at)
    elif content[:1] == b"[":
        for block in decode_items(content):
            at = item.find(bytes(block), at)
            yield from _in_block(item, at, block)
            at += len(bytes(block))


def _in_block(item: bytes, at: int, block: msgspec.Raw) -> Iterator[Span]:
    parts = decode_members(block)
    kind = msgspec.json.decode(parts.get("type", msgspec.Raw(b"null")))
    if isinstance(kind, str) and kind in _TEXTS and "text" in parts:
        yield from _in_text(item, item.find(bytes(parts["text"]), at))


def _in_text(data: bytes, at: int) -> Iterator[Span]:
    """The command at the start of the JSON string at ``at``, unless nothing would be left of the text."""
    found = _IN_JSON.match(data, at)
    if found and data[found.end() : found.end() + 1] != b'"':
        yield found.end(1), found.end()
