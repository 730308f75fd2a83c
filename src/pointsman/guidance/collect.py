"""Collecting guidance from every provider: isolated from each other, limited, sorted, capped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pointsman.guidance.classifiers.composite import judge
from pointsman.guidance.context import DecisionPoint, GuidanceContext
from pointsman.guidance.cooldown import may_fire
from pointsman.guidance.providers.base import (
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.guidance.results import ClassificationResult
from pointsman.vocabulary import ModelQuery, Reason

__all__ = [
    "Candidate",
    "Fired",
    "GuidanceDelivered",
    "GuidanceTracker",
    "Judgement",
    "collect_guidance",
    "judge_all",
    "worded",
]

#: Pieces of guidance given at once; more than three compete with each other (design page: max_per_turn).
MAX_AT_ONCE: Final = 3


class Fired(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How often one configured provider has spoken."""

    turn: int = -1  # of the last time
    in_turn: int = 0  # times in that turn
    total: int = 0

    def again(self, turn: int) -> Fired:
        """Once more, in this turn."""
        return Fired(turn, self.in_turn + 1 if turn == self.turn else 1, self.total + 1)

    def allows(self, config: GuidanceProviderConfig, turn: int) -> bool:
        """True when the provider's limits let it speak in this turn."""
        same_turn = turn == self.turn
        if same_turn and self.in_turn >= config.max_per_turn:
            return False
        return may_fire(
            None if same_turn or not self.total else self.turn,  # a cooldown skips the turns after this one
            self.total,
            turn,
            cooldown_turns=config.cooldown_turns,
            max_fires=config.max_fires_per_session,
        )


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A provider whose moment this is."""

    index: int  # of its configuration
    result: ClassificationResult


@dataclass(frozen=True, slots=True)
class Judgement:
    """What every provider's classifier said about one moment."""

    candidates: tuple[Candidate, ...] = ()
    abstained: tuple[Reason, ...] = ()
    needs: tuple[ModelQuery, ...] = ()  # questions that would end an abstention


@dataclass(frozen=True, slots=True)
class GuidanceDelivered:
    """Guidance was given."""

    provider_name: str
    injection: GuidanceInjection
    decision_point: DecisionPoint
    classification: ClassificationResult
    timestamp: float = 0.0  # seconds since the epoch; 0 when the trajectory carries no times


def judge_all(configs: Sequence[GuidanceProviderConfig], context: GuidanceContext) -> Judgement:
    """Ask every provider's classifier, limits apart."""
    candidates, abstained, needs = [], [], []
    for index, config in enumerate(configs):
        result = judge(config.judge, context)
        if result.relevant and result.confidence >= config.min_confidence:
            candidates.append(Candidate(index, result))
        elif result.abstained:
            abstained.append(Reason("guidance.abstained", result.reason or config.judge.name))
            if result.need:
                needs.append(result.need)
    return Judgement(tuple(candidates), tuple(abstained), tuple(needs))


def worded(provider: GuidanceProvider, context: GuidanceContext) -> GuidanceInjection | Reason:
    """Let a provider put its guidance into words; the reason when it cannot."""
    try:
        return provider.provide(context)
    except Exception as error:  # noqa: BLE001 - fail open: anyone's provider, never the request's problem
        return Reason("guidance.abstained", f"{provider.name} failed: {type(error).__name__}")


@dataclass(slots=True)
class GuidanceTracker:
    """Remembers, for people who run their own loop, how often each configured provider has spoken."""

    fired: dict[int, Fired] = field(default_factory=dict)  # by place in the configuration
    abstained: list[Reason] = field(default_factory=list)  # what failed open, and why


def collect_guidance(
    configs: Sequence[GuidanceProviderConfig],
    context: GuidanceContext,
    decision_point: DecisionPoint = DecisionPoint.PRE_TOOL_SELECTION,
    *,
    tracker: GuidanceTracker | None = None,
    max_at_once: int = MAX_AT_ONCE,
) -> tuple[GuidanceInjection, ...]:
    """Collect the guidance of all providers whose moment this is, the most urgent first.

    The session is told of every piece (``GuidanceDelivered``). A provider that fails is left out and noted in
    the tracker. Without a tracker no limit over time applies.
    """
    tracker = tracker or GuidanceTracker()
    judgement = judge_all(configs, context)
    tracker.abstained += judgement.abstained
    ready = []
    for candidate in judgement.candidates:
        config = configs[candidate.index]
        if not tracker.fired.get(candidate.index, Fired()).allows(config, context.turn_count):
            continue
        injection = worded(config.provider, context)
        if isinstance(injection, Reason):
            tracker.abstained.append(injection)
        else:
            ready.append((injection, candidate))
    ready.sort(key=lambda pair: (pair[0].priority, pair[1].index))
    for injection, candidate in ready[:max_at_once]:
        before = tracker.fired.get(candidate.index, Fired())
        tracker.fired[candidate.index] = before.again(context.turn_count)
        if context.session is not None:
            context.session.dispatch(
                GuidanceDelivered(
                    configs[candidate.index].provider.name,
                    injection,
                    decision_point,
                    candidate.result,
                    context.trajectory.state.latest_at,
                )
            )
    return tuple(injection for injection, _ in ready[:max_at_once])
