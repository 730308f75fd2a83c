"""References to items of earlier answers, in a Responses request.

The Vercel AI SDK names the items of an answer by their ids instead of sending them again, since OpenAI stores
them. What another provider answered and the gateway translated is stored by nobody else: these references are
replaced by the items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.responses._compaction import said

__all__ = ["Find", "referable", "with_items", "with_summaries"]

_REFERENCE: Final = b'"item_reference"'
#: Returns the item with an id as JSON; empty for reasoning, which is left out; None for an unknown one.
Find = Callable[[str], bytes | None]


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    encrypted_content: str | None = None


_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def referable(items: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the id of each item of an answer, and what a reference to it stands for."""
    for raw in items:
        try:
            item = _decode_item(raw)
        except UNREADABLE:
            continue
        if item.id:
            yield item.id, b"" if item.type == "reasoning" else raw


def with_items(body: bytes, find: Find) -> bytes:
    """Return a body with the items in place of references to them; the body itself where none is known.

    Each item is put in once: a conversation holds it once, and a small body must not become a large one.
    """
    if _REFERENCE not in body:
        return body
    named: set[str] = set()
    try:
        members = _decode_members(body)
        given = _decode_items(members["input"])
        found = [(raw, _found(raw, find, named)) for raw in given]
    except (KeyError, *UNREADABLE):
        return body
    if all(item is None for _, item in found):
        return body
    items = [bytes(raw) if item is None else item for raw, item in found if item != b""]
    members["input"] = msgspec.Raw(b"[" + b",".join(items) + b"]")
    return msgspec.json.encode(members)


def with_summaries(body: bytes) -> bytes:
    """Return a body with a message in place of each compaction of the gateway's; the body itself without."""
    try:
        members = _decode_members(body)
        given = _decode_items(members["input"])
        items = [_summary(raw) or bytes(raw) for raw in given]
    except (KeyError, *UNREADABLE):
        return body
    if items == [bytes(raw) for raw in given]:
        return body
    members["input"] = msgspec.Raw(b"[" + b",".join(items) + b"]")
    return msgspec.json.encode(members)


def _summary(raw: msgspec.Raw) -> bytes | None:
    return said(_decode_item(raw).encrypted_content or "") if b'"compaction"' in bytes(raw) else None


def _found(raw: msgspec.Raw, find: Find, named: set[str]) -> bytes | None:
    """What a reference stands for; None where an item is none, is unknown, or is named again."""
    if _REFERENCE not in bytes(raw):
        return None
    item = _decode_item(raw)
    if item.type != "item_reference" or not item.id or item.id in named:
        return None
    named.add(item.id)
    return find(item.id)
