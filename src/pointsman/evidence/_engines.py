"""The engines that find patterns: the best installed is selected, and its compiled patterns are cached.

Nothing here touches a disk: whoever may (``pointsman.stores.pattern_cache``) is handed bytes and hands them
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Protocol

from pointsman.errors import MissingExtra
from pointsman.evidence._patterns import PatternSet


class Matcher(Protocol):
    """Finds which signals occur in a text."""

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in a lower-cased text, in time linear in its length."""


class Engine(Matcher, Protocol):
    """A matcher that compiles a ``PatternSet``."""

    def find(self, data: bytes, /) -> Sequence[int]:
        """Return which sources occur in framed text: matching alone, without normalisation of the text."""


#: Names of the modules, which are those of the engines; fastest first (docs/decisions/0010).
_ENGINES: Final = ("hyperscan", "re2")


class Keep(Protocol):
    """Storage of compiled patterns between processes."""

    def get(self, key: str, /) -> bytes | None:
        """Return the stored bytes of a key, or None."""

    def put(self, key: str, compiled: bytes, /) -> None:
        """Store bytes under a key; a failure is no error."""


def engine_names() -> tuple[str, ...]:
    """Names of the engines installed, fastest first."""
    return tuple(name for name in _ENGINES if find_spec(name))


def build_matcher(patterns: PatternSet, *, engine: str = "", keep: Keep | None = None) -> Engine:
    """Make the patterns ready for an engine.

    Args:
        patterns: The patterns of the matcher.
        engine: "hyperscan" or "re2"; empty for the fastest installed.
        keep: Storage of the compiled form, read and written. A form of other patterns, of another
            library or for another processor is not taken up; the patterns are compiled again.

    Raises:
        LexiconError: the engine does not take one of the patterns; names it.
        MissingExtra: no engine, or not the one asked for, is installed.
    """
    if not patterns.sources:
        return _Nothing()
    installed = engine_names()
    chosen = next((name for name in installed if engine in {"", name}), "")
    if chosen == "hyperscan":
        return _hyperscan(patterns, keep)
    if chosen == "re2":
        from pointsman.evidence._re2_matcher import Re2Matcher

        return Re2Matcher(patterns)
    raise MissingExtra("re2", needed_for=f"matching patterns{f' with {engine}' if engine else ''}")


class _Nothing:
    """Looks for nothing, which the libraries refuse to do."""

    def match(self, lowered: str) -> int:  # noqa: ARG002 - the protocol's shape
        return 0

    def find(self, data: bytes) -> tuple[int, ...]:  # noqa: ARG002 - as above
        return ()


def _hyperscan(patterns: PatternSet, keep: Keep | None) -> Engine:
    from pointsman.evidence._hyperscan_matcher import HyperscanMatcher

    key = HyperscanMatcher.cache_key(patterns) if keep else ""
    kept = keep.get(key) if keep else None
    matcher = HyperscanMatcher.load(patterns, kept) if kept else None
    if matcher is None:
        matcher = HyperscanMatcher.compile(patterns)
        if keep:
            keep.put(key, matcher.serialize())
    return matcher
