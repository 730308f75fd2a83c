"""The one-method seam between signals and the engine that finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from pointsman.evidence._rendering import oracle_source
from pointsman.evidence._separation import without_marks
from pointsman.evidence._signals import SignalTable

__all__ = ["Engine", "Matcher", "ReMatcher"]


class Matcher(Protocol):
    """Finds which signals occur in a text."""

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in a lower-cased text, in time linear in its length."""
        ...


class Engine(Matcher, Protocol):
    """A matcher that compiles a ``PatternSet``."""

    def find(self, data: bytes, /) -> Sequence[int]:
        """Return which sources occur in framed text: matching alone, without normalisation of the text."""
        ...


class ReMatcher:
    """One ``re`` search per signal: slow, obvious, the oracle the fast engines are tested against."""

    def __init__(self, table: SignalTable) -> None:
        self._compiled = [(table.bit(s), re.compile(oracle_source(s))) for s in table.signals]

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in the text."""
        text = without_marks(lowered).encode("utf-8", "replace").decode()
        hits = 0
        for bit, pattern in self._compiled:
            if pattern.search(text):
                hits |= bit
        return hits
