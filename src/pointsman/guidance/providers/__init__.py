"""The built-in providers: when each speaks by itself, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pointsman.guidance._context import ClassificationResult, GuidanceContext
from pointsman.guidance._wording import consultation, diagnosis, loop, parallel
from pointsman.guidance.classifiers._heuristic import SequentialWhenParallelClassifier
from pointsman.guidance.classifiers._pattern import DoomLoopClassifier, ErrorStreakClassifier
from pointsman.guidance.classifiers._unfinished import DEFAULT_EVIDENCE, Evidence, UnfinishedClassifier
from pointsman.guidance.providers._base import (
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.trajectory import DoomLoop
from pointsman.trajectory.checks import Unfinished

__all__ = [
    "ConsultationPromptProvider",
    "DiagnosticSignalProvider",
    "DoneGateProvider",
    "DoomLoopBreaker",
    "GuidanceInjection",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "ParallelToolReminder",
]

# Reminds an agent that independent calls can go into one turn.


@dataclass(frozen=True, slots=True)
class ParallelToolReminder:
    """By itself speaks after three turns of one independent call each; a matter of speed, so last in line."""

    sequential_threshold: int = 3  # turns
    priority: int = 200

    @property
    def name(self) -> str:
        """Name shown in records."""
        return "parallel_tool_reminder"

    @property
    def category(self) -> str:
        """Kind of guidance."""
        return "efficiency"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return SequentialWhenParallelClassifier(threshold=self.sequential_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the calls."""
        text = parallel(context.trajectory, self.sequential_threshold)
        return GuidanceInjection("parallel.reminder", text, self.priority, self.category)


# Names the cycle an agent goes round in.


@dataclass(frozen=True, slots=True)
class DoomLoopBreaker:
    """By itself speaks at the third round; the first of all guidance, since nothing else gets through."""

    max_repetitions: int = 3
    planning_tool: str = ""  # a tool of the agent that reconsiders the plan, if it has one
    priority: int = 10

    @property
    def name(self) -> str:
        """Name shown in records."""
        return "doom_loop_breaker"

    @property
    def category(self) -> str:
        """Kind of guidance."""
        return "loop"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return DoomLoopClassifier(self.max_repetitions).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the cycle; where another classifier called, the trouble there is."""
        found = context.trajectory.patterns().get("doom_loop")
        text = (
            loop(found, self.planning_tool)
            if isinstance(found, DoomLoop)
            else diagnosis(context.trajectory, 1, self.planning_tool)
        )
        return GuidanceInjection("doom_loop.breaker", text, self.priority, self.category, self.planning_tool)


# Tells an agent that says it is done what is missing.

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
        """Name the missing part, and the next step."""
        text = _TEXTS.get(self.classify(context).metadata.get("evidence", ""), _OTHERWISE)
        return GuidanceInjection("done.gate", text, self.priority, self.category)


# Says which call failed, how often and with what.


@dataclass(frozen=True, slots=True)
class DiagnosticSignalProvider:
    """Speaks by itself at a streak of errors: three double the odds that the run fails.

    Source: docs/explanation/guidance.md, "What recorded runs show".
    """

    error_threshold: int = 3  # calls
    log_tool_name: str = ""  # a tool of the agent that shows more, if it has one
    priority: int = 50

    @property
    def name(self) -> str:
        """Name shown in records."""
        return "diagnostic_signal"

    @property
    def category(self) -> str:
        """Kind of guidance."""
        return "diagnostic"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return ErrorStreakClassifier(self.error_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the trouble."""
        text = diagnosis(context.trajectory, self.error_threshold, self.log_tool_name)
        return GuidanceInjection("diagnostic.signal", text, self.priority, self.category, self.log_tool_name)


# Sends an agent that stays stuck to someone else.


@dataclass(frozen=True, slots=True)
class ConsultationPromptProvider:
    """By itself speaks at five failures in a row; the default policy sends it when a hint did not help."""

    failure_threshold: int = 5  # calls
    consultation_tool: str = ""  # a tool of the agent that asks someone, if it has one
    priority: int = 20

    @property
    def name(self) -> str:
        """Name shown in records."""
        return "consultation_prompt"

    @property
    def category(self) -> str:
        """Kind of guidance."""
        return "consultation"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return ErrorStreakClassifier(self.failure_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Tell the agent to stop and ask."""
        text = consultation(context.trajectory, self.consultation_tool)
        return GuidanceInjection(
            "consultation.prompt", text, self.priority, self.category, self.consultation_tool
        )
