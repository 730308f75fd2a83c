"""Indicators of progress in a tool result.

Two more signs need no text and are kept by the trajectory itself: a call and result it has not seen before
(a new file, a new resource), and a user message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pointsman.trajectory.agent_tools import PLANNING

#: Characters read at the end of a result: test runners and builds put their summary last.
SUMMARY: Final = 400


class ProgressIndicator(Protocol):
    """One sign of progress. Must be pure and quick: it runs on every successful call."""

    @property
    def name(self) -> str:
        """Stable name, shown in steps."""
        ...

    def shows(self, tool_name: str, end: str, /) -> bool:
        """True when the end of this successful result (``SUMMARY`` characters) shows progress."""
        ...


@dataclass(frozen=True, slots=True)
class TextIndicator:
    """Progress when the end of a result matches one pattern and not another."""

    name: str
    words: tuple[str, ...]  # one of these must be there, or the pattern is not tried: it costs ten times more
    pattern: re.Pattern[str]
    unless: re.Pattern[str]

    def shows(self, tool_name: str, end: str, /) -> bool:  # noqa: ARG002 - the protocol's shape
        """True when the summary matches and nothing in it speaks against."""
        if not any(map(end.__contains__, self.words)):
            return False
        return self.pattern.search(end) is not None and self.unless.search(end) is None


@dataclass(frozen=True, slots=True)
class PlanIndicator:
    """A tool for the plan was used: an item was added or ticked off."""

    name: str = "plan_step_completed"
    tools: frozenset[str] = PLANNING

    def shows(self, tool_name: str, end: str, /) -> bool:  # noqa: ARG002 - the protocol's shape
        """True for a plan tool."""
        return tool_name.lower() in self.tools


#: Summary formats of pytest, unittest, jest, go, cargo, Maven, Gradle, tsc, make and docker, each with what
#: the same tool prints on failure. Source: docs/explanation/guidance.md, "What counts as stuck".
DEFAULT_INDICATORS: Final[tuple[ProgressIndicator, ...]] = (
    TextIndicator(
        "test_passed",
        (" pass", "OK", "ok\t", "ok  ", "result: ok", "Tests run:"),
        re.compile(
            r"\b[1-9]\d* pass(?:ed|ing)\b|^OK\b|^ok\s+\S+|test result: ok|Tests run: [1-9]", re.MULTILINE
        ),
        re.compile(r"\b[1-9]\d* fail|\bFAILED\b|^FAIL\b|(?:Failures|Errors): [1-9]", re.MULTILINE),
    ),
    TextIndicator(
        "build_succeeded",
        ("BUILD SUCC", "uild succ", "piled succ", "Finished "),
        re.compile(
            r"\bBUILD SUCCESS|\bbuild (?:succeeded|successful)|compiled successfully|^Finished ",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(r"\bBUILD FAIL", re.IGNORECASE),
    ),
    PlanIndicator(),
)


def progress_in(tool_name: str, result: str, indicators: Sequence[ProgressIndicator]) -> str:
    """Name of the first indicator that a successful result shows, or ""."""
    end = result[-SUMMARY:]
    for indicator in indicators:
        if indicator.shows(tool_name, end):
            return indicator.name
    return ""
