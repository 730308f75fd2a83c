"""The runtime: performs all effects of a decision: time, ids, memory, model calls, the ledger."""

from __future__ import annotations

import base64
import copy
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.decision.decision import Decision, summary, without_content
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.reader import AgentEvent
from pointsman.drivers import drive, drive_async, no_model
from pointsman.errors import StoreUnavailable
from pointsman.guidance import GuidanceDecision
from pointsman.model_calls import Ask, Questions, ask_nobody, ask_together
from pointsman.stores.client_texts import ClientTexts
from pointsman.stores.ledger.port import Ledger, PromptText
from pointsman.stores.sessions.port import SessionStore, encode_memory, read_memory
from pointsman.vocabulary import LARGE, AgentRequest, ModelQuery, ModelReply

if TYPE_CHECKING:
    from pointsman.access import PaidQuestions

__all__ = ["Runtime", "SessionMemory", "decode_memory", "encode_memory", "new_ids"]

log = logging.getLogger(__name__)
#: One line for each decision at INFO, and one for each answer of a judging model at DEBUG.
decisions_log = logging.getLogger("pointsman.decisions")

#: Random bytes of an id, and ids drawn at once.
_ID_BYTES: Final = 10
_DRAWN: Final = 256

#: Kinds of failure that are logged, once each; every one is counted.
_MOST_KINDS: Final = 100
#: Characters of an answer that are logged.
_SHOWN: Final = 80
#: Characters of a failure that are logged.
_LONGEST_DETAIL: Final = 300

Result = TypeVar("Result")


def decode_memory(kept: bytes | None) -> Memory:
    """Return the stored memory of a session; a memory in a shape of another version starts afresh.

    A session is at most a day old, and a wrong guess at what its values meant would be worse than none.
    """
    if not kept:
        return Memory()
    try:
        return read_memory(kept)
    except msgspec.ValidationError:  # JSON, and not of this shape; what is no JSON is damaged: that is told
        return Memory()


def new_ids() -> Callable[[], str]:
    """Return a source of ids: 80 random bits each, so that ids cannot be guessed."""
    return _new_id


def _new_id() -> str:
    while True:
        try:
            return _ids.pop()
        except IndexError:  # to ask the system for each would cost as much as a tenth of a decision
            drawn, now = secrets.token_bytes(_ID_BYTES * _DRAWN), int(time.time()) >> 4 & 0xFFFFF
            # Ids of one time begin alike: the ledger's indexes of ids write one page for many of them.
            begin, size = "d-" + _digits((now << 20).to_bytes(5, "big"))[:4], _ID_BYTES * 8 // 5
            digits = _digits(drawn)
            _ids.extend(begin + digits[at : at + size] for at in range(0, len(digits), size))


def _digits(data: bytes) -> str:
    """Write five bytes as eight digits, in their order (RFC 4648, section 7)."""
    return base64.b32hexencode(data).decode().lower()


#: Ids that were drawn and not given yet. A forked process draws its own.
_ids: Final[list[str]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ids.clear)


