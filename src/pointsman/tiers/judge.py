"""The weighted sum: evidence in, ``TierDecision`` out."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

from pointsman.evidence import SignalTable
from pointsman.tiers.decision import TierDecision
from pointsman.tiers.profile import (
    Dimension,
    Measure,
    Override,
    Step,
    TierProfile,
    TokenEstimate,
    signal_of,
)
from pointsman.tiers.verification import ask, settle
from pointsman.types import Answer, Evidence, Need, Reason, Stage, Tier

__all__ = ["Scored", "TierJudge"]

_TIERS = tuple(Tier)


class Part(NamedTuple):
    """What one dimension made of one prompt."""

    dimension: Dimension
    measure: int
    score: float
    step: Step | None


class Scored(NamedTuple):
    """The weighted sum of one prompt, with the dimensions that moved it."""

    total: float
    parts: list[Part]  # only those whose score is not zero, in the profile's order
    tokens: int


class _Compiled(NamedTuple):
    dimension: Dimension
    measure: Measure
    mask: int
    ranks: dict[int, tuple[int, str]]  # bit -> (order of display, keyword)


class TierJudge:
    """A profile made ready for one signal table. Holds no state between prompts; safe to share."""

    def __init__(self, profile: TierProfile, table: SignalTable) -> None:
        """Compile the profile.

        Raises:
            KeyError: the table lacks a signal of the profile.
        """
        self.profile = profile
        self._dimensions = tuple(_compile(profile, dimension, table) for dimension in profile.dimensions)
        self._by_name = {compiled.dimension.name: compiled for compiled in self._dimensions}
        self._any_hit = 0
        for compiled in self._dimensions:
            self._any_hit |= compiled.mask
        self._reasons = tuple(_reason_of(profile, tier) for tier in _TIERS)

    def tokens(self, evidence: Evidence) -> int:
        """The profile's token estimate."""
        return evidence.utf16_units // 4 if self.profile.tokens is TokenEstimate.UTF16 else evidence.tokens

    def score(self, evidence: Evidence) -> Scored:
        """Add up the dimensions, in the profile's order: the sum is the same to the last bit everywhere."""
        total = 0.0
        parts: list[Part] = []
        tokens = self.tokens(evidence)
        for dimension, measure, mask, _ in self._dimensions:
            if measure is Measure.HITS:
                count = (evidence.hits & mask).bit_count()
                if not count:
                    continue
            else:
                count = tokens if measure is Measure.TOKENS else evidence.questions
            step, score = scale(dimension, count)
            if score:
                total += dimension.weight * score
                parts.append(Part(dimension, count, score, step))
        return Scored(total, parts, tokens)

    def by_rules(self, evidence: Evidence) -> TierDecision:
        """Decide without a model."""
        scored = self.score(evidence)
        signals = [text for part in scored.parts if (text := self._shown(part, evidence))]
        for override in self.profile.overrides:
            if decision := self._overridden(override, scored, evidence, signals):
                return decision
        return self._ruled(scored, evidence, signals)

    def decide(self, evidence: Evidence) -> Generator[Need, Answer, TierDecision]:
        """Decide, asking a model at most once and only when the profile's escalation rule says so."""
        ruled = self.by_rules(evidence)
        if not ruled.needs_verification:
            return ruled
        answer = yield ask(self.profile.verification, evidence.text)
        return settle(self.profile.verification, ruled, answer)

    def keywords(self, name: str, evidence: Evidence) -> list[str]:
        """The keywords of a dimension found in the text, in the profile's order."""
        compiled = self._by_name[name]
        return _keywords(compiled, evidence.hits)

    def _shown(self, part: Part, evidence: Evidence) -> str:
        step = part.step
        template = step.signal if step and step.signal else part.dimension.signal
        if not template:
            return ""
        found = self.keywords(part.dimension.name, evidence) if "{keywords}" in template else []
        return template.format(
            tokens=part.measure, count=part.measure, keywords=", ".join(found[: step.shown if step else 3])
        )

    def _overridden(
        self, override: Override, scored: Scored, evidence: Evidence, signals: list[str]
    ) -> TierDecision | None:
        if override.tokens_above is not None and scored.tokens <= override.tokens_above:
            return None
        count = sum(self._count(name, evidence) for name in override.count_of)
        if count < override.count_from or not self._met(override, evidence):
            return None
        words = [word for name in override.shown_of for word in self.keywords(name, evidence)][:3]
        shown = override.signal.format(tokens=scored.tokens, count=count, keywords=", ".join(words))
        confidence = override.confidence
        if confidence is None:
            confidence = max(self._sigmoid(scored.total), override.least_confidence or 0.0)
        return TierDecision(
            tier=override.tier,
            score=scored.total,
            confidence=confidence,
            signals=(*signals, shown),
            stage=Stage.OVERRIDE,
            needs_verification=False,
            reasons=(Reason(f"tiers.override.{override.name}", shown),),
        )

    def _met(self, override: Override, evidence: Evidence) -> bool:
        if override.unless_long is not None and evidence.utf16_units > override.unless_long:
            return True
        return not override.needs or any(self._count(name, evidence) for name in override.needs)

    def _ruled(self, scored: Scored, evidence: Evidence, signals: list[str]) -> TierDecision:
        total = scored.total
        low, middle, high = self.profile.boundaries
        rank = (total >= low) + (total >= middle) + (total >= high)
        distance = min(abs(total - low), abs(total - middle), abs(total - high))
        confidence = self._sigmoid(distance)
        escalation = self.profile.escalation
        unsure = escalation.is_unsure(distance=distance, confidence=confidence)
        reasons: tuple[Reason, ...] = (self._reasons[rank],)
        floor = self.profile.without_signals
        if floor and not evidence.hits & self._any_hit:
            unsure, confidence, rank = True, 0.5, max(rank, floor.rank)
            reasons = (*reasons, _NO_SIGNAL)
        if unsure and escalation.signal:
            signals.append(escalation.signal.format(confidence=f"{confidence:.2f}"))
        return TierDecision(_TIERS[rank], total, confidence, tuple(signals), Stage.RULES, unsure, reasons)

    def _count(self, name: str, evidence: Evidence) -> int:
        return (evidence.hits & self._by_name[name].mask).bit_count()

    def _sigmoid(self, distance: float) -> float:
        # 1 / (1 + exp(-x)) written so that no x overflows.
        return 0.5 * (1.0 + math.tanh(0.5 * self.profile.steepness * distance))


