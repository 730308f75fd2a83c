"""Text made ready for an engine: framed, and with its words set apart.

A bound that may be any of a million characters makes automata 15 times slower to compile and a third slower
to run than a bound of one ASCII byte. So the characters that are neither ASCII nor part of a word (Han, curly
quotes, full-width forms) are set apart by frames once per text, and a word then ends at an ASCII byte always.
"""

from __future__ import annotations

import re
from typing import Final

from pointsman.evidence.chars import END_FRAME, START_FRAME, WORD, CharSet

__all__ = ["framed", "separated", "without_frames"]


def _ranges(chars: CharSet) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in chars)


#: A run that begins with a character outside words and ASCII, and goes on to the next word. Within it nothing
#: needs setting apart, so that a line of Korean is one run, not one for each word.
_RUN: Final = re.compile(f"([^\\x00-\\x7f{_ranges(WORD)}][^{_ranges(WORD)}]*+)")

_REPLACEMENT: Final = "\ufffd"


def without_frames(text: str) -> str:
    """The text with the two control characters that are our frames replaced."""
    if START_FRAME in text or END_FRAME in text:
        return text.replace(START_FRAME, _REPLACEMENT).replace(END_FRAME, _REPLACEMENT)
    return text


def separated(text: str) -> str:
    """The text with frames around its runs outside words and ASCII; the same object when it has none."""
    if text.isascii():
        return text
    parts = _RUN.split(text)
    return END_FRAME.join(parts) if len(parts) > 1 else text


def framed(text: str) -> bytes:
    """The UTF-8 bytes that an engine reads. A lone surrogate is no character of UTF-8 and becomes "?"."""
    return f"{START_FRAME}{text}{END_FRAME}".encode("utf-8", "replace")
