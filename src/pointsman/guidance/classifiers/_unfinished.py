"""Detects unchecked work at the end of a turn, from the agent's calls alone.

Source of the evidence and of the default: docs/explanation/guidance.md, "Work that is left unchecked".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pointsman.guidance._context import ClassificationResult, GuidanceContext
from pointsman.trajectory.checks import Unfinished, unfinished

Evidence: TypeAlias = Literal["tests_fail", "edited_after_tests", "command_failed", "not_run"]

#: "The last program failed" and "nothing was run" are as frequent in good runs as in failed ones.
DEFAULT_EVIDENCE: Final[tuple[Evidence, ...]] = ("tests_fail",)
_REASONS: Final = {
    Unfinished.TESTS_FAIL: "the last test run failed",
    Unfinished.EDITED_AFTER_TESTS: "files were edited after the last test run, and nothing was run since",
    Unfinished.COMMAND_FAILED: "the last program run after the edits failed",
    Unfinished.NOT_RUN: "files were edited, and neither a test nor a program was run",
}


@dataclass(frozen=True, slots=True)
class UnfinishedClassifier:
    """Fires at the point ``done`` while evidence speaks against the work being done.

    Without edits it never fires: a dialogue, an answer to a question or a report of failing tests is done.
    """

    evidence: tuple[Evidence, ...] = DEFAULT_EVIDENCE

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "unfinished"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment. ``once`` of the metadata names the reason, which is given once."""
        found = unfinished(context.trajectory.state)
        if found is None or found[0].value not in self.evidence:
            return ClassificationResult.no()
        kind, failed = found
        once = "-".join([kind, *sorted(failed)])
        return ClassificationResult.yes(reason=_REASONS[kind], metadata={"evidence": kind, "once": once})
