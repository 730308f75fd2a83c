"""The one-method seam between signals and the engine that finds them."""

from __future__ import annotations

import re
from typing import Protocol

from pointsman.evidence.signals import Kind, Signal, SignalTable

__all__ = ["Matcher", "ReMatcher"]


class Matcher(Protocol):
    """Finds which signals occur in a text."""

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in a lower-cased text, in time linear in its length."""
        ...


class ReMatcher:
    """One ``re`` search per signal: slow, obvious, the oracle the fast engines are tested against."""

    def __init__(self, table: SignalTable) -> None:
        self._compiled = [(table.bit(s), re.compile(_source(s))) for s in table.signals]

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in the text."""
        hits = 0
        for bit, pattern in self._compiled:
            if pattern.search(lowered):
                hits |= bit
        return hits


def _source(signal: Signal) -> str:
    if signal.kind is Kind.REGEX:
        return signal.pattern
    before = "" if signal.kind is Kind.SUBSTRING else r"(?<!\w)"
    after = r"(?!\w)" if signal.kind is Kind.WORD else ""
    return before + re.escape(signal.pattern) + after
