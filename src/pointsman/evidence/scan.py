"""One scan of a text: ``Evidence``."""

from __future__ import annotations

from pointsman.evidence.matcher import Matcher
from pointsman.evidence.signals import SignalTable
from pointsman.types import Evidence, Script

__all__ = ["Scanner"]


class Scanner:
    """Turns a person's words into evidence."""

    def __init__(self, table: SignalTable, matcher: Matcher) -> None:
        self.table = table
        self._matcher = matcher

    def scan(self, text: str) -> Evidence:
        """Scan one text once."""
        data = text.encode("utf-8", "surrogatepass")
        return Evidence(
            text=text,
            hits=self._matcher.match(text.lower()),
            characters=len(text),
            utf16_units=len(text.encode("utf-16-le", "surrogatepass")) // 2,
            tokens=len(data) // 4,
            questions=text.count("?"),
            script=Script.NONE,
        )
