"""Says which call failed, how often and with what."""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._results import ClassificationResult
from pointsman.guidance._wording import diagnosis
from pointsman.guidance.classifiers._pattern import ErrorStreakClassifier
from pointsman.guidance.providers._base import GuidanceInjection

__all__ = ["DiagnosticSignalProvider"]


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
