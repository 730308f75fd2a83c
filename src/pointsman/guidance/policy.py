"""What an operator can set about guidance, and the default providers that follow from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pointsman.errors import ConfigError
from pointsman.guidance.classifiers.pattern import (
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
)
from pointsman.guidance.providers import (
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    GuidanceProviderConfig,
)
from pointsman.trajectory import TrajectoryAnalysisConfig
from pointsman.vocabulary import Mode

__all__ = ["GuidancePolicy", "Mode", "Rung", "default_providers"]


class Rung(StrEnum):
    """The ladder an agent climbs while it stays stuck."""

    HINT = "hint"
    CONSULT = "consult"
    RAISE_TIER = "raise_tier"
    STOP = "stop"


class GuidancePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The default policy's thresholds, for the ``[guidance]`` section of the configuration.

    Sources: docs/explanation/guidance.md, "What recorded runs show", and docs/decisions/0033: on the 703
    recorded runs of the development part these values speak in 26 % of failed and 2.1 % of successful runs.

    Raises:
        ConfigError: a value that could never, or would always, speak.
    """

    mode: Mode = Mode.OBSERVE
    control: float = 0.0  # share of sessions, 0 to 1, in which guidance is decided and withheld
    seed: int = 0  # with the session's id, decides who is in the control group
    error_streak: int = 3  # failed calls in a row
    errors_in_window: int = 5  # failed calls …
    error_window: int = 10  # … among as many calls
    loop_repetitions: int = 3  # rounds of a cycle of calls with equal results
    #: Times different calls meet one error: above ``error_streak``, for there are calls in between.
    repeated_error: int = 4
    stall: int = 5  # calls without anything new
    escalate_after: int = 3  # further calls before the next rung: as many as made the first one speak
    escalate: tuple[Rung, ...] = (Rung.CONSULT,)  # what follows, in order, when a hint did not help
    log_tool: str = ""  # tools of the agent that guidance may point to
    planning_tool: str = ""
    consultation_tool: str = ""
    poll_tools: tuple[str, ...] = ()  # tools meant to be repeated, beside the built-in ones

    def __post_init__(self) -> None:
        if not 0.0 <= self.control <= 1.0:
            raise ConfigError(f"[guidance] control must be within 0 and 1, not {self.control}")
        for name in _COUNTS:
            if getattr(self, name) < _COUNTS[name]:
                raise ConfigError(
                    f"[guidance] {name} must be at least {_COUNTS[name]}, not {getattr(self, name)}"
                )
        if Rung.HINT in self.escalate or len(set(self.escalate)) < len(self.escalate):
            raise ConfigError("[guidance] escalate takes consult, raise_tier and stop, each at most once")
        if self.errors_in_window > self.error_window:
            raise ConfigError("[guidance] errors_in_window cannot exceed error_window: it would never speak")

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The rungs in order, the hint first."""
        return (Rung.HINT, *self.escalate)

    @property
    def trajectory(self) -> TrajectoryAnalysisConfig:
        """How trajectories are read under this policy."""
        return TrajectoryAnalysisConfig(
            doom_loop_threshold=self.loop_repetitions,
            stall_threshold=self.stall,
            poll_tools=frozenset(self.poll_tools),
        )


#: The least value at which each threshold still means something: once is not a repetition.
_COUNTS: Final = {
    "error_streak": 2,
    "errors_in_window": 2,
    "loop_repetitions": 2,
    "repeated_error": 2,
    "stall": 2,
    "escalate_after": 1,
}


def default_providers(policy: GuidancePolicy) -> tuple[GuidanceProviderConfig, ...]:
    """The providers of the default policy: one classifier each, so that a record names what spoke."""
    breaker = DoomLoopBreaker(policy.loop_repetitions, policy.planning_tool)
    diagnostic = DiagnosticSignalProvider(policy.error_streak, policy.log_tool)
    return (
        # Confidence is one half when a threshold is just met; 0.5 lets the thresholds decide alone.
        GuidanceProviderConfig(breaker, DoomLoopClassifier(policy.loop_repetitions), min_confidence=0.5),
        *(
            GuidanceProviderConfig(diagnostic, classifier, min_confidence=0.0)
            for classifier in (
                ErrorStreakClassifier(policy.error_streak),
                ErrorRateClassifier(policy.errors_in_window, policy.error_window),
                RepeatedErrorClassifier(policy.repeated_error, policy.error_window),
                ProgressStallClassifier(policy.stall),
            )
        ),
    )
