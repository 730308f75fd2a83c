"""The drop-in where Hyperscan has no wheel: one RE2 set, about twice the time of Hyperscan."""

from __future__ import annotations

from typing import Final

import re2

from pointsman.evidence.patterns import PatternSet

__all__ = ["Re2Matcher"]

#: RE2 builds its automaton while it reads and starts again when this is full; past it, it gives up. Ten times
#: what 600 patterns have been seen to need.
_MAX_MEMORY: Final = 256 << 20  # bytes


class Re2Matcher:
    """An ``Engine``. May be shared between threads."""

    def __init__(self, patterns: PatternSet) -> None:
        """Compile the patterns.

        Raises:
            LexiconError: RE2 does not take one of them; names it.
        """
        self._patterns = patterns
        options = re2.Options()
        options.max_mem = _MAX_MEMORY
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        for index, source in enumerate(patterns.sources):
            try:
                self._set.Add(source)
            except re2.error as error:
                raise patterns.refuse(index, f"RE2 does not take the pattern: {error}") from None
        self._set.Compile()

    def match(self, lowered: str) -> int:
        """Return the mask of signals that occur in a lower-cased text."""
        return self._patterns.match(lowered, self.find)

    def find(self, data: bytes) -> list[int]:
        """Return which sources occur in framed text."""
        return self._set.Match(data) or []
