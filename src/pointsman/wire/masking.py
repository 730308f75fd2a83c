"""Masks the operator's keys in upstream answers, in any escaping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE, without_halves
from pointsman.wire import sse

__all__ = ["masked", "masked_events", "masked_text"]

_MASK: Final = b"***"


def masked_text(text: str, secrets: Sequence[bytes]) -> str:
    """Return a text without the secrets that it repeats."""
    for secret in secrets:
        text = text.replace(secret.decode(), _MASK.decode())
    return text


def masked(body: bytes, secrets: Sequence[bytes]) -> bytes:
    """Return a body without the secrets that it repeats: as they are, or in the escapes of JSON.

    A body with a secret in escapes is encoded again; every other is returned unchanged.
    """
    for secret in secrets:
        body = body.replace(secret, _MASK)
    if not secrets or b"\\" not in body:
        return body
    try:
        plain = found = msgspec.json.encode(msgspec.json.decode(without_halves(body)))
    except UNREADABLE:
        return body  # no JSON: a backslash is nothing but itself
    for secret in secrets:
        found = found.replace(msgspec.json.encode(secret.decode())[1:-1], _MASK)
    return body if found == plain else found


def masked_events(block: bytes, secrets: Sequence[bytes]) -> bytes:
    """Return a block of server-sent events without secrets; only blocks that hold an error are searched."""
    if not secrets or b"error" not in block:
        return block
    for secret in secrets:
        block = block.replace(secret, _MASK)
    for single in sse.events(block) if b"\\" in block else ():
        data = sse.data(single)
        block = block.replace(data, masked(data, secrets)) if data else block
    return block
