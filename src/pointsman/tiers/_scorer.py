"""The rule scorer: a tier profile compiled for one signal table, and its weighted sum."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

from pointsman.evidence import SignalTable
from pointsman.tiers.decision import TierDecision, Verification, ask, settle, with_margin
from pointsman.tiers.kinds import KindShift
from pointsman.tiers.profile import Dimension, Measure, Override, TierProfile, TokenEstimate, signal_of
from pointsman.vocabulary import TIERS, Evidence, ModelQuery, ModelReply, Reason, Script, Stage, Tier

# Enum members are looked up once: on the path of every request a look-up costs as much as a sigmoid.
_RULES: Final = Stage.RULES
_OVERRIDE: Final = Stage.OVERRIDE
#: Characters of a text whose decision is remembered, and how many are: about 4 MB.
_SHORT: Final = 2_000
_DECIDED: Final = 1_024
#: Measures of a dimension whose level is remembered, at 0.1 kB each.
_LEVELS: Final = 1_024
_LATIN: Final = Script.LATIN

#: Why length alone decides the tier of a request that offers tools.
KEYWORDS_UNUSED: Final = Reason("tiers.tools", "request with tools: keywords do not count")
_NO_SIGNAL: Final = Reason("tiers.no-signal", "no keyword was found, so it is not taken to be simple")
_NONE_COUNTS: Final = Reason("tiers.no-signal", "no keyword counts, so it is not taken to be simple")
#: Keywords named in one signal. Source: docs/notebook/0021.
_SHOWN: Final = 3


class Level(msgspec.Struct, frozen=True, gc=False):
    """The score of a measure, and its display."""

    score: float
    contribution: float  # weight * score
    template: str  # a %-format for one value, or plain text; empty = not shown
    names: int = 0  # keywords named; 0 when the template takes the measure or nothing
    takes: bool = False  # whether the template takes a value


def places(mask: int) -> Iterator[int]:
    """The places of a mask's bits, counted from 1, the highest first."""
    while mask:
        place = mask.bit_length()
        yield place
        mask ^= 1 << (place - 1)


class CompiledDimension:
    """One dimension of one profile."""

    __slots__ = (
        "_alone",
        "_base",
        "_curve",
        "_levels",
        "_places",
        "_words",
        "at",
        "counts_tokens",
        "dimension",
        "mask",
    )

    def __init__(self, profile: TierProfile, dimension: Dimension, table: SignalTable) -> None:
        """Look up the dimension's signals in the table, which holds them all."""
        self.dimension = dimension
        self.counts_tokens = dimension.measure is Measure.TOKENS
        self.mask = table.mask(profile.name, dimension.name)  # 0: measures something else than hits
        self._places = [step.at for step in dimension.steps] or [place for place, _ in dimension.curve]
        self._curve = _pieces(dimension.curve)
        self._levels = [_level(dimension, 0.0, dimension.signal, _SHOWN)]
        for step in dimension.steps:
            self._levels.append(_level(dimension, step.score, step.signal or dimension.signal, step.shown))
        # Shifted down to the group's lowest bit, hits are small numbers: four times cheaper to take apart.
        self._base = max((self.mask & -self.mask).bit_length() - 1, 0)
        words = (word for language in dimension.keywords.values() for word in language)
        signals = dict.fromkeys(signal_of(profile, dimension, word) for word in words)
        self._words = {
            table.bit(signal).bit_length() - self._base: (rank, signal.pattern)
            for rank, signal in enumerate(signals)
        }
        #: The level of a measure. Remembered, because most texts are short.
        self.at: Final = lru_cache(_LEVELS)(self._at)
        # Most groups that fire do so by one keyword: its text is made when it is first found, of thousands.
        self._alone: dict[int, str] = {}

    def measure(self, evidence: Evidence, tokens: int) -> int:
        """The dimension's measure of a text; ``tokens`` is the profile's estimate."""
        if self.mask:
            return (evidence.hits & self.mask).bit_count()
        return tokens if self.counts_tokens else evidence.questions

    def _at(self, measure: int) -> Level:
        reached = bisect_right(self._places, measure)
        if not self._curve:
            return self._levels[reached]
        height, slope = self._curve[reached]
        score, shown = height + slope * math.log(measure or 1), self._levels[0]
        return Level(score, self.dimension.weight * score, shown.template, shown.names, shown.takes)

    def show(self, level: Level, measure: int, found: int) -> str:
        """The signal of a level, for a person; ``found`` is the dimension's share of the hits."""
        if not level.names:
            return level.template % measure if level.takes else level.template
        if measure == 1 and (alone := self._alone.get((found >> self._base).bit_length())):
            return alone
        words = self.keywords(found)[: level.names]
        shown = level.template % ", ".join(words) if words else self.dimension.name
        if measure == 1:
            self._alone[(found >> self._base).bit_length()] = shown
        return shown

    def keywords(self, found: int) -> list[str]:
        """The keywords among the dimension's hits, in the profile's order. Patterns have none."""
        ranked = sorted(self._words[place] for place in places(found >> self._base) if place in self._words)
        return [word for _, word in ranked]

    def bits(self, found: int) -> dict[str, int]:
        """The display name of each of the dimension's hits, and its mask; patterns share one name."""
        named: dict[str, int] = {}
        for place in places(found >> self._base):
            _, name = self._words.get(place, (0, self.dimension.name))
            named[name] = named.get(name, 0) | 1 << (place - 1 + self._base)
        return named


