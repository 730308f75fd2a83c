"""Simple rules over the calls of a run.

Source of names and defaults: docs/sources/guidance-classifiers.md, "Heuristic classifiers".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter

from pointsman.guidance._context import ClassificationResult, GuidanceContext, latest_turn_calls
from pointsman.trajectory.agent_tools import LOOKING


@dataclass(frozen=True, slots=True)
class HighToolCountClassifier:
    """Fires in the turn in which the count of calls crosses the warning, and again at the threshold."""

    threshold: int = 50  # calls
    warning_ratio: float = 0.8

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "high_tool_count"

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

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "single_tool_repeated"

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

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "sequential_when_parallel"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment: single-call turns only, and none that had to wait for the result before it."""
        recent = context.trajectory.recent_tool_calls(self.threshold)
        if not recent or len(recent) < self.threshold:
            return ClassificationResult.no()
        independent = all(step.batch == 1 and self._only_looks(step.tool_name) for step in recent)
        if not independent or any(step.derived for step in recent[1:]):
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=0.6, reason=f"{len(recent)} independent tools called sequentially"
        )

    def _only_looks(self, tool_name: str) -> bool:
        return tool_name in self.independent_tools or tool_name.lower() in self.independent_tools
