"""The default pattern engine: Hyperscan (Vectorscan), one pass for any number of patterns."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

import hyperscan

from pointsman.errors import LexiconError
from pointsman.evidence._patterns import PatternSet

__all__ = ["HyperscanMatcher"]

#: SINGLEMATCH: one report per pattern and text; without it a class run makes Chinese ten times slower.
_FLAGS: Final = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_UTF8


class HyperscanMatcher:
    """An ``Engine``. May be shared between threads."""

    def __init__(self, patterns: PatternSet, database: hyperscan.Database) -> None:
        self._patterns = patterns
        self._database = database
        # Hyperscan needs working space of its own for every scan in progress. Free ones wait here: taking and
        # giving back the last element of a list is atomic, so that no lock is needed.
        self._scratches = [hyperscan.Scratch(database)]

    @classmethod
    def compile(cls, patterns: PatternSet) -> HyperscanMatcher:
        """Compile the patterns, in about a millisecond each.

        Raises:
            LexiconError: Hyperscan does not take one of them; names it.
        """
        try:
            matcher = cls(patterns, _compile(patterns.sources))
        except hyperscan.error:
            for index, source in enumerate(patterns.sources):
                try:
                    _compile((source,))
                except hyperscan.error as error:
                    raise patterns.refuse(index, f"Hyperscan does not take the pattern: {error}") from None
            raise LexiconError("Hyperscan cannot compile these patterns together") from None
        _return_freed_memory()
        return matcher

    @classmethod
    def load(cls, patterns: PatternSet, compiled: bytes) -> HyperscanMatcher | None:
        """Take up what ``serialize`` gave; None when this library or processor refuses it."""
        try:
            return cls(patterns, hyperscan.loadb(compiled, hyperscan.HS_MODE_BLOCK))
        except hyperscan.error:
            return None

    @staticmethod
    def cache_key(patterns: PatternSet) -> str:
        """Name of the compiled form in a cache; it differs for other patterns or another library."""
        return f"{patterns.digest}-hyperscan-{version('hyperscan')}"

    def serialize(self) -> bytes:
        """The compiled form, for a cache."""
        compiled: bytes = hyperscan.dumpb(self._database)
        return compiled

    def match(self, lowered: str) -> int:
        """Return the mask of signals that occur in a lower-cased text."""
        return self._patterns.match(lowered, self.find)

    def find(self, data: bytes) -> list[int]:
        """Return which sources occur in framed text."""
        found: list[int] = []
        try:
            scratch = self._scratches.pop()
        except IndexError:  # every space is in use by another thread
            scratch = hyperscan.Scratch(self._database)
        try:
            self._database.scan(data, _note, 0, found, scratch)
        finally:
            self._scratches.append(scratch)
        return found


def _note(index: int, start: int, end: int, flags: int, found: Any) -> None:  # noqa: ARG001 - the library's shape
    found.append(index)


def _compile(sources: tuple[str, ...]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[source.encode() for source in sources],
        ids=list(range(len(sources))),
        elements=len(sources),
        flags=[_FLAGS] * len(sources),
    )
    return database


def _return_freed_memory() -> None:
    """Return the working memory of the compiler to the system: glibc retains some 25 MB of it otherwise."""
    import ctypes  # loaded only by the process that compiles

    with suppress(OSError, AttributeError, TypeError):  # another C library, or another system
        ctypes.CDLL(None).malloc_trim(0)