class CompiledOverride:
    """One override of one profile."""

    __slots__ = ("_barred", "_counted", "_more_every", "_needed", "_shown", "_tokens_above", "override")

    def __init__(self, override: Override, gauges: Mapping[str, CompiledDimension]) -> None:
        self.override = override
        self._tokens_above = -1 if override.tokens_above is None else override.tokens_above
        # A keyword of two dimensions is two signals, so the bits of a union are the sum of the counts.
        self._counted = _union(gauges[name].mask for name in override.count_of)
        self._needed = _union(gauges[name].mask for name in override.needs)
        self._more_every = override.one_more_every or 0
        self._barred = _union(gauges[name].mask for name in override.unless)
        self._shown = tuple(gauges[name] for name in override.shown_of)

    def applies(self, hits: int, tokens: int, utf16_units: int) -> bool:
        """Whether all its conditions hold."""
        if tokens <= self._tokens_above or hits & self._barred:
            return False
        wanted = self.override.count_from
        if self._more_every:
            wanted += tokens // self._more_every
        if (hits & self._counted).bit_count() < wanted:
            return False
        if not self._needed or hits & self._needed:
            return True
        long = self.override.unless_long
        return long is not None and utf16_units > long

    def show(self, hits: int, tokens: int) -> str:
        """Its signal, for a person."""
        words = [word for gauge in self._shown for word in gauge.keywords(hits & gauge.mask)][:_SHOWN]
        count = (hits & self._counted).bit_count()
        return self.override.signal.format(tokens=tokens, count=count, keywords=", ".join(words))


def _pieces(curve: tuple[tuple[int, float], ...]) -> list[tuple[float, float]]:
    """Height at log 0 and slope of each piece: flat before the first point and after the last."""
    if not curve:
        return []
    pieces = [(curve[0][1], 0.0)]
    for (start, low), (end, high) in pairwise(curve):
        slope = (high - low) / math.log(end / start)
        pieces.append((low - slope * math.log(start), slope))
    return [*pieces, (curve[-1][1], 0.0)]


def _level(dimension: Dimension, score: float, signal: str, names: int) -> Level:
    takes = "{" in signal
    template = re.sub(r"\{\w+\}", "%s", signal.replace("%", "%%")) if takes else signal
    return Level(score, dimension.weight * score, template, names if "{keywords}" in signal else 0, takes)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


class Scored(msgspec.Struct, frozen=True, gc=False):
    """The weighted sum of one prompt."""

    total: float
    #: (place, dimension, level, measure, hits) of the dimensions that score, in the profile's order
    parts: list[tuple[int, CompiledDimension, Level, int, int]]
    tokens: int  # the profile's estimate
    excess: float = 0.0  # taken off the sum: what keywords add beyond the most that a dimension allows


