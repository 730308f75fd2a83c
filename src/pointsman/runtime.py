"""The one place that performs effects for a decision: time, ids, memory, model calls, the ledger."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Final, TypeVar

import msgspec

from pointsman.decision.decision import Decision, without_content
from pointsman.decision.engine import Decided, Engine, Memory
from pointsman.errors import StoreUnavailable
from pointsman.model_calls import Ask, Questions, ask_nobody
from pointsman.stores.ledger.port import Ledger, PromptText
from pointsman.stores.sessions.port import SessionStore
from pointsman.vocabulary import LARGE, AgentRequest, ModelQuery, ModelReply

__all__ = ["Runtime", "drive", "drive_async", "new_ids", "no_model"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_encode_memory: Final = msgspec.json.Encoder().encode
_decode_memory: Final = msgspec.json.Decoder(Memory).decode


def no_model(need: ModelQuery) -> ModelReply:  # noqa: ARG001 - the shape of an ask
    """Answer for a program in which no model can be asked."""
    return ModelReply(error="no-model")


def drive(
    steps: Generator[ModelQuery, ModelReply, Result], ask: Callable[[ModelQuery], ModelReply] = no_model
) -> Result:
    """Run a decision to its end in this thread; by default nobody is asked."""
    try:
        need = next(steps)
        while True:
            need = steps.send(ask(need))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # typeshed has no type for it


async def drive_async(steps: Generator[ModelQuery, ModelReply, Result], ask: Ask) -> Result:
    """Run a decision to its end, waiting for answers without blocking the loop."""
    try:
        need = next(steps)
        while True:
            need = steps.send(await ask(need))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # typeshed has no type for it


def new_ids() -> Callable[[], str]:
    """Return a source of ids: unique across processes, cheap within one, ordered by creation within one."""
    process = secrets.token_hex(5)
    counter = itertools.count(1)
    return lambda: f"d-{process}-{next(counter):x}"


class Runtime:
    """Decides turns: loads a session's memory, runs the engine, keeps memory and decision.

    The engine may be replaced while running; a turn under way keeps the one it began with.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        sessions: SessionStore,
        ledger: Ledger,
        ask: Ask = ask_nobody,
        questions: Questions | None = None,
        observe: Callable[[AgentRequest, Decision], None] | None = None,
    ) -> None:
        """Put together what decides.

        Args:
            engine: The policy.
            sessions: Where memory is kept.
            ledger: Where decisions are appended.
            ask: Answers the questions of decisions; by default nobody is asked.
            questions: Remembers and bounds them.
            observe: Is told of every turn decided; must neither block nor raise (``shadow.ShadowPolicy``).
        """
        self.engine = engine
        self.ledger = ledger
        self.sessions = sessions
        self.ask = ask
        self.questions = questions or Questions()
        self.observe = observe
        self._failures = 0
        self._outage = ""  # why the session store failed since it last kept something
        self._new_id = new_ids()

    @property
    def failures(self) -> int:
        """Times the memory of a session could not be read, kept or written down."""
        return self._failures + self.sessions.lost

    @property
    def faults(self) -> dict[str, str]:
        """Why a store fails just now, by the name of each that does: ``ledger``, ``sessions``."""
        found = {"ledger": self.ledger.fault, "sessions": self._outage or self.sessions.fault}
        return {name: fault for name, fault in found.items() if fault}

    def steps(self, request: AgentRequest) -> Generator[ModelQuery, ModelReply, Decision]:
        """Decide one turn and write it down, leaving to the driver how questions are answered.

        A failing store costs memory, never the request.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        by = self.engine, self.questions
        memory = self._remember(request.session)
        decision, memory = yield from self._decide(request, memory, *by)
        self._keep(request.session, memory)
        return decision

    def _decide(
        self, request: AgentRequest, memory: Memory, engine: Engine, questions: Questions
    ) -> Generator[ModelQuery, ModelReply, tuple[Decision, Memory]]:
        """Decide one turn with what its session remembers, and write it down."""
        started = time.perf_counter()
        questions.count_request(request.arrived_at)
        decided, waited = yield from _asking(engine.decide(request, memory, self._new_id()), questions)
        return self._written(request, decided, time.perf_counter() - started - waited), decided.memory

    def _written(self, request: AgentRequest, decided: Decided, seconds: float) -> Decision:
        """Write a decision down, and return it with the time it took."""
        decision = msgspec.structs.replace(decided.decision, elapsed_us=seconds * 1e6)
        self.ledger.append(without_content(decision))
        if decided.words.text:
            self.ledger.append(PromptText(decision=decision.id, text=decided.words.text))
        if self.observe is not None:
            self.observe(request, decision)
        return decision

    async def decide(self, request: AgentRequest) -> Decision:
        """Decide one turn, asking models as configured. Raises what ``steps`` raises.

        A remote session store is accessed in a thread, so that the event loop is not blocked.
        """
        if request.size > LARGE:
            return await self._decide_large(request)
        if not self.sessions.waits:
            return await drive_async(self.steps(request), self.ask)
        from asyncio import to_thread  # costs a library that brings its own driver 50 ms at the start

        ask, by = self.ask, (self.engine, self.questions)
        memory = await to_thread(self._remember, request.session)
        decision, memory = await drive_async(self._decide(request, memory, *by), ask)
        await to_thread(self._keep, request.session, memory)
        return decision

    async def _decide_large(self, request: AgentRequest) -> Decision:
        """Decide a turn that may take a while: the policy's work is done in a thread, the loop goes on."""
        from asyncio import to_thread

        from pointsman.offload import offload

        ask, engine, questions = self.ask, self.engine, self.questions
        memory = await to_thread(self._remember, request.session)
        started, waited = time.perf_counter(), 0.0
        questions.count_request(request.arrived_at)
        steps = engine.decide(request, memory, self._new_id())
        moved = await offload(request.size, partial(_step, steps, None))
        while isinstance(moved, ModelQuery):
            answer = questions.settled(moved)
            if answer is None:
                asked = time.perf_counter()
                answer = await ask(moved)
                waited += time.perf_counter() - asked
                questions.keep(moved, answer)
            moved = await offload(request.size, partial(_step, steps, answer))
        decision = self._written(request, moved, time.perf_counter() - started - waited)
        await to_thread(self._keep, request.session, moved.memory)
        return decision

    def replace(self, engine: Engine, questions: Questions, ask: Ask) -> None:
        """Decide by another policy from the next turn on; what was spent today stays spent."""
        questions.spending = self.questions.spending
        self.engine, self.questions, self.ask = engine, questions, ask

    def close(self) -> None:
        """Write what waits and close the stores."""
        self.sessions.close()
        self.ledger.close()

    def _remember(self, session: str) -> Memory:
        if not session:
            return Memory()
        try:
            kept = self.sessions.get(session)
            return _decode_memory(kept) if kept else Memory()
        except Exception as error:  # noqa: BLE001 - a store of any make; the turn is decided without memory
            self._failed("read", error)
            return Memory()

    def _keep(self, session: str, memory: Memory) -> None:
        if not session:
            return
        try:
            self.sessions.put(session, _encode_memory(memory))
            self._outage = ""
        except Exception as error:  # noqa: BLE001 - as above; the next turn is decided without it
            self._failed("kept", error)

    def _failed(self, what: str, error: Exception) -> None:
        """Count a failure of the store. The log gets one line for an outage, not two for each request."""
        self._failures += 1
        if not self._outage:
            known = isinstance(error, StoreUnavailable)
            log.warning("the memory of a session could not be %s: %s", what, error, exc_info=not known)
        self._outage = str(error) or type(error).__name__


def _step(
    steps: Generator[ModelQuery, ModelReply, Decided], answer: ModelReply | None
) -> ModelQuery | Decided:
    """Go on with a decision to its next question, or its end."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as end:
        decided: Decided = end.value
        return decided


def _asking(
    steps: Generator[ModelQuery, ModelReply, Decided], questions: Questions
) -> Generator[ModelQuery, ModelReply, tuple[Decided, float]]:
    """Run a decision, passing on only questions that must be asked. Returns also the seconds waited."""
    waited = 0.0
    try:
        need = next(steps)
        while True:
            answer = questions.settled(need)
            if answer is None:
                asked = time.perf_counter()
                answer = yield need
                waited += time.perf_counter() - asked
                questions.keep(need, answer)
            need = steps.send(answer)
    except StopIteration as end:
        return end.value, waited
