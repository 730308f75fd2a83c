"""Classifiers of the calls of a run: streaks, patterns, simple rules, and unchecked work at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import ClassVar, Final, Literal, TypeAlias

from pointsman.guidance._context import ClassificationResult, GuidanceContext, latest_turn_calls
from pointsman.trajectory import (
    DoomLoop,
    DoomLoopDetector,
    ProgressStallDetector,
    RepeatedErrorDetector,
    TrajectoryAnalysis,
)
from pointsman.trajectory.agent_tools import LOOKING
from pointsman.trajectory.checks import Unfinished, unfinished

# Classifiers that read the trajectory's streaks and patterns.
#
# Source of names, defaults and confidences: docs/sources/guidance-classifiers.md, "Pattern-based
# classifiers". Source of the error rate and the repeated error: docs/explanation/guidance.md, "What recorded
# runs show".


@dataclass(frozen=True, slots=True)
class DoomLoopClassifier:
    """Fires on a cycle of calls with the same results.

    Full confidence takes twice ``min_repetitions``, so a threshold of 0.8 over the default asks for five
    repetitions, which 4 to 11 of 1,998 recorded runs ever reach.
    """

    min_repetitions: int = 3
    min_cycle_length: int = 2  # calls; by result, one call repeated counts too
    by: Literal["result", "name"] = "result"  # "name": tool names alone (docs/notebook/0032)

    name: ClassVar[str] = "doom_loop"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        loop = self._loop(context)
        if loop is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=min(1.0, loop.repetitions / (self.min_repetitions * 2)),
            reason=f"Cycle {loop.cycle_actions} repeated {loop.repetitions}x",
            metadata={"cycle": loop.cycle_actions},
        )

    def _loop(self, context: GuidanceContext) -> DoomLoop | None:
        known = context.trajectory.patterns().get("doom_loop")
        if isinstance(known, DoomLoop):
            if self.by == "result" and self._accepts(known):
                return known
        elif known is not None:  # a user's own detector is believed
            return self._own(known)
        detector = _detector(self.min_repetitions, self.min_cycle_length, self.by)
        if known is None and detector in context.trajectory.lens.detectors:
            return None
        # Other thresholds than the trajectory's own detector has, or cycles of names.
        return detector.detect(context.trajectory)

    def _own(self, found: object) -> DoomLoop | None:
        actions = tuple(getattr(found, "cycle_actions", ()))
        repetitions = int(getattr(found, "repetitions", 0))
        return DoomLoop(len(actions), repetitions, actions) if repetitions >= self.min_repetitions else None

    def _accepts(self, loop: DoomLoop) -> bool:
        long_enough = loop.cycle_length == 1 or loop.cycle_length >= self.min_cycle_length
        return long_enough and loop.repetitions >= self.min_repetitions


@lru_cache(maxsize=64)
def _detector(repetitions: int, length: int, by: Literal["result", "name"]) -> DoomLoopDetector:
    return DoomLoopDetector(repetitions, length, by=by)


@dataclass(frozen=True, slots=True)
class ErrorStreakClassifier:
    """Fires on consecutive failed calls."""

    threshold: int = 3  # calls

    name: ClassVar[str] = "error_streak"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        streak = context.trajectory.consecutive_errors
        if streak < self.threshold:
            return ClassificationResult.no()
        recent = context.trajectory.recent_errors(self.threshold)
        return ClassificationResult.yes(
            confidence=min(1.0, streak / (self.threshold * 2)),
            reason=f"{streak} consecutive errors",
            metadata={"errors": [error.message for error in recent]},
        )


@dataclass(frozen=True, slots=True)
class ErrorRateClassifier:
    """Fires when many of the latest calls failed, successes in between or not."""

    threshold: int = 5  # failed calls
    window: int = 10  # calls since a person last spoke

    name: ClassVar[str] = "error_rate"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment; only a call that failed just now can fire it."""
        attempt = context.trajectory.attempt
        if len(attempt) < self.threshold or not attempt[-1].is_error:
            return ClassificationResult.no()
        failed = sum([step.is_error for step in attempt[-self.window :]])
        if failed < self.threshold:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=min(1.0, failed / self.window),
            reason=f"{failed} errors in the last {min(self.window, len(attempt))} calls",
        )


@dataclass(frozen=True, slots=True)
class RepeatedErrorClassifier:
    """Fires when different calls meet the same error."""

    threshold: int = 3  # occurrences
    window: int = 10  # calls
    min_variants: int = 2  # different calls; one call that keeps failing is a loop or a streak already

    name: ClassVar[str] = "repeated_error"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        attempt = context.trajectory.attempt
        if not attempt or not attempt[-1].is_error:
            return ClassificationResult.no()
        found = RepeatedErrorDetector(self.threshold, self.window).detect(context.trajectory)
        if found is None or found.variants < self.min_variants:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=min(1.0, found.count / (self.threshold * 2)),
            reason=f"{found.variants} different calls met one error {found.count}x",
            metadata={"signature": found.error_signature},
        )


