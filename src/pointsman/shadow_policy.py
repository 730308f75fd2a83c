"""The shadow policy: decides every request a second time, and records the difference.

It runs in a separate thread, on turns that are decided already: it can delay no answer and change none. A
turn that it cannot decide is counted and recorded as such.
"""

from __future__ import annotations

import copy
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.decision.diff import AsDecided, changed, reasons, verdict
from pointsman.decision.engine import Engine
from pointsman.drivers import drive
from pointsman.errors import UnknownModel
from pointsman.runtime import decode_memory, encode_memory
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.ledger.port import ShadowDecision, Writes
from pointsman.stores.sessions import MemorySessions, SessionStore
from pointsman.vocabulary import AgentRequest

__all__ = ["ShadowPolicy"]

log = logging.getLogger(__name__)

#: Turns that may wait, each of which holds on to its request. Half a second of a thousand a second.
WAITING: Final = 512

#: Seconds for which turns gather: the one that has just been decided gets on its way first.
LINGER: Final = 0.005


class _Decided(NamedTuple):
    engine: Engine  # of the policy on trial when the turn was decided
    request: AgentRequest
    then: Decision


class ShadowPolicy:
    """Decides turns again. Call it with each, in order; it remembers sessions by itself.

    Questions to a model are answered as they were answered for the decision that served, or not at all:
    nothing is asked.
    """

    def __init__(self, engine: Engine, ledger: Writes, sessions: SessionStore | None = None) -> None:
        self.engine = engine
        self._ledger: Final = ledger
        self.sessions: Final = sessions or MemorySessions()
        self._counts: Final[Counter[str]] = Counter()
        self._writer: Final = BatchWriter[_Decided](
            self._decide_all, size=WAITING, name="shadow", linger=LINGER
        )

    def with_engine(self, engine: Engine) -> ShadowPolicy:
        """Return a shadow policy that decides with another engine; earlier turns are unaffected.

        Both share the sessions' memory, the counts, the ledger and the thread.
        """
        other = copy.copy(self)
        other.engine = engine
        return other

    @property
    def counts(self) -> Mapping[str, int]:
        """Turns by result: ``same``, ``differs``, ``refused``, ``failed``, ``lost``."""
        return {**self._counts, "lost": self._writer.lost}

    def __call__(self, request: AgentRequest, then: Decision) -> None:
        """Take a turn that was decided. Never blocks and never raises."""
        self._writer.put(_Decided(self.engine, request, then))

    def flush(self) -> None:
        """Decide everything taken."""
        self._writer.flush()

    def close(self) -> None:
        """Decide what waits and end the thread."""
        self._writer.close()
        self.sessions.close()

    def _decide_all(self, batch: Sequence[_Decided]) -> int:
        for engine, request, then in batch:
            try:
                found = self._decide(engine, request, then)
                result = "differs" if found.changed else "same"
            except UnknownModel as error:
                result, found = "refused", self._undecided(engine, then, error)
            except Exception as error:
                # Whatever is wrong with a policy on trial, the turns that follow are still decided.
                log.warning("the shadow policy cannot decide %s", then.id, exc_info=True)
                result, found = "failed", self._undecided(engine, then, error)
            self._counts[result] += 1
            self._ledger.append(found)
        return 0

    def _decide(self, engine: Engine, request: AgentRequest, then: Decision) -> ShadowDecision:
        began, ask = time.perf_counter(), AsDecided(then)
        kept = self.sessions.get(request.session) if request.session else None
        now, memory, _ = drive(engine.decide(request, decode_memory(kept), then.id), ask)
        if request.session:
            self.sessions.put(request.session, encode_memory(memory))
        said = verdict(now)
        parts = changed(verdict(then), said)
        return ShadowDecision(
            decision=then.id,
            at=then.input.arrived_at,
            policy=engine.version,
            verdict=said,
            changed=parts,
            why=tuple(reasons(then, now, parts)) if parts else (),
            asks=ask.answered,
            elapsed_us=(time.perf_counter() - began) * 1e6,
        )

    def _undecided(self, engine: Engine, then: Decision, error: Exception) -> ShadowDecision:
        return ShadowDecision(
            decision=then.id, at=then.input.arrived_at, policy=engine.version, error=type(error).__name__
        )
