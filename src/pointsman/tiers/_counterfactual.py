"""The smallest changes of a text that would have given another tier.

Two questions, each answered exactly within a bound: which fewest keywords must be gone, and how many tokens
shorter or longer must the text be. The first leaves the length as it is, the second leaves the keywords.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from itertools import combinations, islice
from typing import Final

import msgspec

from pointsman.tiers._scorer import KEYWORDS_UNUSED, CompiledDimension, TierScorer
from pointsman.tiers.decision import TierDecision
from pointsman.vocabulary import Evidence, Stage, Tier

#: Sets of keywords tried: all triples of 29. A try takes longer the more keywords a text has.
_TRIES: Final = 4_096
#: Keywords from which on fewer sets are tried, so that all tries take no longer.
_MANY: Final = 30

#: Tokens a text is made shorter or longer by at most; beyond, it is another text.
_REACH: Final = 2_000

#: By how much sums of the same numbers differ at most, as a share of them: the order of adding rounds.
_ROUNDED: Final = 1e-9

#: The name under which all question marks are taken out together.
_QUESTIONS: Final = "question marks"

#: Stands before the dimension of patterns, whose match is no keyword.
_PATTERN: Final = "the pattern of "

#: Largest set of keywords a person would take for an explanation.
_WORDS: Final = 4


class Change(msgspec.Struct, frozen=True):
    """One change of the text, and the tier it gives."""

    tier: Tier
    without: tuple[str, ...] = ()  # keywords that are gone, in alphabetical order
    tokens: int = 0  # tokens more (above 0) or fewer (below 0)
    why: str = ""  # where not the score gives the tier, the rule that does

    def __str__(self) -> str:
        return f"{self._what}: {self.tier}" + (f" ({self.why})" if self.why else "")

    @property
    def _what(self) -> str:
        if self.without:
            return f"without {', '.join(map(_quoted, self.without))}"
        count = abs(self.tokens)
        unit, way = "token" if count == 1 else "tokens", "longer" if self.tokens > 0 else "shorter"
        return f"{count} {unit} {way}"


def changes(scorer: TierScorer, evidence: Evidence, domain: str = "") -> tuple[Change, ...]:
    """The smallest change of each sort that gives another tier: fewer keywords, shorter, longer."""
    tier = scorer.by_rules(evidence, domain).tier
    found = (
        next((each for each in _without_keywords(scorer, evidence, domain) if each.tier is not tier), None),
        _other_length(scorer, evidence, -1, domain, tier),
        _other_length(scorer, evidence, +1, domain, tier),
    )
    return tuple(change for change in found if change)


def _without_keywords(scorer: TierScorer, evidence: Evidence, domain: str) -> Iterator[Change]:
    """Smaller sets first; among equals, in alphabetical order."""
    masks = _named_hits(scorer, evidence)
    sets = (chosen for size in range(1, _WORDS + 1) for chosen in combinations(sorted(masks), size))
    for chosen in islice(sets, _TRIES * _MANY // max(_MANY, len(masks))):
        hits = evidence.hits
        for name in chosen:
            hits &= ~masks[name]
        asked = 0 if _QUESTIONS in chosen else evidence.questions
        changed = msgspec.structs.replace(evidence, hits=hits, questions=asked)
        yield _change(scorer.by_rules(changed, domain), without=chosen)


def _named_hits(scorer: TierScorer, evidence: Evidence) -> dict[str, int]:
    """What can be taken out of the text. A keyword of two dimensions is one word, and goes from both."""
    masks: dict[str, int] = {}
    for gauge in scorer.gauges:
        hits = evidence.hits & gauge.mask
        words = gauge.keywords(hits)
        for found, bits in gauge.bits(hits).items():
            name = found if found in words else f"{_PATTERN}{found}"
            masks[name] = masks.get(name, 0) | bits
    if evidence.questions:
        masks[_QUESTIONS] = 0
    return masks


def _other_length(
    scorer: TierScorer, evidence: Evidence, sign: int, domain: str, tier: Tier
) -> Change | None:
    """The nearest length of another tier. Of lengths that are all of one tier the nearest is looked at."""
    now = scorer.tokens(evidence)
    spans = [(1, min(_REACH, now) if sign < 0 else _REACH)]
    while spans:
        near, far = spans.pop()
        if near > far:
            continue
        first = _at_length(scorer, evidence, now + sign * near)
        if near == far or _are_alike(scorer, first, _at_length(scorer, evidence, now + sign * far), domain):
            if (decided := scorer.by_rules(first, domain)).tier is not tier:
                return _change(decided, tokens=sign * near)
        else:
            middle = (near + far) // 2
            spans += [(middle + 1, far), (near, middle)]
    return None


def _are_alike(scorer: TierScorer, one: Evidence, other: Evidence, domain: str) -> bool:
    """Whether a text has the same tier at these two lengths and at all between them; False: it may not.

    Between two points of its curve a dimension rises or falls, and the excess of keywords never falls with
    the length, so the sum of each length is within bounds.
    """
    ends = scorer.score(one), scorer.score(other)
    if _reached(scorer, one, ends[0].tokens) != _reached(scorer, other, ends[1].tokens):
        return False
    by_length = [
        {place: level.contribution for place, gauge, level, _, _ in end.parts if gauge.counts_tokens}
        for end in ends
    ]
    pairs = [[each.get(place, 0.0) for each in by_length] for place in {*by_length[0], *by_length[1]}]
    excess = [end.excess for end in ends]
    if excess[0] == excess[1] and all(low == high for low, high in pairs):
        return True
    rest = ends[0].total + excess[0] - sum(by_length[0].values())
    rest += scorer.profile.domain_scores.get(domain, 0.0)
    slack = _ROUNDED * (1.0 + sum(abs(level.contribution) for end in ends for _, _, level, _, _ in end.parts))
    least = rest + sum(map(min, pairs)) - max(excess) - slack
    most = rest + sum(map(max, pairs)) - min(excess) + slack
    return not any(least <= boundary <= most for boundary in scorer.profile.boundaries)


def _reached(scorer: TierScorer, evidence: Evidence, tokens: int) -> list[int]:
    """Points of curves and conditions of overrides that a length has reached: a difference is a jump."""
    curves = [gauge.dimension for gauge in scorer.gauges if gauge.counts_tokens]
    reached = [
        bisect_right([step.at for step in each.steps] or [at for at, _ in each.curve], tokens)
        for each in curves
    ]
    for rule in scorer.rules:
        above, every, long = (
            rule.override.tokens_above,
            rule.override.one_more_every,
            rule.override.unless_long,
        )
        reached.append(above is not None and tokens > above)
        reached.append(tokens // every if every else 0)
        reached.append(long is not None and evidence.utf16_units > long)
    return reached


def _change(decided: TierDecision, *, without: tuple[str, ...] = (), tokens: int = 0) -> Change:
    """The change that gives a decision; its first reason is the score, or an override."""
    score, *others = decided.reasons
    rules = others if decided.stage is Stage.RULES else [score]
    return Change(
        decided.tier,
        without,
        tokens,
        "; ".join(reason.detail for reason in rules if reason is not KEYWORDS_UNUSED),
    )


def _quoted(name: str) -> str:
    return name if name == _QUESTIONS or name.startswith(_PATTERN) else f"“{name}”"


def _at_length(scorer: TierScorer, evidence: Evidence, tokens: int) -> Evidence:
    """The evidence of a text of the same words and script with so many tokens by the profile's estimate."""
    estimate = math.ceil(tokens / scorer.profile.script_factors.get(evidence.script, 1.0))
    return msgspec.structs.replace(evidence, characters=4 * estimate, utf16_units=4 * tokens, tokens=estimate)


# The explanation of a tier decision: signals, weights, and counterfactual changes.


class Contribution(msgspec.Struct, frozen=True):
    """The contribution of one dimension to the score."""

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
    """Take the rules' decision apart. Up to some 200 milliseconds, and 700 for a text of 2,000 keywords.

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
