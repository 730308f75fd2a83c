"""Sends an agent that stays stuck to someone else."""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._results import ClassificationResult
from pointsman.guidance._wording import consultation
from pointsman.guidance.classifiers._pattern import ErrorStreakClassifier
from pointsman.guidance.providers._base import GuidanceInjection

__all__ = ["ConsultationPromptProvider"]


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