_NO_SIGNAL = Reason("tiers.no-signal", "nothing in the text was recognised, so it is not taken to be simple")


def scale(dimension: Dimension, count: int) -> tuple[Step | None, float]:
    """The step a measure reaches, and the dimension's score there."""
    if dimension.ramp:
        return None, dimension.ramp.at(count)
    reached = None
    for step in dimension.steps:
        if count < step.at:
            break
        reached = step
    return reached, reached.score if reached else 0.0


def _compile(profile: TierProfile, dimension: Dimension, table: SignalTable) -> _Compiled:
    ranks: dict[int, tuple[int, str]] = {}
    for words in dimension.keywords.values():
        for word in words:
            ranks.setdefault(table.bit(signal_of(profile, dimension, word)), (len(ranks), word))
    return _Compiled(dimension, dimension.measure, table.mask(profile.name, dimension.name), ranks)


def _keywords(compiled: _Compiled, hits: int) -> list[str]:
    hits &= compiled.mask
    found = []
    while hits:
        low = hits & -hits
        if low in compiled.ranks:  # patterns have no keyword to show
            found.append(compiled.ranks[low])
        hits ^= low
    return [word for _, word in sorted(found)]


def _reason_of(profile: TierProfile, tier: Tier) -> Reason:
    edges = ("−∞", *(f"{edge:.2f}" for edge in profile.boundaries), "∞")
    return Reason(
        f"tiers.rules.{tier.lower()}", f"score between {edges[tier.rank]} and {edges[tier.rank + 1]}"
    )