class TierScorer:
    """A profile made ready for one signal table. Holds no state between prompts; safe to share."""

    def __init__(
        self,
        profile: TierProfile,
        table: SignalTable,
        verification: Verification | None = None,
        *,
        why: Reason | None = None,
    ) -> None:
        """Compile the profile.

        Args:
            profile: its margin gives way to that of ``verification``.
            table: holds all signals of the profile.
            verification: how close to a boundary a model is asked, and how long it is waited for.
            why: reason in every decision of the sum: why this profile decides, and not the policy's.

        Raises:
            KeyError: the table lacks a signal of the profile.
        """
        for signal in profile.signals():
            table.bit(signal)
        self.profile = with_margin(profile, verification)
        self._asked = {} if verification is None else {"timeout_ms": verification.timeout_ms}
        self.gauges = tuple(CompiledDimension(profile, dimension, table) for dimension in profile.dimensions)
        by_name = {gauge.dimension.name: gauge for gauge in self.gauges}
        self.rules = tuple(CompiledOverride(override, by_name) for override in profile.overrides)
        self._any_hit = sum(gauge.mask for gauge in self.gauges)  # the masks of groups never overlap
        ordered = [(order, gauge, gauge.mask) for order, gauge in enumerate(self.gauges)]
        self._always = tuple((order, gauge) for order, gauge, mask in ordered if not mask)
        # By the length of a mask, whose highest bit tells whose that hit is.
        self._group_of = {place: each for each in ordered for place in places(each[2])}
        #: What was decided of short texts: those of an agent come again with every call of a tool.
        self._known: Final[dict[tuple[Evidence, str], TierDecision]] = {}
        self._utf16 = profile.tokens is TokenEstimate.UTF16
        floor = profile.without_signals
        self._floor = floor.rank if floor else 0  # lowest rank without any signal
        limits = [gauge for gauge in self.gauges if gauge.dimension.others_at_most is not None]
        lifting = sum(by_name[name].mask for gauge in limits for name in gauge.dimension.but_not_beside)
        most = min((gauge.dimension.others_at_most or 0.0 for gauge in limits), default=0.0)
        #: Signals that limit what keywords add, those that lift the limit, and the limit.
        self._limit = (sum(gauge.mask for gauge in limits), lifting, most)
        self._unsure_below = self.profile.escalation.below
        beside = (why,) if why else ()
        self._reasons = tuple((_reason_of(profile, tier), *beside) for tier in TIERS)
        self._no_signal = _NO_SIGNAL if self._any_hit else _NONE_COUNTS

    def for_tools(self, table: SignalTable, verification: Verification | None) -> TierScorer:
        """The scorer of requests that offer tools: this one, where the profile makes no difference."""
        profile = self.profile.for_tools()
        return (
            self if profile is self.profile else TierScorer(profile, table, verification, why=KEYWORDS_UNUSED)
        )

    def tokens(self, evidence: Evidence) -> int:
        """The profile's token estimate."""
        if self._utf16:
            return evidence.utf16_units // 4
        script = evidence.script
        estimate = evidence.characters // 4 if script is _LATIN else evidence.tokens
        factor = self.profile.script_factors.get(script)
        return estimate if factor is None else int(estimate * factor)

    def score(self, evidence: Evidence) -> Scored:
        """Add up the dimensions, in the profile's order: the sum is the same to the last bit everywhere."""
        tokens = self.tokens(evidence)
        parts: list[tuple[int, CompiledDimension, Level, int, int]] = []
        for place, gauge in self._always:
            measure = tokens if gauge.counts_tokens else evidence.questions
            level = gauge.at(measure)
            if level.score:
                parts.append((place, gauge, level, measure, 0))
        left = evidence.hits & self._any_hit
        while left:  # once for each dimension that found anything
            place, gauge, mask = self._group_of[left.bit_length()]
            found = left & mask
            left ^= found
            measure = found.bit_count()
            level = gauge.at(measure)
            if level.score:
                parts.append((place, gauge, level, measure, found))
        parts.sort()
        total = raised = 0.0
        for _, _, level, _, found in parts:
            total += level.contribution
            if found and level.contribution > 0.0:
                raised += level.contribution
        excess = raised - self._allowed(raised, tokens, evidence.hits) if raised else 0.0
        return Scored(total - excess, parts, tokens, excess)

    def _allowed(self, raised: float, tokens: int, hits: int) -> float:
        """The most that the keywords may add together; ``raised`` is the sum of their contributions."""
        limiting, lifting, limit = self._limit
        most = limit if hits & limiting and not hits & lifting else None
        saturation = self.profile.saturation
        if saturation:
            raised = min(raised, saturation.most)
            if tokens > saturation.fades_from:
                raised *= (saturation.fades_from / tokens) ** saturation.power
        return raised if most is None else min(raised, most)

    def by_rules(
        self, evidence: Evidence, domain: str = "", kind: KindShift | None = None, kinds_version: str = ""
    ) -> TierDecision:
        """Decide without a model.

        Args:
            evidence: the scan of the prompt.
            domain: the task domain, where the profile gives domains a score.
            kind: the shift by the kinds of prompts near this one, in units of ln(characters).
            kinds_version: the file of kinds that gave it.
        """
        if kind is not None:
            shift = kind.shift * self.profile.per_log_length
            shifted = self._by_rules(evidence, domain, shift, f"kind: {kind} ({shift:+.2f})")
            return msgspec.structs.replace(shifted, kind=kind, kinds_version=kinds_version)
        key, known = (evidence, domain), self._known
        decided = known.get(key)
        if decided is None:
            decided = self._by_rules(evidence, domain)
            if evidence.characters <= _SHORT:
                if len(known) >= _DECIDED:
                    known.clear()  # the few that are in use come again
                known[key] = decided
        return decided

    def _by_rules(self, evidence: Evidence, domain: str, shift: float = 0.0, shown: str = "") -> TierDecision:
        scored, hits = self.score(evidence), evidence.hits
        added = self.profile.domain_scores.get(domain) if domain else None
        if added:
            scored = msgspec.structs.replace(scored, total=scored.total + added)
        if shift:
            scored = msgspec.structs.replace(scored, total=scored.total + shift)
        signals = [
            gauge.show(level, measure, found)
            for _, gauge, level, measure, found in scored.parts
            if level.template
        ]
        if scored.excess:
            signals.append(f"saturated (-{scored.excess:.2f})")
        if shown:
            signals.append(shown)
        if added:
            signals.append(f"domain {domain} ({added:+g})")
        for rule in self.rules:
            if rule.applies(hits, scored.tokens, evidence.utf16_units):
                return self._overridden(rule, scored, hits, signals)
        return self._ruled(scored.total, hits, signals)

    def decide(self, evidence: Evidence) -> Generator[ModelQuery, ModelReply, TierDecision]:
        """Decide, asking a model at most once and only when the profile's escalation rule demands it."""
        return (yield from self.verify(self.by_rules(evidence), evidence))

    def verify(
        self, decided: TierDecision, evidence: Evidence
    ) -> Generator[ModelQuery, ModelReply, TierDecision]:
        """Ask a model if a decision is marked as unsure."""
        if not decided.needs_verification:
            return decided
        answer = yield ask(self.profile.verification, evidence.text, **self._asked)
        return settle(self.profile.verification, decided, answer)

    def unverified(self, decided: TierDecision) -> TierDecision:
        """Return the decision in place of an unsure one of the rules if no model verifies.

        The same as if no model could be asked: the profile's tier for a failed verification, if it has one.
        """
        tier = self.profile.verification.on_failure
        if tier is None or not decided.needs_verification or decided.stage is not _RULES:
            return decided
        reason = Reason("tiers.unverified", f"unsure, and no model verifies; {tier} holds")
        return msgspec.structs.replace(
            decided, tier=tier, stage=Stage.FALLBACK, reasons=(*decided.reasons, reason)
        )

    def _overridden(
        self, rule: CompiledOverride, scored: Scored, hits: int, signals: list[str]
    ) -> TierDecision:
        override = rule.override
        shown = rule.show(hits, scored.tokens)
        confidence = override.confidence
        if confidence is None:
            confidence = max(self._sigmoid(scored.total), override.least_confidence or 0.0)
        return TierDecision(
            tier=override.tier,
            score=scored.total,
            confidence=confidence,
            signals=(*signals, shown),
            stage=_OVERRIDE,
            needs_verification=False,
            reasons=(Reason(f"tiers.override.{override.name}", shown),),
        )

    def _ruled(self, total: float, hits: int, signals: list[str]) -> TierDecision:
        profile = self.profile
        low, middle, high = profile.boundaries
        rank = (total >= low) + (total >= middle) + (total >= high)
        distance = min(abs(total - low), abs(total - middle), abs(total - high))
        confidence = self._sigmoid(distance)
        unsure = confidence < self._unsure_below
        reasons: tuple[Reason, ...] = self._reasons[rank]
        if rank < self._floor and not hits & self._any_hit:
            unsure, confidence, rank = True, 0.5, self._floor
            reasons = (*reasons, self._no_signal)
        if unsure and (signal := profile.escalation.signal):
            signals.append(signal.replace("{confidence}", f"{confidence:.2f}"))
        return TierDecision(TIERS[rank], total, confidence, tuple(signals), _RULES, unsure, reasons)

    def _sigmoid(self, distance: float) -> float:
        # 1 / (1 + exp(-x)) written so that no x overflows.
        return 0.5 * (1.0 + math.tanh(0.5 * self.profile.steepness * distance))


def _reason_of(profile: TierProfile, tier: Tier) -> Reason:
    low, middle, high = (f"{edge:.2f}" for edge in profile.boundaries)
    between = (f"below {low}", f"from {low} to {middle}", f"from {middle} to {high}", f"from {high} on")
    return Reason(f"tiers.rules.{tier.lower()}", f"score {between[tier.rank]}")
