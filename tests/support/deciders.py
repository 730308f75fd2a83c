"""A scripted decider, for testing its callers."""

from __future__ import annotations

import itertools
from functools import cache

from pointsman.access import PaidQuestions
from pointsman.decision.decision import Decision, Injection, RequestInput, StandingInjection
from pointsman.decision.engine import Engine
from pointsman.factory import build_engine, default_policy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import Ledger, MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import TierDecision
from pointsman.vocabulary import AgentRequest, Stage, Tier

__all__ = ["ScriptedDecider"]


@cache
def _engine() -> Engine:
    return build_engine(default_policy())


class ScriptedDecider(Runtime):
    """Decides every request for the same chain of models, and remembers what it was asked."""

    failures = 0
    faults: dict[str, str] = {}  # noqa: RUF012 - of none

    def __init__(
        self, *chain: str, injections: tuple[Injection, ...] = (), ledger: Ledger | None = None
    ) -> None:
        super().__init__(_engine(), sessions=MemorySessions(), ledger=ledger or MemoryLedger())
        self.chain = chain
        self.injections = injections
        self.standing: tuple[StandingInjection, ...] = ()
        self.turns: list[AgentRequest] = []
        self._numbers = itertools.count(1)

    async def decide(self, request: AgentRequest, payer: PaidQuestions | None = None, /) -> Decision:
        """Return the scripted decision, and write it down."""
        self.turns.append(request)
        decision = Decision(
            id=f"d-{next(self._numbers)}",
            input=RequestInput(
                session=request.session,
                format=request.format,
                model_asked=request.model,
                arrived_at=request.arrived_at,
                caller=request.caller,
                messages=len(request.history),
            ),
            policy="scripted",
            tier=TierDecision(
                tier=Tier.SIMPLE,
                score=-0.1,
                confidence=0.77,
                signals=("short (3 tokens)",),
                stage=Stage.RULES,
                needs_verification=False,
                reasons=(),
            ),
            chain=self.chain,
            injections=self.injections,
            standing=self.standing,
        )
        self.ledger.append(decision)
        return decision
