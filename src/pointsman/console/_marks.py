"""Marks the words in a text that a decision was made on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from pointsman.remembering import grouped
from pointsman.tiers import Contribution

#: Characters of a text that are shown, and words that are looked for in it.
MOST_SHOWN: Final = 20_000
_MOST_WORDS: Final = 200


class Piece(NamedTuple):
    """A part of a text; if it is marked, the dimensions that found it."""

    text: str
    found_by: str = ""
    lowers: bool = False  # it lowers the score


def marked(text: str, contributions: Iterable[Contribution]) -> tuple[Piece, ...]:
    """Cut a text at the words that were found in it. The longest of several that begin together is marked."""
    words = grouped((word.lower(), part) for part in contributions for word in part.keywords)
    shown = text[:MOST_SHOWN]
    if not words:
        return (Piece(shown),)
    longest_first = sorted(words, key=lambda word: (-len(word), word))[:_MOST_WORDS]
    pattern = re.compile("|".join(_bounded(word) for word in longest_first), re.IGNORECASE)
    pieces, end = [], 0
    for match in pattern.finditer(shown):
        by = words.get(match[0].lower())
        if not by or match.start() == match.end():
            continue
        pieces.append(Piece(shown[end : match.start()]))
        names = ", ".join(dict.fromkeys(part.dimension for part in by))
        pieces.append(Piece(match[0], names, sum(part.weight * part.score for part in by) < 0))
        end = match.end()
    return (*(piece for piece in pieces if piece.text), Piece(shown[end:]))


def _bounded(word: str) -> str:
    """The word as a whole: no letter before or after it, where it begins and ends with one."""
    before = r"(?<!\w)" if word[:1].isalnum() else ""
    after = r"(?!\w)" if word[-1:].isalnum() else ""
    return f"{before}{re.escape(word)}{after}"
