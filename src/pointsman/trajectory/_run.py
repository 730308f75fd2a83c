"""What a detector reads of a run. ``TrajectoryAnalysis`` offers it and more."""

from __future__ import annotations

from typing import Protocol

from pointsman.trajectory.state import TrajectoryState
from pointsman.trajectory.step import Step

__all__ = ["Run"]


class Run(Protocol):
    """A run up to its latest event, as the detectors of this package read it.

    Below the analysis, so that the detectors do not import the analysis that runs them.
    """

    @property
    def state(self) -> TrajectoryState:
        """The window of steps and the counters over the whole run."""
        ...

    @property
    def attempt(self) -> tuple[Step, ...]:
        """Steps since a person last spoke, oldest first, without throttled and declined ones."""
        ...
