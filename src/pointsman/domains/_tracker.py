"""The domain decision of one turn: scoring, memory, enrichment plan, reasons."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pointsman.domains.data import PERMISSIVE, DomainSet, ModelProfile
from pointsman.domains.enrichment import DISABLED, EnrichmentPlan, Texts
from pointsman.domains.momentum import remember
from pointsman.domains.scoring import Reading, Scorer
from pointsman.domains.values import Compound, DomainClass, DomainMemory, MomentumStep, Part, Source
from pointsman.evidence import SignalTable
from pointsman.vocabulary import Encoder, Evidence

# Example-based matching: for a message without signals, the nearest example utterance.

#: Least cosine with the nearest example where memory has no task, and where it has one.
NEAR: Final = 0.4
VERY_NEAR: Final = 0.6

#: Least lead over the nearest example of any other domain.
LEAD: Final = 0.05


class ExampleMatcher:
    """Compares messages with the example utterances of a domain set.

    Examples of the null domain ("that sounds good") filter small talk: a message nearest to one of them is
    nothing else.
    """

    def __init__(self, domains: DomainSet, encoder: Encoder) -> None:
        """Encode the examples once. Domains without examples are never found here."""
        self._encoder = encoder
        self._examples = [(domain, text) for domain in domains for text in domain.examples]
        self._vectors = encoder.encode([text for _, text in self._examples])

    def read(self, text: str, *, carrying: bool) -> Reading | None:
        """Read one message that has no signal.

        Args:
            text: the user's words.
            carrying: memory has a task that the message would continue.

        Returns:
            A reading of one domain with one signal, the example; None when no example is near enough.
        """
        if not self._examples:
            return None
        similarities = (self._vectors @ self._encoder.encode([text])[0]).tolist()
        best, nearest = max((similarity, -index) for index, similarity in enumerate(similarities))
        domain, example = self._examples[-nearest]
        rival = max(
            (s for s, (other, _) in zip(similarities, self._examples, strict=True) if other is not domain),
            default=0.0,
        )
        near_enough = best >= (VERY_NEAR if carrying else NEAR) and best - rival >= LEAD
        if domain.kind is DomainClass.NULL or not near_enough:
            return None
        part = Part(domain.name, 1, (f"like: {example}",), source=Source.EXAMPLES)
        return Reading((part,), Compound(part))


_log: Final = logging.getLogger("pointsman.domains")


class DomainDecision(msgspec.Struct, frozen=True, gc=False):
    """Domains of one turn, effect of memory, and injected text."""

    raw: Compound  # this message alone
    effective: Compound  # after memory
    momentum: int  # turns that confirmed the task pair
    rule: str  # row of the rule table: "R0" to "R4b"
    enrichment_plan: EnrichmentPlan
    enrichment: str  # text for the model; empty when there is nothing to say

    @property
    def signature(self) -> str:
        """The effective domains in alphabetical order: ``coding+investigation``."""
        return self.effective.signature

    def to_json(self) -> dict[str, object]:
        """The shape of ``pointsman classify``: domains by name, raw and effective.

        What an example utterance decided has a further key in ``raw``: ``source``.
        """
        raw, effective = self.raw.domains, self.effective.domains
        source = self.raw.primary.source
        label = {} if source is Source.SIGNALS else {"source": str(source)}
        return {
            "raw": {"primary": raw[0], "secondary": raw[1] or None, **label},
            "effective": {
                "primary": effective[0],
                "secondary": effective[1] or None,
                "carried": self.effective.carried,
            },
            "signature": self.signature,
            "momentum": self.momentum,
            "rule": self.rule,
            "enrichment_plan": msgspec.structs.asdict(self.enrichment_plan),
        }

    def to_dict(self) -> dict[str, Any]:
        """The effective domains in the shape of docs/sources/compound-domains.md, "Data structures".

        A part that memory restored has one key more, ``carried``, and confidence 0.
        """
        secondary = self.effective.secondary
        return {
            "primary": _part(self.effective.primary),
            "secondary": _part(secondary) if secondary else None,
            "compound_signature": self.signature,
            "momentum_turns": self.momentum,
            "enrichment_plan": msgspec.structs.asdict(self.enrichment_plan),
        }


def _part(part: Part) -> dict[str, Any]:
    known = {"domain": part.domain, "confidence": part.confidence, "matched_signals": list(part.signals)}
    return {**known, "carried": True} if part.carried else known


class DomainTracker:
    """Decides the domains of a session's turns, one user message after the other."""

    def __init__(
        self, domains: DomainSet, table: SignalTable, encoder: Encoder | None = None, *, label: str = ""
    ) -> None:
        """Prepare for one domain set.

        Args:
            domains: the domains to tell apart.
            table: the signal table that scans the texts; must hold ``domains.signals()``.
            encoder: compares messages without signals with the domains' examples; None: nothing does.
            label: put before the guidance text of each domain and before each log line.
        """
        self.domains: Final = domains
        self._scorer = Scorer(domains, table)
        self._examples = ExampleMatcher(domains, encoder) if encoder else None
        self._label = label
        self._texts = Texts(domains, label)
        self._names = frozenset(domains.domains) | {""}

    def decide(
        self,
        evidence: Evidence,
        memory: DomainMemory,
        user_message_key: str,
        profile: ModelProfile = PERMISSIVE,
    ) -> tuple[DomainDecision, DomainMemory]:
        """Decide one turn.

        Args:
            evidence: the scan of the user message.
            memory: session memory; ``DomainMemory()`` for a new one.
            user_message_key: identifies the user message. The tool iterations that follow it come with the
                same key, and get the stored result.
            profile: of the model that will answer.

        Returns:
            The decision, and the memory for the next turn.
        """
        before = memory if self._knows(memory) else DomainMemory()
        outcome, after = self._outcome(evidence, before, user_message_key)
        decision = self._decision(outcome, profile)
        if after is not before and _log.isEnabledFor(logging.INFO):
            for line in lines(before, outcome, decision.enrichment_plan, profile):
                _log.info("%s%s", self._label, line)
        return decision, after

    def primary(self, evidence: Evidence, memory: DomainMemory, user_message_key: str) -> str:
        """The first of the domains that ``decide`` will find, for decisions before a model is known."""
        before = memory if self._knows(memory) else DomainMemory()
        return self._outcome(evidence, before, user_message_key)[0].effective.domains[0]

    def _outcome(
        self, evidence: Evidence, before: DomainMemory, user_message_key: str
    ) -> tuple[MomentumStep, DomainMemory]:
        if before.outcome and user_message_key and before.key == user_message_key:
            return before.outcome, before
        return remember(self._read(evidence, before), before, self.domains, user_message_key)

    def _read(self, evidence: Evidence, memory: DomainMemory) -> Reading:
        scorer = self._scorer
        reading = scorer.read(evidence) if evidence.hits & scorer.mask else scorer.silence
        if self._examples is None or reading.raw.primary.signals:
            return reading
        return self._examples.read(evidence.text, carrying=bool(memory.pair.primary)) or reading

    def _knows(self, memory: DomainMemory) -> bool:
        """False for a memory of domains that have since been taken out of the domain file."""
        known, pair, outcome = self._names, memory.pair, memory.outcome
        if pair.primary not in known or pair.secondary not in known or memory.operational not in known:
            return False
        if outcome is None:
            return True
        first, second = outcome.effective.primary, outcome.effective.secondary
        return first.domain in known and (second is None or second.domain in known)

    def _decision(self, outcome: MomentumStep, profile: ModelProfile) -> DomainDecision:
        effective = outcome.effective
        plan, text = self._texts.enrichment(effective, profile.disabled, passed_over=outcome.passed_over)
        return DomainDecision(outcome.raw, effective, outcome.momentum, outcome.rule, plan, text)


