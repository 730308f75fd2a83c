"""Half surrogate pairs: JavaScript writes one when it cuts a text inside an emoji, and no UTF-8 holds it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["without_halves"]

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def without_halves(json: bytes) -> bytes:
    """Return JSON of the same length in which every escaped half is the replacement character.

    Strict decoders refuse a half; what is relayed keeps it.
    """
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], json)
