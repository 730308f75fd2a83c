"""Items of ``input`` that are no part of the conversation: tools and settings, as Codex sends them.

For its newest models Codex leaves ``tools`` out and offers them by an item of type ``additional_tools``, and
repeats the effort in one of type ``configuration_update``: so the beginning of a request stays the same, and
cached, when they change.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.responses._compaction import ASK, said, user_message

__all__ = [
    "NO_SETTINGS",
    "SETTINGS",
    "Settings",
    "additional_tools",
    "begins_with_settings",
    "holds_settings",
    "take_settings",
]

_TOOLS: Final = "additional_tools"
_UPDATE: Final = "configuration_update"
#: Types of these items.
SETTINGS: Final = frozenset({_TOOLS, _UPDATE})
_TRIGGER: Final = "compaction_trigger"
_COMPACTION: Final = "compaction"
_MARKS: Final = tuple(f'"{kind}"'.encode() for kind in (_TOOLS, _UPDATE, _TRIGGER, _COMPACTION))


class _Reasoning(msgspec.Struct, gc=False):
    effort: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    tools: list[msgspec.Raw] = []
    reasoning: _Reasoning | None = None
    encrypted_content: str | None = None


class Settings(msgspec.Struct, frozen=True, gc=False):
    """What such items hold, and the conversation without them."""

    rest: msgspec.Raw  # of ``input``
    tools: tuple[msgspec.Raw, ...] = ()
    effort: str = ""  # of the last that names one
    compacts: bool = False  # the answer is to be a compaction


NO_SETTINGS: Final = Settings(msgspec.Raw())


class _Type(msgspec.Struct, gc=False):
    type: str | None = None


class _Offer(msgspec.Struct, gc=False):
    tools: msgspec.Raw = msgspec.Raw()


_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_type: Final = msgspec.json.Decoder(_Type).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_offer: Final = msgspec.json.Decoder(_Offer).decode
#: Bytes at the beginning of an item among which its type is looked for.
_HEAD: Final = 200


def begins_with_settings(given: msgspec.Raw) -> bool:
    """Whether the first item of ``input`` may be one: Codex sends its tools there."""
    return _MARKS[0] in bytes(memoryview(given)[:_HEAD])


def holds_settings(given: bytes) -> bool:
    """Whether ``input`` may hold such items: a search of 0.1 ms in 70 kB, for what cannot be read quickly."""
    return any(mark in given for mark in _MARKS)


def additional_tools(first: msgspec.Raw) -> msgspec.Raw | None:
    """The list of tools in the first item of ``input``; None where it offers none."""
    if _MARKS[0] not in bytes(memoryview(first)[:_HEAD]):
        return None
    try:
        return _decode_offer(first).tools
    except UNREADABLE:
        return None


def take_settings(given: msgspec.Raw) -> Settings:
    """Read these items out of ``input``, which is left as it is where it cannot be read."""
    rest: list[bytes] = []
    tools: list[msgspec.Raw] = []
    effort, compacts = "", False
    try:
        for raw in _decode_items(given):
            kind = _decode_type(raw).type
            if kind in SETTINGS:
                item = _decode_item(raw)
                tools += item.tools
                effort = (item.reasoning and item.reasoning.effort) or effort
            else:
                compacts = compacts or kind == _TRIGGER
                rest.append(_said(raw, kind))
    except UNREADABLE:
        return Settings(given)
    return Settings(msgspec.Raw(b"[" + b",".join(rest) + b"]"), tuple(tools), effort, compacts)


def _said(raw: msgspec.Raw, kind: str | None) -> bytes:
    """An item, or the message that stands for a compaction or for asking for one."""
    if kind == _TRIGGER:
        return user_message(ASK)
    if kind == _COMPACTION:
        return said(_decode_item(raw).encrypted_content or "") or bytes(raw)
    return bytes(raw)
