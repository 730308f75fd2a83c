"""JSON from elsewhere: what decoding it can raise, and half surrogate pairs."""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["UNREADABLE", "why_unreadable", "without_halves"]

#: What decoding bytes that nobody has vetted can raise: no JSON or another shape, no UTF-8, too deep.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def why_unreadable(error: Exception) -> str:
    """Put one of ``UNREADABLE`` into words for the person whose line or file it is."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    return "not UTF-8" if isinstance(error, UnicodeError) else str(error)


def without_halves(json: bytes) -> bytes:
    """Return JSON of the same length in which every escaped half of a pair is the replacement character.

    JavaScript writes a half when it cuts a text inside an emoji; no UTF-8 holds one, and strict decoders
    refuse it. What is relayed keeps it.
    """
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], json)