@dataclass(frozen=True, slots=True)
class ProgressStallClassifier:
    """Fires when action after action brings nothing new."""

    stall_threshold: int = 5  # calls

    name: ClassVar[str] = "progress_stall"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        stalled = self._stalled(context.trajectory)
        if not stalled:
            return ClassificationResult.no()
        return ClassificationResult.yes(confidence=0.8, reason=f"No progress in {stalled} actions")

    def _stalled(self, trajectory: TrajectoryAnalysis) -> int:
        """Calls without progress, where they are enough: what the detectors found, a user's included."""
        found: object = trajectory.patterns().get("progress_stall")
        if found is None and trajectory.state.stalled >= self.stall_threshold:
            # only a built-in detector with a higher threshold may be overruled
            built_in = any(type(each) is ProgressStallDetector for each in trajectory.lens.detectors)
            return trajectory.state.stalled if built_in else 0
        stalled = int(getattr(found, "actions_during_stall", 0))
        return stalled if stalled >= self.stall_threshold else 0


@dataclass(frozen=True, slots=True)
class PatternClassifier:
    """Fires while the trajectory has a pattern of one type: a user's own, or one with no classifier here."""

    pattern_type: str
    confidence: float = 0.6

    @property
    def name(self) -> str:
        """Name shown in reasons: the pattern's type."""
        return self.pattern_type

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        pattern = context.trajectory.patterns().get(self.pattern_type)
        if pattern is None:
            return ClassificationResult.no()
        return ClassificationResult.yes(self.confidence, reason=f"{pattern}", metadata={"pattern": pattern})


# Simple rules over the calls of a run.
#
# Source of names and defaults: docs/sources/guidance-classifiers.md, "Heuristic classifiers".


@dataclass(frozen=True, slots=True)
class HighToolCountClassifier:
    """Fires in the turn in which the count of calls crosses the warning, and again at the threshold."""

    threshold: int = 50  # calls
    warning_ratio: float = 0.8

    name: ClassVar[str] = "high_tool_count"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge the crossing: the turn after it is no news."""
        before = context.tool_call_count - latest_turn_calls(context)
        crossed = any(before < line <= context.tool_call_count for line in self._lines())
        return self.holds(context) if crossed else ClassificationResult.no()

    def holds(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge the state, for composites: is the count high, however long it has been?"""
        count = context.tool_call_count
        warning, threshold = self._lines()
        if count >= threshold:
            return ClassificationResult.yes(confidence=1.0, reason=f"{count} tool calls exceeds threshold")
        if count >= warning:
            return ClassificationResult.maybe(confidence=0.6, reason=f"{count} tool calls approaching limit")
        return ClassificationResult.no()

    def _lines(self) -> tuple[float, float]:
        return self.threshold * self.warning_ratio, float(self.threshold)


@dataclass(frozen=True, slots=True)
class SingleToolRepeatedClassifier:
    """Fires when one call makes up most of the latest calls, without variation of its arguments."""

    window: int = 5  # calls
    threshold: int = 4  # equal calls among them

    name: ClassVar[str] = "single_tool_repeated"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment; an agent that has only one tool gives no information by using it."""
        trajectory = context.trajectory
        recent = trajectory.recent_tool_calls(self.window)
        if not recent or len(recent) < self.threshold:
            return ClassificationResult.no()
        if trajectory.tool_call_count > self.window and len(trajectory.unique_tools_used) == 1:
            return ClassificationResult.no()
        calls = Counter([(step.tool_name, step.arguments) for step in recent if not step.polling])
        (tool, _), count = max(calls.items(), key=itemgetter(1), default=(("", ""), 0))
        if not count or count < self.threshold:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=0.7,
            reason=f"{tool} called {count}x with the same arguments in {len(recent)} calls",
            metadata={"tool": tool},
        )


@dataclass(frozen=True, slots=True)
class SequentialWhenParallelClassifier:
    """Fires when calls that do not need one another are made one a turn."""

    independent_tools: frozenset[str] = LOOKING  # in lower case, or as the agent writes them
    threshold: int = 3  # turns

    name: ClassVar[str] = "sequential_when_parallel"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment: single-call turns only, and none that had to wait for the result before it."""
        recent = context.trajectory.recent_tool_calls(self.threshold)
        if not recent or len(recent) < self.threshold:
            return ClassificationResult.no()
        tools = self.independent_tools
        independent = all(
            step.batch == 1 and (step.tool_name in tools or step.tool_name.lower() in tools)
            for step in recent
        )
        if not independent or any(step.derived for step in recent[1:]):
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=0.6, reason=f"{len(recent)} independent tools called sequentially"
        )


# Detects unchecked work at the end of a turn, from the agent's calls alone.
#
# Source of the evidence and of the default: docs/explanation/guidance.md, "Work that is left unchecked".


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

    name: ClassVar[str] = "unfinished"  # shown in reasons

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment. ``once`` of the metadata names the reason, which is given once."""
        found = unfinished(context.trajectory.state)
        if found is None or found[0].value not in self.evidence:
            return ClassificationResult.no()
        kind, failed = found
        once = "-".join([kind, *sorted(failed)])
        return ClassificationResult.yes(reason=_REASONS[kind], metadata={"evidence": kind, "once": once})
