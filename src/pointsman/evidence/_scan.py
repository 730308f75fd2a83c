"""One scan of a text: ``Evidence``."""

from __future__ import annotations

from typing import Final

from pointsman.evidence._matcher import Matcher
from pointsman.evidence._signals import SignalTable
from pointsman.text import detect_script, estimate_tokens
from pointsman.vocabulary import Evidence

__all__ = ["Scanner"]

#: Kept evidence, in each of two generations. Twice 8 MiB holds the latest words of thousands of sessions and
#: leaves the gateway far under its 100 MB; an entry of a short prompt takes about 0.5 kB.
_ENTRIES: Final = 4096
_BYTES: Final = 8 << 20


class Scanner:
    """Turns the user's words into evidence, once for each text. May be shared between threads.

    Agents resend the same user message with every tool iteration; what was found in it is kept. The cache has
    two generations: when the young one is full it becomes the old one, whose entries are dropped at the next
    turn unless they were asked for again. Every step is one operation on a dict, so no lock is needed, and
    the count of bytes cannot drift, for it starts again with each generation.
    """

    def __init__(
        self,
        table: SignalTable,
        matcher: Matcher,
        *,
        cache_entries: int = _ENTRIES,
        cache_bytes: int = _BYTES,
    ) -> None:
        self.table: Final = table
        self._matcher: Final = matcher
        self._entries: Final = cache_entries  # of one generation
        self._bytes: Final = cache_bytes  # of the texts of one generation
        self._young: dict[str, Evidence] = {}
        self._old: dict[str, Evidence] = {}
        self._young_bytes = 0

    def scan(self, text: str) -> Evidence:
        """Scan one text, or return what is known of it. Evidence is immutable."""
        known = self._young.get(text)
        if known is not None:
            return known
        evidence = self._old.get(text) or self._examine(text)
        self._keep(evidence)
        return evidence

    def _examine(self, text: str) -> Evidence:
        length = len(text)
        is_ascii = text.isascii()
        return Evidence(
            text=text,
            hits=self._matcher.match(text.lower()),
            characters=length,
            utf16_units=length if is_ascii else len(text.encode("utf-16-le", "surrogatepass")) // 2,
            tokens=estimate_tokens(text),
            questions=text.count("?"),
            script=detect_script(text),
        )

    def _keep(self, evidence: Evidence) -> None:
        size = evidence.text.__sizeof__()
        if size > self._bytes:
            return
        if len(self._young) >= self._entries or self._young_bytes + size > self._bytes:
            self._old = self._young
            self._young = {}
            self._young_bytes = 0
        self._young[evidence.text] = evidence
        self._young_bytes += size
