"""Names the cycle an agent goes round in."""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._results import ClassificationResult
from pointsman.guidance._wording import diagnosis, loop
from pointsman.guidance.classifiers._pattern import DoomLoopClassifier
from pointsman.guidance.providers._base import GuidanceInjection
from pointsman.trajectory import DoomLoop

__all__ = ["DoomLoopBreaker"]


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
