"""Asks every provider for guidance, isolated from each other and within their limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pointsman.guidance._context import ClassificationResult, GuidanceContext
from pointsman.guidance.classifiers.composite import judge
from pointsman.guidance.cooldown import may_fire
from pointsman.guidance.providers._base import (
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.vocabulary import ModelQuery, Reason

__all__ = [
    "Candidate",
    "Fired",
    "Judgement",
    "judge_all",
    "worded",
]


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
    """A provider that applies at this moment."""

    index: int  # of its configuration
    result: ClassificationResult


@dataclass(frozen=True, slots=True)
class Judgement:
    """Results of all providers' classifiers at one moment."""

    candidates: tuple[Candidate, ...] = ()
    abstained: tuple[Reason, ...] = ()
    queries: tuple[ModelQuery, ...] = ()  # questions that would end an abstention


def judge_all(configs: Sequence[GuidanceProviderConfig], context: GuidanceContext) -> Judgement:
    """Ask every provider's classifier, limits apart."""
    candidates, abstained, queries = [], [], []
    for index, config in enumerate(configs):
        result = judge(config.judge, context)
        if result.relevant and result.confidence >= config.min_confidence:
            candidates.append(Candidate(index, result))
        elif result.abstained:
            abstained.append(Reason("guidance.abstained", result.reason or config.judge.name))
            if result.query:
                queries.append(result.query)
    return Judgement(tuple(candidates), tuple(abstained), tuple(queries))


def worded(provider: GuidanceProvider, context: GuidanceContext) -> GuidanceInjection | Reason:
    """Let a provider put its guidance into words; the reason when it cannot."""
    try:
        return provider.provide(context)
    except Exception as error:  # noqa: BLE001 - fail open: anyone's provider, never the request's problem
        return Reason("guidance.abstained", f"{provider.name} failed: {type(error).__name__}")
