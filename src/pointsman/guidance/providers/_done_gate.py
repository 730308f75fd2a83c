"""Tells an agent that says it is done what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._results import ClassificationResult
from pointsman.guidance.classifiers._unfinished import DEFAULT_EVIDENCE, Evidence, UnfinishedClassifier
from pointsman.guidance.providers._base import GuidanceInjection
from pointsman.trajectory.checks import Unfinished

__all__ = ["DoneGateProvider"]

_TEXTS: Final = {
    Unfinished.TESTS_FAIL: "The last test run of this task failed, and no later run passed. Fix the cause "
    "and run the tests again. If the failure has nothing to do with the task, say so and name the tests.",
    Unfinished.EDITED_AFTER_TESTS: "Files were edited after the last test run of this task, and nothing was "
    "run since. Run the tests again, and fix what fails.",
    Unfinished.COMMAND_FAILED: "The last program that was run after the edits of this task failed. Fix the "
    "cause and run it again, or say that it fails and why.",
    Unfinished.NOT_RUN: "Files were edited for this task, and neither a test nor a program was run. Run the "
    "tests that cover the edits, or say that there are none.",
}
#: Where another classifier speaks, such as a model that was asked.
_OTHERWISE: Final = "This task may not be done. Compare the work with what was asked, and do what is missing."


@dataclass(frozen=True, slots=True)
class DoneGateProvider:
    """Speaks where the evidence of a run speaks against its work being done."""

    evidence: tuple[Evidence, ...] = DEFAULT_EVIDENCE
    priority: int = 40  # before other hints: the agent is about to end

    @property
    def name(self) -> str:
        """Name shown in records."""
        return "done_gate"

    @property
    def category(self) -> str:
        """Kind of guidance."""
        return "diagnostic"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return UnfinishedClassifier(self.evidence).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Say what is missing, and the next step."""
        text = _TEXTS.get(self.classify(context).metadata.get("evidence", ""), _OTHERWISE)
        return GuidanceInjection("done.gate", text, self.priority, self.category)
