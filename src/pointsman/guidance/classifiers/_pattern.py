"""Classifiers that read the trajectory's streaks and patterns.

Source of names, defaults and confidences: docs/sources/guidance-classifiers.md, "Pattern-based classifiers".
Source of the error rate and the repeated error: docs/explanation/guidance.md, "What recorded runs show".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pointsman.guidance._context import ClassificationResult, GuidanceContext
from pointsman.trajectory import (
    DoomLoop,
    DoomLoopDetector,
    ProgressStallDetector,
    RepeatedErrorDetector,
    TrajectoryAnalysis,
)


@dataclass(frozen=True, slots=True)
class DoomLoopClassifier:
    """Fires on a cycle of calls with the same results.

    Full confidence takes twice ``min_repetitions``, so a threshold of 0.8 over the default asks for five
    repetitions, which 4 to 11 of 1,998 recorded runs ever reach.
    """

    min_repetitions: int = 3
    min_cycle_length: int = 2  # calls; by result, one call repeated counts too
    by: Literal["result", "name"] = "result"  # "name": tool names alone (docs/notebook/0032)

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "doom_loop"

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
        # Other thresholds than the trajectory's own detector has, or cycles of names.
        detector = DoomLoopDetector(self.min_repetitions, self.min_cycle_length, by=self.by)
        return detector.detect(context.trajectory)

    def _own(self, found: object) -> DoomLoop | None:
        actions = tuple(getattr(found, "cycle_actions", ()))
        repetitions = int(getattr(found, "repetitions", 0))
        return DoomLoop(len(actions), repetitions, actions) if repetitions >= self.min_repetitions else None

    def _accepts(self, loop: DoomLoop) -> bool:
        long_enough = loop.cycle_length == 1 or loop.cycle_length >= self.min_cycle_length
        return long_enough and loop.repetitions >= self.min_repetitions


@dataclass(frozen=True, slots=True)
class ErrorStreakClassifier:
    """Fires on consecutive failed calls."""

    threshold: int = 3  # calls

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "error_streak"

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

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "error_rate"

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

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "repeated_error"

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

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "progress_stall"

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
