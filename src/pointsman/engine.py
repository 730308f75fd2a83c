"""The four answers put together: one turn and a session's memory in, a decision and new memory out.

Pure and synchronous. A part that fails abstains: the decision says so and goes on without it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

import msgspec

from pointsman.decision import Addition, Decision
from pointsman.domains import DomainDecision, DomainMemory, DomainTracker
from pointsman.errors import UnknownModel
from pointsman.evidence import Scanner
from pointsman.policy import Mode, Policy
from pointsman.text.extract import Extracted, extract
from pointsman.tiers import TierDecision, TierJudge
from pointsman.types import Answer, Evidence, Need, Reason, Script, Stage, Tier, Turn

__all__ = ["Decided", "Engine", "Memory"]

#: What serves a request whose tier could not be decided. Source: seed, "Failure modes".
FAILED_TIER: Final = Tier.MEDIUM

AUTO: Final = frozenset({"auto", "pointsman/auto", "pointsman", ""})

#: Source: seed, "Fallback Chain".
FALLBACK_CHAIN: Final = {
    Tier.SIMPLE: (Tier.SIMPLE, Tier.MEDIUM, Tier.COMPLEX),
    Tier.MEDIUM: (Tier.MEDIUM, Tier.COMPLEX),
    Tier.COMPLEX: (Tier.COMPLEX, Tier.REASONING),
    Tier.REASONING: (Tier.REASONING,),
}

_NO_WORDS: Final = Extracted("", -1, ())
_NO_EVIDENCE: Final = Evidence("", 0, 0, 0, 0, 0, Script.NONE)


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one session remembers between turns; plain JSON values."""

    domains: DomainMemory = DomainMemory()
    enriched_at: int = -1  # messages in the history when the current user message was enriched


class Decided(NamedTuple):
    """What deciding one turn gave."""

    decision: Decision
    memory: Memory
    words: Extracted  # the person's words; apart from the decision, which may be kept where they may not


class Engine:
    """A policy made ready to decide. Holds no state between turns; safe to share."""

    def __init__(self, policy: Policy, scanner: Scanner) -> None:
        """Compile the policy for the signal table of ``scanner``, which must hold all its signals."""
        self.policy = policy
        self.version = policy.version()
        self.scanner = scanner
        self._ids = tuple(signal.id for signal in scanner.table.signals)
        self._judge = TierJudge(policy.profile, scanner.table)
        self._tracker = DomainTracker(policy.domains.domains, scanner.table) if policy.domains else None

    def decide(self, turn: Turn, memory: Memory, decision_id: str) -> Generator[Need, Answer, Decided]:
        """Decide one turn.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        forced = forced_tier(turn.model)
        abstained: list[Reason] = []
        words, evidence = self._evidence(turn, abstained)
        tier: TierDecision | None = None
        if forced is not None:
            tier = _forced(forced)
        elif turn.model in AUTO:
            tier = yield from self._tier(evidence, abstained)
        elif turn.model not in self.policy.models:
            raise _unknown_model(turn.model, self.policy)
        chain = self._chain(tier) if tier else (turn.model,)
        domains, memory, additions = self._domains(turn, words, evidence, memory, chain, abstained)
        decision = Decision(
            id=decision_id,
            session=turn.session,
            format=turn.format,
            model_asked=turn.model,
            arrived_at=turn.arrived_at,
            policy=self.version,
            tier=tier,
            chain=chain,
            additions=additions,
            abstained=tuple(abstained),
            signals=self._signal_ids(evidence.hits),
            characters=evidence.characters,
            tokens=evidence.tokens,
            utf16_units=evidence.utf16_units,
            questions=evidence.questions,
            script=evidence.script,
            domains=domains,
        )
        return Decided(decision, memory, words)

    def _evidence(self, turn: Turn, abstained: list[Reason]) -> tuple[Extracted, Evidence]:
        try:
            words = extract(turn)
            return words, self.scanner.scan(words.text)
        except Exception as error:  # noqa: BLE001 - a text that cannot be read is decided as an empty one
            abstained.append(_failed("evidence", error))
            return _NO_WORDS, _NO_EVIDENCE

    def _tier(self, evidence: Evidence, abstained: list[Reason]) -> Generator[Need, Answer, TierDecision]:
        try:
            if self.policy.verify is None:
                decided = self._judge.by_rules(evidence)
            else:
                decided = yield from self._judge.decide(evidence)
        except Exception as error:  # noqa: BLE001 - the seed serves what it cannot classify with MEDIUM
            abstained.append(_failed("tiers", error))
            return _without_rules(FAILED_TIER, 0.5, "deciding failed", Stage.FALLBACK)
        abstained.extend(reason for reason in decided.reasons if reason.code.startswith("tiers.abstained"))
        return decided

    def _domains(
        self,
        turn: Turn,
        words: Extracted,
        evidence: Evidence,
        memory: Memory,
        chain: tuple[str, ...],
        abstained: list[Reason],
    ) -> tuple[DomainDecision | None, Memory, tuple[Addition, ...]]:
        policy = self.policy.domains
        if policy is None or self._tracker is None or policy.mode is Mode.OFF:
            return None, memory, ()
        try:
            key = turn.message_id or words.key
            profile = policy.profile(chain[0] if chain else "")
            decided, kept = self._tracker.decide(evidence, memory.domains, key, profile)
        except Exception as error:  # noqa: BLE001 - a request goes on without domains
            abstained.append(_failed("domains", error))
            return None, memory, ()
        messages = len(turn.history)
        first = kept.key != memory.domains.key or messages == memory.enriched_at
        memory = Memory(domains=kept, enriched_at=messages if first else memory.enriched_at)
        if policy.mode is Mode.ON and first and decided.enrichment:
            return decided, memory, (Addition("domains", decided.enrichment),)
        return decided, memory, ()

    def _chain(self, tier: TierDecision) -> tuple[str, ...]:
        named = (self.policy.ladder.get(step) for step in FALLBACK_CHAIN[tier.tier])
        return tuple(dict.fromkeys(model for model in named if model))

    def _signal_ids(self, hits: int) -> tuple[str, ...]:
        ids = []
        while hits:
            low = hits & -hits
            ids.append(self._ids[low.bit_length() - 1])
            hits ^= low
        return tuple(ids)


def forced_tier(model: str) -> Tier | None:
    """The tier a model id names: ``simple``, ``pointsman/simple``, and the seed's own prefix."""
    name = model.removeprefix("pointsman/").removeprefix("claw-llm-router/").upper()
    return Tier(name) if name in Tier.__members__ else None


def _forced(tier: Tier) -> TierDecision:
    return _without_rules(tier, 1.0, "forced by the model id", Stage.FORCED)


def _without_rules(tier: Tier, confidence: float, why: str, stage: Stage) -> TierDecision:
    return TierDecision(
        tier=tier,
        score=0.0,
        confidence=confidence,
        signals=(why,),
        stage=stage,
        needs_verification=False,
        reasons=(),
    )


def _unknown_model(model: str, policy: Policy) -> UnknownModel:
    known = ", ".join(("auto", *(tier.lower() for tier in Tier), *policy.models))
    return UnknownModel(f'unknown model "{model}"', hint=f"known: {known}", param="model")


def _failed(part: str, error: Exception) -> Reason:
    return Reason(f"{part}.failed", f"{type(error).__name__}: {error}")
