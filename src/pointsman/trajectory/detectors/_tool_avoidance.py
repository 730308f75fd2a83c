"""Detects that a recommended tool is avoided.

Three other calls are tolerated, because an agent may finish its current step. Source:
docs/reference/guidance.md, "Trajectory".
"""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.trajectory._events import Run
from pointsman.trajectory._failures import ToolAvoidance


@dataclass(frozen=True, slots=True)
class ToolAvoidanceDetector:
    """Fires when more than ``tolerated`` other calls follow a recommendation."""

    tolerated: int = 3  # calls

    @property
    def name(self) -> str:
        """Stable name."""
        return "tool_avoidance"

    def detect(self, trajectory: Run, /) -> ToolAvoidance | None:
        """Return the tool that is still avoided."""
        state = trajectory.state
        if not state.recommended or state.alternatives <= self.tolerated:
            return None
        return ToolAvoidance(state.recommended, state.alternatives)