# The log lines of a turn. Source of the formats: docs/sources/compound-domains.md, "Logging".

#: Rules under which the pair withstood a message, and under which it gave way.
_HELD = frozenset({"R1a", "R4b"})
_BROKEN = frozenset({"R4a"})


def lines(
    before: DomainMemory, outcome: MomentumStep, plan: EnrichmentPlan, profile: ModelProfile
) -> Iterator[str]:
    """Describe one turn, for the log and never for a prompt."""
    parts = [part for part in (outcome.effective.primary, outcome.effective.secondary) if part]
    switches = f"primary={_switch(plan.primary_enrichment)} secondary={_switch(plan.secondary_enrichment)}"
    yield (
        f"{' + '.join(map(_narrated, parts))} | sig={outcome.effective.signature}"
        f" | momentum={outcome.momentum} | enrichment: {switches}"
    )
    was = f"{before.pair.signature} ({_turns(before.momentum)})"
    rival = outcome.raw.primary
    if outcome.rule in _HELD:
        yield f"Momentum held: {was} resisted {rival.domain} ({_signals(rival.confidence)})"
    if outcome.rule in _BROKEN:
        yield f"Momentum break: {was} → {rival.domain} ({_signals(rival.confidence)}, not in compound)"
    model = f" ({profile.model})" if profile.model else ""
    reasons = (plan.reason_primary_skipped, plan.reason_secondary_skipped)
    for role, part, reason in zip(("Primary", "Secondary"), parts, reasons, strict=False):
        if reason == DISABLED:
            yield f"{role} enrichment skipped for {part.domain}: {reason}{model}"


def _narrated(part: Part) -> str:
    carried = ", carried" if part.carried else ""
    found = "1 example" if part.source is Source.EXAMPLES else _signals(part.confidence)
    return f"{part.domain} ({found}{carried})"


def _signals(count: int) -> str:
    return f"{count} signal" if count == 1 else f"{count} signals"


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"
