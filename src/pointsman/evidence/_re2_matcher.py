"""The replacement where Hyperscan has no wheel: RE2 sets, at two to ten times the cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import re2

from pointsman.evidence._patterns import PatternSet

__all__ = ["Re2Matcher"]

#: RE2 builds its automaton while it reads and starts again when this is full; past it, it gives up. Ten times
#: what 3,000 patterns have been seen to need.
_MAX_MEMORY: Final = 256 << 20  # bytes

#: A repeat with a count, as ``engine_source`` writes it: not {0,1}, {0,} or {1,}, and not a character code.
_COUNTED: Final = re.compile(r"(?<!\\x)\{(?!0,1\}|[01],\})")


class Re2Matcher:
    """An ``Engine``. May be shared between threads."""

    def __init__(self, patterns: PatternSet) -> None:
        """Compile the patterns.

        A counted repeat multiplies the states of whatever shares its automaton (400 kB of fresh English took
        645 ms with all patterns in one set, 23 ms this way), so each such pattern is in a separate set.

        Raises:
            LexiconError: RE2 does not take one of them; names it.
        """
        self._patterns = patterns
        counted = [index for index, source in enumerate(patterns.sources) if _COUNTED.search(source)]
        plain = sorted(set(range(len(patterns.sources))).difference(counted))
        groups = [group for group in (plain, *([index] for index in counted)) if group]
        self._sets: Final = [(group, _compile(patterns, group)) for group in groups]

    def match(self, lowered: str) -> int:
        """Return the mask of signals that occur in a lower-cased text."""
        return self._patterns.match(lowered, self.find)

    def find(self, data: bytes) -> list[int]:
        """Return which sources occur in framed text."""
        return [group[index] for group, matcher in self._sets for index in matcher.Match(data) or ()]


def _compile(patterns: PatternSet, group: Sequence[int]) -> re2.Set:
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    compiled = re2.Set.SearchSet(options)
    for index in group:
        try:
            compiled.Add(patterns.sources[index])
        except re2.error as error:
            raise patterns.refuse(index, f"RE2 does not take the pattern: {error}") from None
    compiled.Compile()
    return compiled
