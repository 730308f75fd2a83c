"""A scanner over the best engine installed, with its compiled patterns cached on disk between starts."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

from pointsman.evidence import PatternSet, Reading, Scanner, Signal, SignalTable, build_matcher
from pointsman.stores.replacing import replaced

__all__ = ["CompiledPatterns", "cache_directory", "open_scanner"]

log = logging.getLogger(__name__)

_SUFFIX: Final = ".patterns"
#: Files in the cache: some versions of a few lexicons, about 1.5 MB each.
_KEPT: Final = 16
_DIGEST: Final = hashlib.sha256().digest_size


def open_scanner(
    signals: Iterable[Signal],
    *,
    normalised_for: str = "",
    lowering: Container[str] = (),
    directory: Path | None = None,
    read_only: bool = False,
) -> Scanner:
    """Build a scanner that listens for the signals.

    Args:
        signals: The declared signals of every lexicon in use.
        normalised_for: The lexicon for which texts are normalised before they are scanned; empty for none.
        lowering: Groups of that lexicon that raise nothing.
        directory: Where compiled patterns are cached; ``cache_directory()`` when not given.
        read_only: Whether compiled patterns are taken from there and none is written.

    Raises:
        LexiconError: a pattern is refused; names it and why.
        MissingExtra: no matching engine is installed.
    """
    table = SignalTable(signals)
    where = directory or cache_directory()
    matcher = build_matcher(
        PatternSet(table), keep=CompiledPatterns(where, read_only=read_only) if where else None
    )
    reading = Reading(table, normalised_for, lowering) if normalised_for else None
    return Scanner(table, matcher, reading=reading)


def cache_directory() -> Path | None:
    """``$POINTSMAN_CACHE_DIR``, else ``pointsman`` in the user's cache directory (XDG base directories).

    None for a user without a home: a directory that others can write to is no place for compiled code.
    """
    if chosen := os.environ.get("POINTSMAN_CACHE_DIR"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointsman"
    except RuntimeError:
        return None


class CompiledPatterns:
    """Files of compiled patterns, each behind a digest of itself: a torn or altered one is not taken up."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        self._directory = directory
        self._read_only = read_only

    def get(self, key: str) -> bytes | None:
        """Return the cached patterns, or None when they are missing or incomplete."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, compiled = content[:_DIGEST], content[_DIGEST:]
        return compiled if hashlib.sha256(compiled).digest() == digest else None

    def put(self, key: str, compiled: bytes) -> None:
        """Cache it for the next start. A disk that cannot be written costs that start a second, no more."""
        if self._read_only:
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replaced(self._path(key)) as draft:
                draft.write_bytes(hashlib.sha256(compiled).digest() + compiled)
            self._prune()
        except OSError as error:
            log.warning("compiled patterns cannot be cached in %s: %s", self._directory, error)

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"

    def _prune(self) -> None:
        files = sorted(self._directory.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
        for file in files[:-_KEPT]:
            file.unlink(missing_ok=True)
