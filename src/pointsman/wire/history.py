"""The messages of a request, kept as the bytes they came in and decoded only where someone looks.

An agent resends its whole history with every request. Two thousand messages cost one split (0.2 ms for
400 kB); only the few that a classifier reads are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire._items import ROLES, read_item

__all__ = ["JsonHistory"]


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message that is a role and a text, and nothing else."""

    role: str
    content: str
    type: Literal["message"] = "message"


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    function: _Function
    id: str = ""
    type: str = ""


class _ChatItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message of a chat with one text at most, as agents write their calls and the results of tools."""

    role: Role
    content: str | None = None
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str = ""


_decode_plain: Final = msgspec.json.Decoder(_Plain).decode
_decode_chat: Final = msgspec.json.Decoder(_ChatItem).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SMALL: Final = 2_048  # bytes of an item
_CHAT: Final = WireFormat.CHAT
_TOOL: Final = Role.TOOL  # by plain name: Python 3.11 finds a member through a descriptor, 0.15 µs each time


class JsonHistory:
    """A ``History`` over JSON items. Decoding never raises; an unreadable item is an empty message."""

    def __init__(self, wire: WireFormat, items: Sequence[msgspec.Raw | bytes]) -> None:
        self._wire = FORMATS[wire]
        self._role = self._wire.read_role
        self._read = _chat if wire is _CHAT else _plain
        self._items = items
        self._decoded: list[Message | None] = [None] * len(items)

    @classmethod
    def of(cls, wire: WireFormat, items: Iterable[Any]) -> JsonHistory:
        """Build from Python values, such as ``[{"role": "user", "content": "hi"}]``."""
        return cls(wire, [msgspec.json.encode(item, enc_hook=str) for item in items])

    def replaced(self, items: Mapping[int, msgspec.Raw | bytes]) -> JsonHistory:
        """The same history with other items at some positions."""
        return JsonHistory(
            self._wire.format, [items.get(index, item) for index, item in enumerate(self._items)]
        )

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Message:
        message = self._decoded[index]
        if message is not None:
            return message
        item = self._items[index]
        try:
            message = self._read(item)
        except UNREADABLE:
            message = None
        if message is None:
            message = read_item(self._wire, _any_value(item))
        self._decoded[index] = message
        return message

    def __iter__(self) -> Iterator[Message]:
        return map(self.__getitem__, range(len(self._items)))

    def role(self, index: int) -> Role:
        """The role of a message, found without building the message: 0.3 against 4 µs.

        A classifier that looks for the last words of a person passes over a thousand tool results.
        """
        known = self._decoded[index]
        if known is not None:
            return known.role
        item = self._items[index]
        if len(item) > _SMALL:  # a small one costs hardly more, and is often looked at next
            with suppress(*UNREADABLE):
                return self._role(item)
        return self[index].role


def _any_value(item: msgspec.Raw | bytes) -> object:
    """Decode an item of any shape; None where it is not JSON.

    A member that cannot be decoded, such as a number out of range, is left out: the words beside it count.
    """
    try:
        return msgspec.json.decode(item)
    except UNREADABLE:
        pass
    found: dict[str, Any] = {}
    try:
        members = _decode_members(item)
    except UNREADABLE:
        return None
    for name, value in members.items():
        with suppress(*UNREADABLE):
            found[name] = msgspec.json.decode(value)
    return found


def _plain(item: msgspec.Raw | bytes) -> Message | None:
    """Read an item that is a role and a text, as most are, at a third of the price; None for any other.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it cannot be decoded as one.
    """
    plain = _decode_plain(item)
    role = ROLES.get(plain.role, _TOOL)
    text = plain.content
    return None if role is _TOOL else Message(role, (text,) if text else ())


def _chat(item: msgspec.Raw | bytes) -> Message | None:
    """Read an item of a chat that is as plain as most are, at a third of the price; None for any other.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it cannot be decoded as one.
    """
    read = _decode_chat(item)
    text, role = read.content, read.role
    if role is _TOOL:
        # Without an id it may be a result of the time before tools.
        named = read.tool_call_id
        return Message(role, (), (), (ToolResult(named, text or ""),)) if named else None
    texts = (text,) if text else ()
    if not read.tool_calls:
        return Message(role, texts)
    if len(read.tool_calls) == 1:  # without a list, as most are
        [call] = read.tool_calls
        made = call.function
        return Message(role, texts, (ToolCall(call.id, made.name, made.arguments),))
    calls = [ToolCall(call.id, (made := call.function).name, made.arguments) for call in read.tool_calls]
    return Message(role, texts, tuple(calls))
