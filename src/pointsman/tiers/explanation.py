"""A tier decision taken apart for a person: what fired, what it weighed, what would have changed it."""

from __future__ import annotations

import msgspec

from pointsman.tiers.compiled import Gauge
from pointsman.tiers.counterfactual import Change, changes
from pointsman.tiers.decision import TierDecision
from pointsman.tiers.judge import TierJudge
from pointsman.vocabulary import Evidence

__all__ = ["Contribution", "Explanation", "explain"]


class Contribution(msgspec.Struct, frozen=True):
    """What one dimension added to the score."""

    dimension: str
    measure: int  # tokens, hits or question marks
    keywords: tuple[str, ...]  # found, in the profile's order
    score: float
    weight: float
    contribution: float  # weight * score


class Explanation(msgspec.Struct, frozen=True):
    """Everything behind one decision of the rules."""

    decision: TierDecision
    profile: str
    tokens: int  # the profile's estimate
    boundaries: tuple[float, float, float]
    contributions: tuple[Contribution, ...]  # every dimension, in order; they sum to the score
    changes: tuple[Change, ...]  # the smallest changes of the text that give another tier


def explain(judge: TierJudge, evidence: Evidence) -> Explanation:
    """Take the rules' decision apart. Up to some thirty milliseconds; not for the path of a request."""
    tokens = judge.tokens(evidence)
    return Explanation(
        decision=judge.by_rules(evidence),
        profile=judge.profile.name,
        tokens=tokens,
        boundaries=judge.profile.boundaries,
        contributions=tuple(_contribution(gauge, evidence, tokens) for gauge in judge.gauges),
        changes=changes(judge, evidence),
    )


def _contribution(gauge: Gauge, evidence: Evidence, tokens: int) -> Contribution:
    measure = gauge.measure(evidence, tokens)
    level = gauge.at(measure)
    return Contribution(
        dimension=gauge.dimension.name,
        measure=measure,
        keywords=tuple(gauge.keywords(evidence.hits & gauge.mask)),
        score=level.score,
        weight=gauge.dimension.weight,
        contribution=level.contribution,
    )
