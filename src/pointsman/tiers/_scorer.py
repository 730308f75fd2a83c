"""The rule scorer: a weighted sum from evidence to ``TierDecision``."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Final

import msgspec

from pointsman.evidence import SignalTable
from pointsman.tiers._compiled import CompiledDimension, CompiledOverride, Level, places
from pointsman.tiers._verification import ask, settle, with_margin
from pointsman.tiers.decision import TierDecision
from pointsman.tiers.kinds import KindShift
from pointsman.tiers.policy import Verification
from pointsman.tiers.profile import TierProfile, TokenEstimate
from pointsman.vocabulary import Evidence, ModelQuery, ModelReply, Reason, Script, Stage, Tier

# Enum members are looked up once: on the path of every request a look-up costs as much as a sigmoid.
_TIERS: Final = tuple(Tier)
_RULES: Final = Stage.RULES
_OVERRIDE: Final = Stage.OVERRIDE
#: Characters of a text whose decision is remembered, and how many are: about 4 MB.
_SHORT: Final = 2_000
_DECIDED: Final = 1_024
_LATIN: Final = Script.LATIN

#: Why length alone decides the tier of a request that offers tools.
KEYWORDS_UNUSED: Final = Reason("tiers.tools", "request with tools: keywords do not count")
_NO_SIGNAL: Final = Reason("tiers.no-signal", "no keyword was found, so it is not taken to be simple")
_NONE_COUNTS: Final = Reason("tiers.no-signal", "no keyword counts, so it is not taken to be simple")


class Scored(msgspec.Struct, frozen=True, gc=False):
    """The weighted sum of one prompt."""

    total: float
    parts: list[
        tuple[CompiledDimension, Level, int, int]
    ]  # (dimension, level, measure, hits) where it scores, in order
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
            why: said in every decision of the sum: why this profile decides, and not the policy's.

        Raises:
            KeyError: the table lacks a signal of the profile.
        """
        for signal in profile.signals():
            table.bit(signal)
        self.profile = with_margin(profile, verification)
        self._unsure_below = self.profile.escalation.below
        self._unsure_signal = self.profile.escalation.signal
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
        self._known: dict[tuple[Evidence, str], TierDecision] = {}
        self._utf16 = profile.tokens is TokenEstimate.UTF16
        floor = profile.without_signals
        self._floor = floor.rank if floor else 0  # lowest rank without any signal
        limits = [gauge for gauge in self.gauges if gauge.dimension.others_at_most is not None]
        self._limiting = sum(gauge.mask for gauge in limits)
        self._lifting = sum(by_name[name].mask for gauge in limits for name in gauge.dimension.but_not_beside)
        self._most = min((gauge.dimension.others_at_most or 0.0 for gauge in limits), default=0.0)
        beside = (why,) if why else ()
        self._reasons = tuple((_reason_of(profile, tier), *beside) for tier in _TIERS)
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
        return int(estimate * self.profile.script_factors.get(script, 1.0))

    def score(self, evidence: Evidence) -> Scored:
        """Add up the dimensions, in the profile's order: the sum is the same to the last bit everywhere."""
        tokens = self.tokens(evidence)
        measured = [
            (place, gauge, tokens if gauge.counts_tokens else evidence.questions, 0)
            for place, gauge in self._always
        ]
        hits = evidence.hits
        most = self._most if hits & self._limiting and not hits & self._lifting else None
        left = hits & self._any_hit
        while left:  # once for each dimension that found anything
            place, gauge, mask = self._group_of[left.bit_length()]
            found = left & mask
            left ^= found
            measured.append((place, gauge, found.bit_count(), found))
        measured.sort()
        total = raised = 0.0
        parts: list[tuple[CompiledDimension, Level, int, int]] = []
        for _, gauge, measure, found in measured:
            level = gauge.by_count[measure] if found else gauge.at(measure)
            if level.score:
                total += level.contribution
                parts.append((gauge, level, measure, found))
                if found and level.contribution > 0.0:
                    raised += level.contribution
        excess = raised - self._allowed(raised, tokens, most) if raised else 0.0
        return Scored(total - excess, parts, tokens, excess)

    def _allowed(self, raised: float, tokens: int, most: float | None) -> float:
        """What the keywords may add together of what they add one by one."""
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
            kind: what the kinds of prompts near this one add, in units of ln(characters).
            kinds_version: which file of kinds said so.
        """
        if kind is None and evidence.characters <= _SHORT:
            known = self._known.get((evidence, domain))
            if known is None:
                if len(self._known) >= _DECIDED:
                    self._known.clear()  # the few that are in use come again
                known = self._by_rules(evidence, domain, self.score(evidence), 0.0, "")
                self._known[evidence, domain] = known
            return known
        scored = self.score(evidence)
        if kind is not None:
            shift = kind.shift * self.profile.per_log_length
            decided = self._by_rules(evidence, domain, scored, shift, f"kind: {kind} ({shift:+.2f})")
            return msgspec.structs.replace(decided, kind=kind, kinds_version=kinds_version)
        return self._by_rules(evidence, domain, scored, 0.0, "")

    def _by_rules(
        self, evidence: Evidence, domain: str, scored: Scored, shift: float, shown: str
    ) -> TierDecision:
        added = self.profile.domain_scores.get(domain) if domain else None
        if added:
            scored = msgspec.structs.replace(scored, total=scored.total + added)
        if shift:
            scored = msgspec.structs.replace(scored, total=scored.total + shift)
        hits = evidence.hits
        signals = [
            gauge.show(level, measure, found)
            for gauge, level, measure, found in scored.parts
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
        """Decide, asking a model at most once and only when the profile's escalation rule says so."""
        return (yield from self.verify(self.by_rules(evidence), evidence))

    def verify(
        self, decided: TierDecision, evidence: Evidence
    ) -> Generator[ModelQuery, ModelReply, TierDecision]:
        """Ask a model where a decision says that it is unsure."""
        if not decided.needs_verification:
            return decided
        answer = yield ask(self.profile.verification, evidence.text, **self._asked)
        return settle(self.profile.verification, decided, answer)

    def unverified(self, decided: TierDecision) -> TierDecision:
        """What holds of an unsure decision of the rules where no model verifies.

        The same as where none could be asked: the profile's tier for a failed verification, where it has one.
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
        low, middle, high = self.profile.boundaries
        rank = (total >= low) + (total >= middle) + (total >= high)
        distance = min(abs(total - low), abs(total - middle), abs(total - high))
        confidence = self._sigmoid(distance)
        unsure = confidence < self._unsure_below
        reasons: tuple[Reason, ...] = self._reasons[rank]
        if rank < self._floor and not hits & self._any_hit:
            unsure, confidence, rank = True, 0.5, self._floor
            reasons = (*reasons, self._no_signal)
        if unsure and self._unsure_signal:
            signals.append(self._unsure_signal.replace("{confidence}", f"{confidence:.2f}"))
        return TierDecision(_TIERS[rank], total, confidence, tuple(signals), _RULES, unsure, reasons)

    def _sigmoid(self, distance: float) -> float:
        # 1 / (1 + exp(-x)) written so that no x overflows.
        return 0.5 * (1.0 + math.tanh(0.5 * self.profile.steepness * distance))


def _reason_of(profile: TierProfile, tier: Tier) -> Reason:
    low, middle, high = (f"{edge:.2f}" for edge in profile.boundaries)
    between = (f"below {low}", f"from {low} to {middle}", f"from {middle} to {high}", f"from {high} on")
    return Reason(f"tiers.rules.{tier.lower()}", f"score {between[tier.rank]}")
