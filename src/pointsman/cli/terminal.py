"""Whether a stream shows colours, and the colours of tiers and of what failed. Nothing here imports rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

__all__ = ["FAILED", "HINTED", "TIERS", "coloured", "has_colour", "is_terminal"]

#: Select Graphic Rendition (ECMA-48, 8.3.117). The tier's name stands beside its colour.
TIERS: Final[Mapping[str, str]] = {"SIMPLE": "32", "MEDIUM": "36", "COMPLEX": "33", "REASONING": "35"}
FAILED: Final = "31"
HINTED: Final = "1"
_PLAIN: Final = {"", "dumb"}


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person looks at a stream; by default at standard output."""
    stream = stream or sys.stdout
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: TextIO | None = None) -> bool:
    """Whether a stream shows colours: a terminal that can, unless ``NO_COLOR`` is set (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in _PLAIN


def coloured(text: str, rendition: str) -> str:
    """Return a text, which must hold no character that acts, in a colour."""
    return f"\x1b[{rendition}m{text}\x1b[0m" if rendition else text
