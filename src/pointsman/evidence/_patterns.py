"""All patterns of a signal table, once each, ready for an engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

from pointsman.errors import LexiconError
from pointsman.evidence._chars import END_FRAME, MARKS, START_FRAME
from pointsman.evidence._rendering import engine_source
from pointsman.evidence._separation import separated, without_marks
from pointsman.evidence._signals import Signal, SignalTable

__all__ = ["PatternSet", "framed"]


class PatternSet:
    """Sources for an engine; source *i* represents the signals in ``masks[i]``.

    Several lexicons name the same word: it is looked for once, and one hit sets the bits of all of them.
    """

    def __init__(self, table: SignalTable) -> None:
        """Parse every signal.

        Raises:
            LexiconError: names the signal and why its pattern is refused.
        """
        self.table: Final = table
        by_source: dict[str, int] = {}
        reads_separated = 0
        for signal in table.signals:
            source, separated = _source(signal)
            bit = table.bit(signal)
            by_source[source] = by_source.get(source, 0) | bit
            reads_separated |= bit if separated else 0
        self.sources: Final = tuple(by_source)
        self.masks: Final = tuple(by_source.values())
        self._reads_separated: Final = reads_separated

    @property
    def digest(self) -> str:
        """Identity of the sources, for a cache."""
        return hashlib.sha256("\n".join(self.sources).encode(), usedforsecurity=False).hexdigest()

    def match(self, lowered: str, find: Callable[[bytes], Iterable[int]]) -> int:
        """The mask of signals in a lower-cased text, by an engine that finds sources in bytes.

        One pass; a second one over the text as it is where setting words apart changed it.
        """
        if any(map(lowered.__contains__, MARKS)):
            lowered = without_marks(lowered)
        apart = lowered if lowered.isascii() else separated(lowered)
        hits = self._hits(find(framed(apart)))
        if apart is lowered:
            return hits
        return (hits & self._reads_separated) | (self._hits(find(framed(lowered))) & ~self._reads_separated)

    def refuse(self, index: int, reason: str) -> LexiconError:
        """The error for a source that an engine does not take."""
        signal = next(self.table.of(self.masks[index]))
        return LexiconError(f"{signal.id}: {reason}")

    def _hits(self, found: Iterable[int]) -> int:
        masks = self.masks
        hits = 0
        for index in found:
            hits |= masks[index]
        return hits


def framed(text: str) -> bytes:
    """The UTF-8 bytes that an engine reads. A lone surrogate is no character of UTF-8 and becomes "?"."""
    return f"{START_FRAME}{text}{END_FRAME}".encode("utf-8", "replace")


def _source(signal: Signal) -> tuple[str, bool]:
    try:
        return engine_source(signal)
    except LexiconError as error:
        raise LexiconError(f"{signal.lexicon}/{signal.group}: {error.message}", hint=error.hint) from None