class SessionMemory:
    """Reads and writes the memory of sessions. A failing store costs memory, never the request."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.failures = 0  # times a memory could not be read or written
        self.outage = ""  # why the store failed since it last kept something

    def load(self, session: str) -> Memory:
        """Return the memory of a session; empty for a new session, or if the store fails."""
        if not session:
            return Memory()
        try:
            return decode_memory(self.store.get(session))
        except Exception as error:  # noqa: BLE001 - fail open: any store; decided without memory; ``failures`` counts
            self._failed("read", error)
            return Memory()

    def save(self, session: str, memory: Memory) -> None:
        """Store session memory."""
        if not session:
            return
        try:
            self.store.put(session, encode_memory(memory))
            self.outage = ""
        except Exception as error:  # noqa: BLE001 - fail open: the next turn is decided without it; ``failures`` counts
            self._failed("kept", error)

    def _failed(self, what: str, error: Exception) -> None:
        """Count a failure of the store. The log gets one line for an outage, not two for each request."""
        self.failures += 1
        if not self.outage:
            known = isinstance(error, StoreUnavailable)
            log.warning("the memory of a session could not be %s: %s", what, error, exc_info=not known)
        self.outage = str(error) or type(error).__name__


class _Replies:
    """Answers the model queries of one decision: from memory, by the budget's refusal, or by a model."""

    waited = 0.0  # seconds spent on models

    def __init__(self, questions: Questions, payer: PaidQuestions | None = None, decision: str = "") -> None:
        self.decision = decision  # its id; empty where none is recorded
        self._questions = questions
        self._payer = payer
        self._ahead: dict[ModelQuery, ModelReply] = {}  # to queries that were asked beside an earlier one

    def ask(self, ask: Callable[[ModelQuery], ModelReply], query: ModelQuery) -> ModelReply:
        """Answer a query in this thread."""
        known = self._questions.settled(query)
        if known is not None:
            return known
        started = time.perf_counter()
        return self._keep(query, ask(query), started)

    async def ask_async(self, ask: Ask, query: ModelQuery) -> ModelReply:
        """Answer a query on the event loop, and ask at the same time those that may be asked concurrently."""
        known = self._ahead.pop(query, None) or self._settled(query)
        if known is not None and not query.beside:
            return known
        started = time.perf_counter()
        if not query.beside:
            return self._keep(query, await ask(query), started)
        waiting = [each for each in query.beside if self._settled(each) is None]
        if known is None:
            waiting.append(query)
        replies = await ask_together(ask, waiting)
        for each, reply in zip(waiting, replies, strict=True):
            self._ahead[each] = self._keep(each, reply, started)
            started = time.perf_counter()  # they were waited for together
        return known or self._ahead.pop(query)

    def _settled(self, query: ModelQuery) -> ModelReply | None:
        """Answer a query without asking a model, or refuse it; a refusal by the payer costs no budget."""
        refused = None if self._payer is None else self._payer.refuses(query)
        return refused or self._questions.settled(query)

    def _keep(self, query: ModelQuery, reply: ModelReply, started: float) -> ModelReply:
        seconds = time.perf_counter() - started
        self.waited += seconds
        if decisions_log.isEnabledFor(logging.DEBUG):
            said = repr(reply.text[:_SHOWN]) if reply.ok else f"nothing: {reply.error}"
            asked = query.model or "the default model"
            about = f"{query.kind}({query.about})" if query.about else query.kind
            whose = f"{self.decision} {about}" if self.decision else about
            decisions_log.debug("%s: %s said %s in %.0f ms", whose, asked, said, seconds * 1e3)
        self._questions.keep(query, reply)
        return reply


