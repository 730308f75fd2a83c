"""The explanation of a tier decision: signals, weights, and counterfactual changes."""

from __future__ import annotations

import msgspec

from pointsman.tiers._compiled import CompiledDimension
from pointsman.tiers._counterfactual import Change, changes
from pointsman.tiers._scorer import TierScorer
from pointsman.tiers.decision import TierDecision
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
    has_pattern: bool = False  # whether a pattern matched, which is no keyword


class Explanation(msgspec.Struct, frozen=True):
    """Everything behind one decision of the rules."""

    decision: TierDecision
    profile: str
    tokens: int  # the profile's estimate
    boundaries: tuple[float, float, float]
    contributions: tuple[Contribution, ...]  # every dimension, in order; they sum to the score
    changes: tuple[Change, ...]  # the smallest changes of the text that give another tier


def explain(scorer: TierScorer, evidence: Evidence, domain: str = "") -> Explanation:
    """Take the rules' decision apart. Up to some thirty milliseconds; not for the path of a request.

    Args:
        scorer: the profile.
        evidence: the scan of the prompt.
        domain: the task domain, where the profile gives domains a score.
    """
    tokens = scorer.tokens(evidence)
    contributions = tuple(_contribution(gauge, evidence, tokens) for gauge in scorer.gauges)
    if excess := scorer.score(evidence).excess:
        contributions += (Contribution("saturation", 0, (), -excess, 1.0, -excess),)
    if added := scorer.profile.domain_scores.get(domain):
        contributions += (Contribution("domain", 1, (domain,), added, 1.0, added),)
    return Explanation(
        decision=scorer.by_rules(evidence, domain),
        profile=scorer.profile.name,
        tokens=tokens,
        boundaries=scorer.profile.boundaries,
        contributions=contributions,
        changes=changes(scorer, evidence, domain),
    )


def _contribution(gauge: CompiledDimension, evidence: Evidence, tokens: int) -> Contribution:
    measure = gauge.measure(evidence, tokens)
    level = gauge.at(measure)
    hits = evidence.hits & gauge.mask
    keywords = tuple(gauge.keywords(hits))
    return Contribution(
        dimension=gauge.dimension.name,
        measure=measure,
        keywords=keywords,
        score=level.score,
        weight=gauge.dimension.weight,
        contribution=level.contribution,
        has_pattern=not gauge.bits(hits).keys() <= set(keywords),
    )
