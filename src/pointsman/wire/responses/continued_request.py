"""A Responses request that goes on from an earlier answer, as one that holds the whole conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.body import Body, Edit

__all__ = ["own_items", "whole_request"]


class _Head(msgspec.Struct, gc=False):
    type: str = ""


_decode_head: Final = msgspec.json.Decoder(_Head).decode


def whole_request(body: Body, earlier: Sequence[bytes]) -> bytes:
    """Return a request with the items of earlier turns before its own, which continues nothing.

    Args:
        body: The request; its ``previous_response_id`` is set.
        earlier: Items as JSON, separated by commas, of each turn.
    """
    own, span = _own(body), body.span("input")
    items = b"[%s]" % b",".join(part for part in (*earlier, own) if part)
    named = body.span("previous_response_id")
    edits: list[Edit] = [(named, b"null")] if named else []
    if span is None:
        start = body.raw.index(b"{") + 1
        edits.append(((start, start), b'"input":' + items + b","))
    else:
        edits.append((span, items))
    return body.edited(edits)


def own_items(body: Body, answer: Sequence[bytes]) -> bytes:
    """Return the items of a request and of its answer, as JSON separated by commas.

    Reasoning in a translated answer is the translation's: it is left out.
    """
    return b",".join(part for part in (_own(body), *(item for item in answer if _is_kept(item))) if part)


def _own(body: Body) -> bytes:
    span = body.span("input")
    value = body.readable[slice(*span)].strip() if span else b"null"
    if value.startswith(b'"'):
        return b'{"type":"message","role":"user","content":%s}' % value
    return value[1:-1].strip() if value.startswith(b"[") else b""


def _is_kept(item: bytes) -> bool:
    try:
        return _decode_head(item).type != "reasoning"
    except UNREADABLE:
        return False