class Runtime:
    """Decides turns: loads a session's memory, runs the engine, stores memory and decision.

    It does not change: another policy is another runtime (``with_policy``), and a turn in progress uses the
    one it began with.
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
            sessions: The store of session memory.
            ledger: Where decisions are appended.
            ask: Answers the questions of decisions; by default no model is asked.
            questions: Remembers and bounds them.
            observe: Called for every decided request (``shadow_policy.ShadowPolicy``); must neither block nor
                raise.
        """
        self.engine = engine
        self.ledger = ledger
        self.memories = SessionMemory(sessions)
        self.client_texts = ClientTexts()
        self.ask = ask
        self.questions = questions or Questions()
        self.observe = observe
        self._new_id = new_ids()
        self._failed: set[str] = set()  # kinds of failure that the log has told of

    def with_policy(
        self,
        engine: Engine,
        *,
        ask: Ask = ask_nobody,
        questions: Questions | None = None,
        observe: Callable[[AgentRequest, Decision], None] | None = None,
    ) -> Runtime:
        """Return a runtime that decides by another policy; this one is unchanged.

        Both share the ledger, the session store with its failure counts, the source of ids, and what
        verification has spent today. Replies remembered under this policy are not carried over.
        """
        other = copy.copy(self)
        other.engine, other.ask, other.observe = engine, ask, observe
        other.questions = questions or Questions()
        other.questions.share_spending(self.questions)
        return other

    @property
    def sessions(self) -> SessionStore:
        """The store of session memory."""
        return self.memories.store

    @property
    def failures(self) -> int:
        """Times the memory of a session could not be read or written."""
        return self.memories.failures + self.sessions.lost

    @property
    def faults(self) -> dict[str, str]:
        """Current error per failing store: ``ledger``, ``sessions``."""
        found = {"ledger": self.ledger.fault, "sessions": self.memories.outage or self.sessions.fault}
        return {name: fault for name, fault in found.items() if fault}

    def decide_sync(
        self, request: AgentRequest, ask: Callable[[ModelQuery], ModelReply] = no_model
    ) -> Decision:
        """Decide one turn in this thread and write it down.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        request = self.read(request)
        memory = self.memories.load(request.session)
        started = time.perf_counter()
        replies = _Replies(self.questions, None, self._begin(request.arrived_at))
        decided = drive(self.engine.decide(request, memory, replies.decision), partial(replies.ask, ask))
        decision = self._record(request, decided, time.perf_counter() - started - replies.waited)
        self.memories.save(request.session, decided.memory)
        return decision

    async def decide(self, request: AgentRequest, payer: PaidQuestions | None = None) -> Decision:
        """Decide one turn and write it down, without blocking the event loop; raises as ``decide_sync``.

        A session store that is reached over the network is called in a thread; so is the policy's work on a
        large request. ``payer`` pays for the questions to models; None: the operator does.
        """
        request = self.read(request)
        session = request.session
        memories, is_large = self.memories, request.size > LARGE
        in_thread = is_large or memories.store.waits
        memory = await _in_thread(memories.load, session) if in_thread else memories.load(session)
        started, named, waited = time.perf_counter(), self._begin(request.arrived_at), 0.0
        steps = self.engine.decide(request, memory, named)
        run = _beside_the_loop(request.size) if is_large or not self.engine.is_prepared(request) else None
        try:
            query = next(steps) if run is None else None
        except StopIteration as end:  # most decisions ask nothing, and end here
            decided: Decided = end.value
        else:
            replies = _Replies(self.questions, payer, named)
            ask = self.ask if payer is None else partial(payer.ask, self.ask)
            decided = await drive_async(steps, partial(replies.ask_async, ask), query, run=run)
            waited = replies.waited
        decision = self._record(request, decided, time.perf_counter() - started - waited)
        if in_thread:
            await _in_thread(memories.save, session, decided.memory)
        else:
            memories.save(session, decided.memory)
        return decision

    def read(self, request: AgentRequest) -> AgentRequest:
        """Return a request as it is decided: with the lines that its client is known to repeat."""
        texts = self.client_texts
        return texts.with_repeated(request) if request.system and texts.clients else request

    def preview(self, request: AgentRequest) -> Decided:
        """Decide a turn for its answer alone: no model is asked, and nothing is recorded or remembered.

        The decision has no id. Raises as ``decide_sync``.
        """
        request = self.read(request)
        return drive(self.engine.decide(request, self.memories.load(request.session), ""), no_model)

    def decide_event(
        self,
        event: AgentEvent,
        memory: Memory,
        then: Decision | None = None,
        ask: Callable[[ModelQuery], ModelReply] = no_model,
    ) -> tuple[Decision, Memory]:
        """Decide at an event that an agent reports, and record it; the caller stores the memory.

        Args:
            event: The agent's event.
            memory: What its session remembers.
            then: The latest decision of the session.
            ask: Answers questions to models; by default no model is asked.
        """
        started = time.perf_counter()
        replies = _Replies(self.questions, None, self._begin(event.arrived_at))
        reading = self.engine.reader.read_event(event, memory, then)
        decided = drive(self.engine.decide(reading, memory, replies.decision), partial(replies.ask, ask))
        spent = time.perf_counter() - started - replies.waited
        return self._record(reading.request, decided, spent), decided.memory

    def select_sync(
        self, task: str, ask: Callable[[ModelQuery], ModelReply] = no_model
    ) -> CapabilityDecision | None:
        """Select the policy's own capabilities for a task, in this thread; nothing is recorded.

        Returns:
            The selection; None where the policy names no capabilities.
        """
        return drive(self.engine.select(task), partial(_Replies(self.questions).ask, ask))

    async def select(self, task: str) -> CapabilityDecision | None:
        """Select capabilities without blocking the event loop. As ``select_sync``."""
        return await drive_async(
            self.engine.select(task), partial(_Replies(self.questions).ask_async, self.ask)
        )

    def guide_sync(
        self, request: AgentRequest, ask: Callable[[ModelQuery], ModelReply] = no_model
    ) -> GuidanceDecision | None:
        """Decide the guidance of a request alone, in this thread; it is remembered and not recorded.

        Returns:
            The guidance; None if it is off.
        """
        memory = self.memories.load(request.session)
        steps = self.engine.guide(request, memory)
        decided, memory = drive(steps, partial(_Replies(self.questions).ask, ask))
        self.memories.save(request.session, memory)
        return decided

    async def guide(self, request: AgentRequest) -> GuidanceDecision | None:
        """Decide guidance without blocking the event loop. As ``guide_sync``."""
        memory = await _in_thread(self.memories.load, request.session)
        steps = self.engine.guide(request, memory)
        replies = _Replies(self.questions)
        decided, memory = await drive_async(steps, partial(replies.ask_async, self.ask))
        await _in_thread(self.memories.save, request.session, memory)
        return decided

    def close(self) -> None:
        """Write what waits and close the stores."""
        self.sessions.close()
        self.ledger.close()

    def _begin(self, arrived_at: float) -> str:
        """Count a request, and return the id of its decision."""
        if self.questions.is_limited:
            self.questions.count_request(arrived_at)
        return self._new_id()

    def _record(self, request: AgentRequest | None, decided: Decided, seconds: float) -> Decision:
        """Write a decision down, and return it with the time it took."""
        decision = msgspec.structs.replace(decided.decision, elapsed_us=seconds * 1e6)
        guidance = decision.guidance
        quotes = decision.standing or (guidance is not None and (guidance.firing or guidance.hints))
        self.ledger.append(without_content(decision) if quotes else decision)
        words = decided.words
        if words.text:
            self.ledger.append(PromptText(decision=decision.id, text=words.text))
        if request is not None:
            if "\n" in words.text or words.whole:
                self.client_texts.learn(request, words)
            if self.observe is not None:
                self.observe(request, decision)
        if decision.abstained:
            self._tell(decision)
        if decisions_log.isEnabledFor(logging.INFO):
            decisions_log.info("%s", summary(decision))
        return decision

    def _tell(self, decision: Decision) -> None:
        """Log the parts that failed open: each kind once, because a broken part fails with every request."""
        for reason in decision.abstained:
            if reason.code not in self._failed and len(self._failed) < _MOST_KINDS:
                self._failed.add(reason.code)
                log.warning(
                    "decision %s continues without a part: %s: %s; not logged again",
                    decision.id,
                    reason.code,
                    reason.detail[:_LONGEST_DETAIL],
                )


def _beside_the_loop(size: int) -> Callable[[Callable[[], Result]], Awaitable[Result]]:
    from pointsman.offload import offload

    return partial(offload, size)


async def _in_thread(call: Callable[..., Result], *arguments: object) -> Result:
    from asyncio import to_thread  # costs a library that brings its own driver 50 ms at the start

    return await to_thread(call, *arguments)
