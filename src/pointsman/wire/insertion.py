"""Inserts text into a prompt, at its end or at an earlier message; the formats share how places are found.

Everything before the place of insertion keeps its meaning, so the provider's prompt cache stays warm. The
agent resends its own history without the text, which is then inserted again at the same place
(docs/decisions/0133). Where a message takes text it goes inside that message, because a second user message
in a row, or one after a tool's, is refused by strict providers ("Unexpected role 'user' after role 'tool'";
docs/notebook/0031).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.format import Format, Insertion, Item

__all__ = [
    "append_text",
    "before_quote",
    "insertion",
    "mark",
    "new_item",
    "place_in_messages",
    "with_texts",
]

_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode: Final = msgspec.json.Encoder().encode
#: A member's name up to its value. A name with an escape is left to the fallback.
_NAME: Final = re.compile(rb'[\s,{]*+"([^"\\]*+)"\s*+:\s*+')


def mark(source: str, text: str) -> str:
    """Wrap text so that a model, and whoever reads a log, can tell whose it is.

    The mark is for readers only. Nothing here trusts one that it finds: users and tools can write it too.
    """
    return f'<pointsman source="{source}">\n{text}\n</pointsman>'


def append_text(wire: Format, items: bytes, text: str) -> bytes | None:
    """Return ``messages`` or ``input``, as JSON, with a text at its end; None where it has no place."""
    found = insertion(wire, items, text)
    return found.applied(items) if found else None


def insertion(wire: Format, items: bytes, text: str, last: Item | None = None) -> Insertion | None:
    """Find where a text goes at the end of ``messages`` or ``input``, given as JSON.

    None when the conversation ends with the assistant's own words, which the model is to continue, or when
    the JSON cannot be read.

    Args:
        wire: The format.
        items: The conversation, a list or, in Responses, a string.
        text: What to add.
        last: The last item of the list, where that is known: the list is then not split again.
    """
    try:
        return wire.place(items, last, text)
    except UNREADABLE:  # no place is found in it
        return None


def with_texts(wire: Format, item: Item, texts: Iterable[str]) -> bytes:
    """Return one item of a conversation with texts inside it, or in items of their own behind it.

    The same bytes as ``insertion`` gives where the item is the last. A text without a place is left out.
    """
    inside, behind = bytes(item), b""
    for text in texts:
        found = insertion(wire, b"[%b]" % inside, text, inside)
        if found is None:
            continue
        if found.at > len(inside):
            behind += found.data
        else:
            inside = found.applied(b"[%b]" % inside)[1:-1]
    return inside + behind


def place_in_messages(
    items: bytes, last: Item | None, text: str, *, as_blocks: bool = False
) -> Insertion | None:
    """Find the place in ``messages``, which chat completions and Messages share. Raises ``UNREADABLE``.

    Args:
        items: The messages, as JSON.
        last: The last of them, where that is known.
        text: What to add.
        as_blocks: A string gets a block beside it. Clients of Messages send the same words as a string or as
            a block, as a cache marker comes and goes: a model reads both alike, and so it must the addition.
    """
    if last is None:
        messages = _decode_items(items)
        last = messages[-1] if messages else None
    if last is not None:
        end = len(items.rstrip()[:-1].rstrip())  # of the last message
        message = bytes(last)
        members = _decode_members(message)
        role = _role(members)
        if role == "assistant":
            return None
        place = _in_content(message, members, text, as_blocks) if role in {"user", "tool"} else None
        if place:
            start = end - len(message)
            return Insertion(start + place.at, place.data, start + place.opened_at, place.opening)
    return new_item(items, {"role": "user", "content": text})


def _role(members: dict[str, msgspec.Raw]) -> str:
    return _decode_text(members["role"]) if "role" in members else ""


def _in_content(
    message: bytes, members: dict[str, msgspec.Raw], text: str, as_blocks: bool
) -> Insertion | None:
    """Inside the message's own content: at the end of a string, or as one more block of a list."""
    span = _span(message, members, "content")
    if span is None:
        return None
    start, end = span
    if message[start : start + 1] == b'"':
        # An empty block of text is refused.
        if as_blocks and end - start > len('""'):
            return Insertion(end, b"},%b]" % _block(text), start, b'[{"type":"text","text":')
        return before_quote(end, text)
    if message[start : start + 1] == b"[":
        inside = message[start + 1 : end - 1].strip()
        block = _block(text)
        return Insertion(end - 1, b"," + block if inside else block)
    return None


def _block(text: str) -> bytes:
    return _encode({"type": "text", "text": text})


def _span(message: bytes, members: dict[str, msgspec.Raw], name: str) -> tuple[int, int] | None:
    """Where a member's value stands; None when names stand twice or are written with escapes."""
    at, found = 0, None
    for member, value in members.items():
        match = _NAME.match(message, at)
        raw = bytes(value)
        if match is None or match[1] != member.encode() or not message.startswith(raw, match.end()):
            return None
        at = match.end() + len(raw)
        if member == name:
            found = match.end(), at
    return found if message[at:].strip() == b"}" else None


def before_quote(end: int, text: str) -> Insertion:
    """Insert before the quote that ends a string, which ends at ``end``."""
    return Insertion(end - 1, _encode("\n\n" + text)[1:-1])


def new_item(items: bytes, item: object) -> Insertion:
    """Insert one more item at the end of a list."""
    end = len(items.rstrip()) - 1
    is_empty = not items[:end].strip()[1:].strip()
    return Insertion(end, (b"" if is_empty else b",") + _encode(item))
