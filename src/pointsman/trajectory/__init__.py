"""Floor 2: the trajectory of an agent's run, and the patterns in it."""

from __future__ import annotations

from pointsman.trajectory._adapter import (
    Conversation,
    TrajectoryMemory,
    events_of,
    observe,
    opening_of,
    recommended,
)
from pointsman.trajectory._analysis import Lens, PatternDetector, TrajectoryAnalysis
from pointsman.trajectory._arguments import canonical_arguments, comes_from, is_polling
from pointsman.trajectory._builder import RecordedStep, TrajectoryAnalysisConfig, TrajectoryBuilder, steps_of
from pointsman.trajectory._events import (
    Event,
    ProgressMade,
    Session,
    ToolInvoked,
    ToolRecommended,
    UserSpoke,
)
from pointsman.trajectory._failures import (
    ContextDegradation,
    DoomLoop,
    ProgressStall,
    RepeatedError,
    ToolAvoidance,
    TrajectoryPattern,
    normalize_error,
    outcome_of,
)
from pointsman.trajectory._progress import (
    DEFAULT_INDICATORS,
    PlanIndicator,
    ProgressIndicator,
    TextIndicator,
)
from pointsman.trajectory.detectors import (
    DEFAULT_DETECTORS,
    ContextDegradationDetector,
    DoomLoopDetector,
    ProgressStallDetector,
    RepeatedErrorDetector,
    ToolAvoidanceDetector,
    sequence_similarity,
)
from pointsman.trajectory.state import WINDOW, TrajectoryState
from pointsman.trajectory.step import CallOutcome, Step, StepResult
from pointsman.vocabulary import ToolResult

__all__ = [
    "DEFAULT_DETECTORS",
    "DEFAULT_INDICATORS",
    "WINDOW",
    "CallOutcome",
    "ContextDegradation",
    "ContextDegradationDetector",
    "Conversation",
    "DoomLoop",
    "DoomLoopDetector",
    "Event",
    "Lens",
    "PatternDetector",
    "PlanIndicator",
    "ProgressIndicator",
    "ProgressMade",
    "ProgressStall",
    "ProgressStallDetector",
    "RecordedStep",
    "RepeatedError",
    "RepeatedErrorDetector",
    "Session",
    "Step",
    "StepResult",
    "TextIndicator",
    "ToolAvoidance",
    "ToolAvoidanceDetector",
    "ToolInvoked",
    "ToolRecommended",
    "ToolResult",
    "TrajectoryAnalysis",
    "TrajectoryAnalysisConfig",
    "TrajectoryBuilder",
    "TrajectoryMemory",
    "TrajectoryPattern",
    "TrajectoryState",
    "UserSpoke",
    "canonical_arguments",
    "comes_from",
    "events_of",
    "is_polling",
    "normalize_error",
    "observe",
    "opening_of",
    "outcome_of",
    "recommended",
    "sequence_similarity",
    "steps_of",
]
