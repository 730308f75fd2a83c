"""Requests of logs as decisions in a ledger, so that reports, replay and the console work on them.

The model that served is the log's; the decision is the policy's. No model is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pointsman.audit.figures import SessionFigures
from pointsman.audit.replay import Conversations
from pointsman.audit.session import Certainty, Request, Session
from pointsman.decision.decision import without_content
from pointsman.decision.engine import Decided, Engine
from pointsman.runtime import new_ids
from pointsman.stores.ledger import Attempt, Entry, Outcome, PromptText, Writes
from pointsman.vocabulary import Reason

__all__ = ["LoggedDecisions"]

#: Entries after which is waited until they are written: fewer than the queue of a ledger takes.
_WAIT: Final = 2_000
_SERVED: Final = "audit.logged"


class LoggedDecisions:
    """Writes sessions into a ledger, one after another.

    Args:
        ledger: Where to.
        engine: Decides. Its tiers are recorded; the model that served is that of the log.
        names: Configured name of a model, by provider and model as logs have them; others are unchanged.
    """

    def __init__(self, ledger: Writes, engine: Engine, names: Mapping[tuple[str, str], str]) -> None:
        self._ledger: Final = ledger
        self._engine: Final = engine
        self._names: Final = names
        self._new_id: Final = new_ids()
        self._waiting = 0
        self.count = 0  # decisions written

    def write(self, session: Session, of: SessionFigures) -> None:
        """Write one session.

        Args:
            session: The session read.
            of: Its figures, with the outcomes.
        """
        conversations = Conversations(self._engine, session, new_id=self._new_id, unspoken=True)
        ids: list[str] = []
        for request in session.requests:
            decided = conversations.next(request)
            if decided is not None:  # always, with ``unspoken``
                ids.append(self._write(session, request, decided))
        for outcome in _outcomes(session, of, ids):
            self._append(outcome)

    def _write(self, session: Session, request: Request, decided: Decided) -> str:
        name = self._names.get((request.provider, request.model), request.model) or "(not named)"
        decision = msgspec.structs.replace(
            decided.decision,
            chain=(name,),
            refused=(),
            parameters={},
            reasons=(*decided.decision.reasons, Reason(_SERVED, f"{name} answered, as the log says")),
        )
        self._append(without_content(decision))
        if decided.words.text:
            self._append(PromptText(decision=decision.id, text=decided.words.text))
        self._append(_attempt(decision.id, name, session, request))
        self.count += 1
        return decision.id

    def _append(self, entry: Entry) -> None:
        self._ledger.append(entry)
        self._waiting += 1
        if self._waiting >= _WAIT:
            self._ledger.flush()
            self._waiting = 0


def _attempt(decision: str, name: str, session: Session, request: Request) -> Attempt:
    usage = request.usage
    return Attempt(
        decision=decision,
        number=1,
        model=name,
        upstream=request.provider or session.client,
        status=200,
        started_at=request.at or session.started,
        total_ms=0.0,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        written_tokens=usage.written_tokens,
        written_1h_tokens=usage.written_1h_tokens,
        estimated=(usage.input_certainty, usage.output_certainty) != (Certainty.LOGGED, Certainty.LOGGED),
    )


def _outcomes(session: Session, of: SessionFigures, ids: list[str]) -> Iterator[Outcome]:
    """Yield the outcome of each turn for its last decision that is work."""
    for each in of.outcomes:
        last = each is of.outcomes[-1]
        solved, by = (of.solved, of.solved_by) if last else (each.solved, each.by)
        own = range(min(each.end, len(ids)) - 1, each.first - 1, -1)
        at = next((index for index in own if session.requests[index].is_main), None)
        if solved is not None and at is not None:
            yield Outcome(
                decision=ids[at],
                score=float(solved),
                label="solved" if solved else "not solved",
                source="import",
                comment=by,
                at=session.requests[at].at,
            )
