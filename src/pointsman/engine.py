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
from pointsman.policy import DomainPolicy, Mode, Policy
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


class _Draft:
    """A decision being made: each part reads what the parts before it left here."""

    def __init__(self, turn: Turn, memory: Memory) -> None:
        self.turn = turn
        self.memory = memory
        self.words = _NO_WORDS
        self.evidence = _NO_EVIDENCE
        self.tier: TierDecision | None = None
        self.chain: tuple[str, ...] = ()
        self.domains: DomainDecision | None = None
        self.additions: list[Addition] = []
        self.abstained: list[Reason] = []

    @property
    def message_key(self) -> str:
        """Identity of the user message; the same on every tool iteration."""
        return self.turn.message_id or self.words.key

    def abstain(self, part: str, error: Exception) -> None:
        self.abstained.append(Reason(f"{part}.failed", f"{type(error).__name__}: {error}"))


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
        draft = _Draft(turn, memory)
        self._read(draft)
        yield from self._choose_model(draft)
        if self.policy.domains and self._tracker:
            self._find_domains(draft, self.policy.domains, self._tracker)
        return Decided(self._decision(draft, decision_id), draft.memory, draft.words)

    def _read(self, draft: _Draft) -> None:
        try:
            draft.words = extract(draft.turn)
            draft.evidence = self.scanner.scan(draft.words.text)
        except Exception as error:  # noqa: BLE001 - a text that cannot be read is decided as an empty one
            draft.abstain("evidence", error)

    def _choose_model(self, draft: _Draft) -> Generator[Need, Answer, None]:
        asked = draft.turn.model
        if forced := forced_tier(asked):
            draft.tier = _without_rules(forced, 1.0, "forced by the model id", Stage.FORCED)
        elif asked in AUTO:
            yield from self._judge_tier(draft)
        elif asked not in self.policy.models:
            raise _unknown_model(asked, self.policy)
        draft.chain = self._chain(draft.tier) if draft.tier else (asked,)

    def _judge_tier(self, draft: _Draft) -> Generator[Need, Answer, None]:
        try:
            if self.policy.verify is None:
                tier = self._judge.by_rules(draft.evidence)
            else:
                tier = yield from self._judge.decide(draft.evidence)
        except Exception as error:  # noqa: BLE001 - the seed serves what it cannot classify with MEDIUM
            draft.abstain("tiers", error)
            tier = _without_rules(FAILED_TIER, 0.5, "deciding failed", Stage.FALLBACK)
        draft.tier = tier
        draft.abstained.extend(reason for reason in tier.reasons if reason.code.startswith("tiers.abstained"))

    def _chain(self, tier: TierDecision) -> tuple[str, ...]:
        named = (self.policy.ladder.get(step) for step in FALLBACK_CHAIN[tier.tier])
        return tuple(dict.fromkeys(model for model in named if model))

    def _find_domains(self, draft: _Draft, policy: DomainPolicy, tracker: DomainTracker) -> None:
        before = draft.memory
        try:
            profile = policy.profile(draft.chain[0] if draft.chain else "")
            decided, kept = tracker.decide(draft.evidence, before.domains, draft.message_key, profile)
        except Exception as error:  # noqa: BLE001 - a request goes on without domains
            draft.abstain("domains", error)
            return
        # Once per user message; a client that sends the same request again gets the same again.
        messages = len(draft.turn.history)
        first = kept.key != before.domains.key or messages == before.enriched_at
        draft.memory = msgspec.structs.replace(
            before, domains=kept, enriched_at=messages if first else before.enriched_at
        )
        draft.domains = decided
        if policy.mode is Mode.ON and first and decided.enrichment:
            draft.additions.append(Addition("domains", decided.enrichment))

    def _decision(self, draft: _Draft, decision_id: str) -> Decision:
        turn, evidence = draft.turn, draft.evidence
        return Decision(
            id=decision_id,
            session=turn.session,
            format=turn.format,
            model_asked=turn.model,
            arrived_at=turn.arrived_at,
            policy=self.version,
            tier=draft.tier,
            chain=draft.chain,
            additions=tuple(draft.additions),
            abstained=tuple(draft.abstained),
            signals=self._signal_ids(evidence.hits),
            characters=evidence.characters,
            tokens=evidence.tokens,
            utf16_units=evidence.utf16_units,
            questions=evidence.questions,
            script=evidence.script,
            domains=draft.domains,
        )

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
