"""Patterns that detectors find."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Protocol

__all__ = [
    "ContextDegradation",
    "DoomLoop",
    "ProgressStall",
    "RepeatedError",
    "ToolAvoidance",
    "TrajectoryPattern",
]


class TrajectoryPattern(Protocol):
    """Anything a detector returns."""

    @property
    def pattern_type(self) -> str:
        """Key under which ``patterns()`` lists it."""
        ...


@dataclass(frozen=True, slots=True)
class DoomLoop:
    """The same cycle of actions over and over."""

    cycle_length: int  # actions
    repetitions: int
    cycle_actions: tuple[str, ...]  # tool names, in order
    pattern_type: ClassVar[str] = "doom_loop"


@dataclass(frozen=True, slots=True)
class RepeatedError:
    """The same error again, whatever the arguments."""

    error_signature: str
    count: int
    tool_name: str
    variants: int = 1  # different arguments it was met with
    pattern_type: ClassVar[str] = "repeated_error"


@dataclass(frozen=True, slots=True)
class ProgressStall:
    """A run of actions that brought nothing new."""

    actions_during_stall: int
    stall_duration: timedelta
    pattern_type: ClassVar[str] = "progress_stall"


@dataclass(frozen=True, slots=True)
class ToolAvoidance:
    """A tool was recommended, and others are used."""

    avoided_tool: str
    alternative_attempts: int
    pattern_type: ClassVar[str] = "tool_avoidance"


@dataclass(frozen=True, slots=True)
class ContextDegradation:
    """Signs that the context no longer holds what it should."""

    symptoms: tuple[str, ...]
    pattern_type: ClassVar[str] = "context_degradation"
