"""One detector a file: its pattern, its thresholds, and their source."""

from __future__ import annotations

from typing import Final

from pointsman.trajectory.detectors._context_degradation import ContextDegradationDetector
from pointsman.trajectory.detectors._doom_loop import DoomLoopDetector, sequence_similarity
from pointsman.trajectory.detectors._progress_stall import ProgressStallDetector
from pointsman.trajectory.detectors._repeated_error import RepeatedErrorDetector
from pointsman.trajectory.detectors._tool_avoidance import ToolAvoidanceDetector

__all__ = [
    "DEFAULT_DETECTORS",
    "ContextDegradationDetector",
    "DoomLoopDetector",
    "ProgressStallDetector",
    "RepeatedErrorDetector",
    "ToolAvoidanceDetector",
    "sequence_similarity",
]

DEFAULT_DETECTORS: Final = (
    DoomLoopDetector(),
    RepeatedErrorDetector(),
    ProgressStallDetector(),
    ToolAvoidanceDetector(),
    ContextDegradationDetector(),
)
