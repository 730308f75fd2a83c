"""The domain decision of one turn: scoring, memory, enrichment plan, reasons."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from pointsman.domains import _narrate as narrate
from pointsman.domains._examples import ExampleMatcher
from pointsman.domains.data import DomainSet
from pointsman.domains.enrichment import EnrichmentPlan, Texts
from pointsman.domains.momentum import remember
from pointsman.domains.profiles import PERMISSIVE, ModelProfile
from pointsman.domains.scoring import Reading, Scorer
from pointsman.domains.values import Compound, DomainMemory, MomentumStep, Part, Source
from pointsman.evidence import SignalTable
from pointsman.vocabulary import Encoder, Evidence

__all__ = ["DomainDecision", "DomainTracker"]

_log: Final = logging.getLogger("pointsman.domains")


class DomainDecision(msgspec.Struct, frozen=True, gc=False):
    """What one turn's domains are, what memory did, and what the model is told."""

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
        """The shape of ``pointsman classify``: domains by name, raw beside effective.

        What an example utterance decided has a key more in ``raw``: ``source``.
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
            memory: what the session remembers; ``DomainMemory()`` for a new one.
            user_message_key: identifies the user message. The tool iterations that follow it come with the
                same key, and get the stored result.
            profile: of the model that will answer.

        Returns:
            The decision, and the memory to keep for the next turn.
        """
        before = memory if self._knows(memory) else DomainMemory()
        outcome, after = self._outcome(evidence, before, user_message_key)
        decision = self._decision(outcome, profile)
        if after is not before and _log.isEnabledFor(logging.INFO):
            for line in narrate.lines(before, outcome, decision.enrichment_plan, profile):
                _log.info("%s%s", self._label, line)
        return decision, after

    def primary(self, evidence: Evidence, memory: DomainMemory, user_message_key: str) -> str:
        """The first of the domains that ``decide`` will find, for what is decided before a model is known."""
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
