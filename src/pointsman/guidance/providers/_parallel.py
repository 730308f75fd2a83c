"""Reminds an agent that independent calls can go into one turn."""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._results import ClassificationResult
from pointsman.guidance._wording import parallel
from pointsman.guidance.classifiers._heuristic import SequentialWhenParallelClassifier
from pointsman.guidance.providers._base import GuidanceInjection

__all__ = ["ParallelToolReminder"]


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
