"""Detects a repeated error, with the same or different arguments.

The agent changes the call and gets the same error. Errors are compared by their normalised signature inside
the last ten calls (docs/reference/guidance.md, "Trajectory"): an error that recurs after long other work is a
new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pointsman.trajectory._events import Run
from pointsman.trajectory._failures import RepeatedError


@dataclass(frozen=True, slots=True)
class RepeatedErrorDetector:
    """Fires while the latest call fails with an error that the window holds often enough."""

    threshold: int = 3  # occurrences
    window: int = 10  # steps

    @property
    def name(self) -> str:
        """Stable name."""
        return "repeated_error"

    def detect(self, trajectory: Run, /) -> RepeatedError | None:
        """Return the error of the latest call if it is a repeated one."""
        latest = trajectory.attempt[-1]
        if not latest.is_error or not latest.signature:
            return None
        same = [step for step in trajectory.attempt[-self.window :] if step.same_error(latest)]
        if len(same) < self.threshold:
            return None
        variants = len({(step.tool_name, step.arguments) for step in same})
        return RepeatedError(latest.signature, len(same), latest.tool_name, variants)
