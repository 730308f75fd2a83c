"""Reasoning in requests and answers of the Responses format: its author, and its removal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.wire.body import Body
from pointsman.wire.reasoning import Cleaned, Origin, OwnReasoning, Thought, head, removals, spans
from pointsman.wire.responses._translation_answer import TRANSLATED

__all__ = ["OWN_REASONING"]

_MARK: Final = TRANSLATED.encode()
_ENCRYPTED: Final = re.compile(rb'"encrypted_content"\s*+:\s*+"([^"]++)"')
_ID: Final = re.compile(rb'"(rs_[^"]++)"')


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    encrypted_content: str | None = None
    summary: list[_Part] | None = None
    content: msgspec.Raw = msgspec.Raw()


class _Head(msgspec.Struct, gc=False):
    type: str = ""


_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


def _clean(body: Body, origin: Origin) -> Cleaned:
    items = body.conversation()[0]
    span = body.span("input")
    if not isinstance(items, list) or span is None:
        return Cleaned([], ())
    read = {at: _decode_item(raw) for at, raw in enumerate(items) if _decode_head(raw).type == "reasoning"}
    thoughts = {at: _thought(item) for at, item in read.items()}
    among_signed = any(thought.is_signed for at, thought in thoughts.items() if not _is_ours(read[at]))
    removed = [
        at
        for at, thought in thoughts.items()
        if _is_ours(read[at]) or origin.is_foreign(thought, among_signed=among_signed)
    ]
    if not removed:
        return Cleaned([], ())
    places = spans(body.readable, items, span[0])
    return Cleaned(list(removals(places, removed)), ("thinking_history",))


def _is_ours(item: _Item) -> bool:
    return (item.id or "").startswith(TRANSLATED)


def _thought(item: _Item) -> Thought:
    if item.encrypted_content or item.id:
        return Thought(item.encrypted_content or item.id or "", is_signed=True)
    words = "".join(part.text or "" for part in item.summary or ())
    return Thought(head(words), is_signed=False)


def _marks(block: bytes) -> Sequence[str]:
    if b"encrypted_content" not in block and b'"rs_' not in block:
        return ()
    found = (*_ENCRYPTED.findall(block), *_ID.findall(block))
    return [mark.replace(b"\\/", b"/").decode("utf-8", "replace") for mark in found]


OWN_REASONING: Final = OwnReasoning(translated=lambda body: _MARK in body, clean=_clean, marks=_marks)
