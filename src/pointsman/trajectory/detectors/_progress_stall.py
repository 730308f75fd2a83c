"""Detects a progress stall: calls without any new result.

New is what no call of the window has brought yet: another result, the same result for other arguments, a
test that passes, a build that succeeds, a plan step done, a user message. Source of the default of five:
docs/sources/guidance-classifiers.md, "Pattern-based classifiers".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pointsman.trajectory._events import Run
from pointsman.trajectory._failures import ProgressStall


@dataclass(frozen=True, slots=True)
class ProgressStallDetector:
    """Fires after enough calls without progress; waiting, rate limits and refusals do not count."""

    threshold: int = 5  # steps

    @property
    def name(self) -> str:
        """Stable name."""
        return "progress_stall"

    def detect(self, trajectory: Run, /) -> ProgressStall | None:
        """Return the stall that the latest call prolongs."""
        state = trajectory.state
        if state.stalled < self.threshold:
            return None
        since = state.progress_at or state.started_at
        return ProgressStall(state.stalled, timedelta(seconds=max(0.0, state.latest_at - since)))
