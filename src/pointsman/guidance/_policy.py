"""Settings of guidance, and the default providers that follow from it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.errors import ConfigError
from pointsman.guidance._context import DecisionPoint
from pointsman.guidance._provider_spec import ProviderSpec, asks_model, spec_of
from pointsman.guidance.classifiers._calls import (
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


class Rung(StrEnum):
    """The ladder an agent climbs while it stays stuck."""

    HINT = "hint"
    CONSULT = "consult"
    RAISE_TIER = "raise_tier"
    STOP = "stop"


#: What may follow a hint: any rung above it.
Escalation: TypeAlias = Literal["consult", "raise_tier", "stop"]
_AtLeastTwo: TypeAlias = Annotated[int, Meta(ge=2)]


class GuidancePolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a stuck agent gets hints, and when it counts as stuck.

    Sources: docs/explanation/guidance.md, "What recorded runs show", and docs/decisions/0033: on the 703
    recorded runs of the development part these values speak in 26 % of failed and 2.1 % of successful runs.

    Raises:
        ConfigError: a value that could never, or would always, speak.
    """

    mode: Annotated[
        Mode,
        Meta(description="`observe` decides and records but adds nothing to a prompt; `on` adds the hint."),
    ] = Mode.OBSERVE
    control: Annotated[
        Annotated[float, Meta(ge=0, le=1)],
        Meta(description="Share of sessions in the control group, in which due hints are withheld."),
    ] = 0.0
    seed: Annotated[int, Meta(description="Random seed of the control group.")] = 0
    escalate: Annotated[
        tuple[Escalation, ...], Meta(description="Escalation ladder after a hint without effect, in order.")
    ] = ("consult",)
    # as many as made the first one speak
    escalate_after: Annotated[
        int, Meta(ge=1, description="Further calls before the next rung of the ladder.")
    ] = 3
    error_streak: Annotated[_AtLeastTwo, Meta(description="Fire after this many failed calls in a row.")] = 3
    errors_in_window: Annotated[_AtLeastTwo, Meta(description="Fire after this many failed calls …")] = 5
    error_window: Annotated[_AtLeastTwo, Meta(description="… among this many.")] = 10
    loop_repetitions: Annotated[
        _AtLeastTwo, Meta(description="Fire after this many rounds of calls with equal results.")
    ] = 3
    # above ``error_streak``, for there are calls in between
    repeated_error: Annotated[
        _AtLeastTwo, Meta(description="Fire after the same error in this many different calls.")
    ] = 4
    stall: Annotated[_AtLeastTwo, Meta(description="Fire after this many calls without progress.")] = 5
    poll_tools: Annotated[
        frozenset[str], Meta(description="Tools that are meant to be called repeatedly.")
    ] = frozenset()
    log_tool: Annotated[str, Meta(description="Tool of the agent that shows logs; hints may name it.")] = ""
    planning_tool: Annotated[str, Meta(description="Tool that makes a plan; hints may name it.")] = ""
    consultation_tool: Annotated[str, Meta(description="Tool that asks an expert; hints may name it.")] = ""

    default_providers: Annotated[
        bool, Meta(description="Whether the built-in providers speak, by the thresholds above.")
    ] = True
    money_per_day: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Budget: maximum cost per day of what classifiers ask models, in US dollars. "
            "Then they abstain, as where a price is unknown."
        ),
    ] = None
    providers: Annotated[
        tuple[ProviderSpec, ...], Meta(description="Further providers. See [[guidance.providers]].")
    ] = ()

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
        msgspec.structs.force_setattr(self, "providers", tuple(map(spec_of, self.providers)))
        if len(self.providers) > MAX_PROVIDERS:
            raise ConfigError(f"[guidance] providers are at most {MAX_PROVIDERS}, not {len(self.providers)}")
        versions = [spec.version for spec in self.providers if spec.version]
        if len(set(versions)) < len(versions):
            raise ConfigError("[guidance] providers has two that are the same")

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """The rungs in order, the hint first."""
        return (Rung.HINT, *map(Rung, self.escalate))

    @property
    def trajectory(self) -> TrajectoryAnalysisConfig:
        """How trajectories are read under this policy."""
        return TrajectoryAnalysisConfig(
            doom_loop_threshold=self.loop_repetitions,
            stall_threshold=self.stall,
            poll_tools=self.poll_tools,
            actions=any(spec.point is DecisionPoint.DONE for spec in self.providers),
        )


#: Configured providers: each is asked at every moment of its point.
MAX_PROVIDERS: Final = 32
#: The least value at which each threshold still means something: once is not a repetition.
_COUNTS: Final = {
    "error_streak": 2,
    "errors_in_window": 2,
    "loop_repetitions": 2,
    "repeated_error": 2,
    "stall": 2,
    "escalate_after": 1,
}


def asks_models(policy: GuidancePolicy) -> bool:
    """Whether a configured provider asks a model."""
    return policy.mode is not Mode.OFF and any(map(asks_model, policy.providers))


def default_providers(policy: GuidancePolicy) -> tuple[GuidanceProviderConfig, ...]:
    """The providers of the default policy: one classifier each, so that a record names what spoke."""
    if not policy.default_providers:
        return ()
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
