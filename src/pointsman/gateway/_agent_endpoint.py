"""The endpoint for agents: read a request, decide, record, relay it to an upstream, respond."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from pointsman.access import Spending
from pointsman.decision.decision import Decision
from pointsman.decision.permission import FORBIDDEN
from pointsman.errors import ModelNotAllowed, NoCapableModel
from pointsman.gateway._capability_commands import answer_switch, may_hold_command, take_commands
from pointsman.gateway._conversation_memory import Continuation, ConversationMemory, KeptConversation
from pointsman.gateway._idempotency import HEADER as IDEMPOTENCY_KEY
from pointsman.gateway._idempotency import IdempotentAnswers
from pointsman.gateway._inbound import InboundRequest, Send
from pointsman.gateway._limits import (
    check_bounded,
    decide_command,
    decide_paid,
    permitted,
    settled,
)
from pointsman.gateway._live_state import LiveState, Peers
from pointsman.gateway._local_replies import answer_command, send_text
from pointsman.gateway._metrics import LowerTiers, Metrics
from pointsman.gateway._owned import check_continued, check_model_request
from pointsman.gateway._reading import AnswerKeeper, read_turn
from pointsman.gateway._request import DecidedRequest, Site
from pointsman.gateway._response_headers import own_headers
from pointsman.gateway.upstream import Target
from pointsman.offload import offload_large
from pointsman.vocabulary import AgentRequest, Stage
from pointsman.wire import Body
from pointsman.wire.reasoning import own_reasoning
from pointsman.wire.request import of_caller
from pointsman.wire.responses.stored_conversation import continues

__all__ = ["AgentEndpoint", "AnsweredElsewhere"]

_ANY: Final = 'the model "auto" lets the gateway choose among all tiers'
#: Where it is configured what the reasons against a model say, by the end of their codes.
_CONFIGURED: Final = {
    "context_window": "context_window of [models]",
    "feature": "features of [models]",
    "format": "formats and translate of [upstreams]",
    "no-model": "the models of [tiers]",
}


class AnsweredElsewhere(Exception):
    """Another process of this gateway has answered the request, and counts it."""


class AgentEndpoint:
    """The endpoint of each of the three formats."""

    def __init__(self, metrics: Metrics) -> None:
        self._site = Site(metrics, ConversationMemory(), LowerTiers(metrics))
        self._answers = IdempotentAnswers(metrics)
        #: The other processes of this gateway; None where it is the only one.
        self.peers: Peers | None = None

    def answer(self, state: LiveState, inbound: InboundRequest, send: Send) -> Awaitable[int]:
        """Answer one request, and return the status sent.

        Raises:
            CallerError: it cannot be served.
        """
        if IDEMPOTENCY_KEY in inbound.headers:
            return self._answers.answer(inbound, send, partial(self._answer, state, inbound))
        return self._answer(state, inbound, send)

    async def read(self, state: LiveState, inbound: InboundRequest) -> AgentRequest:
        """Read a request as it would be decided, its session and stored conversation included.

        Raises:
            CallerError: it cannot be read, or refers to another caller's object.
        """
        inbound, agent_request, _, _ = await self._read(state, inbound)
        if self.peers is not None:
            await self.peers.take_over(state, agent_request.session)
        if state.command is not None and may_hold_command(inbound.body):
            _, agent_request, _ = await take_commands(inbound.body, agent_request)
        return agent_request

    async def _answer(self, state: LiveState, sent: InboundRequest, send: Send) -> int:
        read = self._read(state, sent) if self.peers is None else self._read_here(state, sent, send)
        inbound, agent_request, continuation, kept = await read
        text, metrics = "", self._site.metrics
        spending: Spending | None = None
        if state.access is not None:
            agent_request, spending = permitted(state.access, agent_request, metrics)
        if state.command is not None:
            inbound, agent_request, text = await self._take_commands(state, inbound, agent_request)
        wire, body = inbound.wire, inbound.body
        if text:
            return await send_text(wire, body, agent_request, text, [], send)
        if spending is None:
            decision = await state.runtime.decide(agent_request)
        else:
            check_bounded(wire, body, spending)
            decision = await decide_paid(state, agent_request, spending, metrics)
        metrics.seen(decision)
        if decision.refused:
            raise _refusal(decision)
        targets = state.candidates(decision.chain)
        keeper = None
        if wire.is_stateful:
            keeper = self._keeper(state, agent_request, sent.body, body, kept)
            targets = self._continue(state, decision, continuation, targets)
        own = own_reasoning(wire) if state.has_several_upstreams else None
        request = DecidedRequest(
            inbound,
            agent_request,
            decision,
            state.runtime.ledger,
            state.pools,
            self._site,
            own,
            spending,
            keeper,
        )
        overhead = request.overhead = time.perf_counter() - inbound.arrived
        metrics.overhead.observe(overhead)
        guidance = decision.guidance
        if guidance is not None and guidance.stop and (text := guidance.stop_message):
            return await send_text(wire, body, agent_request, text, own_headers(request, None), send)
        if state.shadow_model is not None:
            send = state.shadow_model.capture(request, send)
        status = 0
        try:
            answering = state.relay(request, targets, send)
            status = await (answering if spending is None else settled(request, answering, spending))
        finally:
            answered = request.answered
            name = "" if answered is None else answered.model.name
            metrics.served(decision, name, status, time.perf_counter() - inbound.arrived)
        return status

    async def _read_here(
        self, state: LiveState, inbound: InboundRequest, send: Send
    ) -> tuple[InboundRequest, AgentRequest, Continuation | None, KeptConversation | None]:
        """Read a request that this process has to answer, if there are several.

        Raises:
            AnsweredElsewhere: another process holds the conversation it continues, and has answered it.
            CallerError: as of ``_read``.
        """
        peers, is_stateful = self.peers, inbound.wire.is_stateful
        if peers is not None and is_stateful:
            await self._leave_to_holder(peers, inbound, _ids_in(inbound), send)
        found = await self._read(state, inbound)
        if peers is not None:
            session = found[1].session
            if is_stateful or state.has_several_upstreams:
                await self._leave_to_holder(peers, inbound, (of_session(session),), send)
            await peers.take_over(state, session)
        return found

    async def _leave_to_holder(
        self, peers: Peers, inbound: InboundRequest, names: Sequence[str], send: Send
    ) -> None:
        """Leave a request to another process if that one holds the conversation it continues."""
        if names and await peers.answer_kept(inbound, names, send):
            raise AnsweredElsewhere

    async def _take_commands(
        self, state: LiveState, inbound: InboundRequest, agent_request: AgentRequest
    ) -> tuple[InboundRequest, AgentRequest, str]:
        """Remove in-band commands from a request; with an answer if it holds nothing else."""
        if state.command is not None and (text := await answer_command(agent_request, state.command)):
            return inbound, agent_request, text
        if not may_hold_command(inbound.body):
            return inbound, agent_request, ""
        body, agent_request, is_alone = await take_commands(inbound.body, agent_request)
        text = ""
        if is_alone:  # decided all the same: what it says for the session is remembered and recorded
            decision = await decide_command(state, agent_request, self._site.metrics)
            self._site.metrics.seen(decision)
            text = answer_switch(agent_request.command, decision.capabilities)
        return replace(inbound, body=body), agent_request, text

    async def _read(
        self, state: LiveState, inbound: InboundRequest
    ) -> tuple[InboundRequest, AgentRequest, Continuation | None, KeptConversation | None]:
        """Read a request, and insert the conversation or items it refers to, if the gateway stores them."""
        headers, body, caller = inbound.headers, inbound.body, inbound.caller
        if state.has_several_callers and state.server.passthrough:  # without it no caller makes such objects
            await check_model_request(state.ownership, caller, body.raw)
        if not inbound.wire.is_stateful:
            return inbound, *await read_turn(headers, body, self._site.memory, caller=caller), None
        kept = self._site.memory.continued_whole(body, time.time(), caller)
        session = kept.session if kept else ""
        if kept is None and state.has_several_callers:
            knows = partial(self._site.memory.knows, caller)
            await check_continued(state.ownership, caller, body.member, knows)
        if kept is not None:
            inbound.grow(size := kept.size)
            body = await offload_large(size, kept.whole, body)
        turn, continuation = await read_turn(headers, body, self._site.memory, session, caller)
        if held := self._site.memory.items_weight(turn):
            whole = await offload_large(held, self._site.memory.put_back, turn, body)
            if whole is not body:
                inbound.grow(max(len(whole.raw) - len(body.raw), 0))
                body = whole
                turn, continuation = await read_turn(headers, body, self._site.memory, session, caller)
        return replace(inbound, body=body), turn, continuation, kept

    def _keeper(
        self, state: LiveState, request: AgentRequest, sent: Body, body: Body, kept: KeptConversation | None
    ) -> AnswerKeeper:
        """Return what stores the answer to a request."""
        if kept is not None:
            self._site.metrics.count("continued", "known")
        memory, several = self._site.memory, state.has_several_upstreams
        note = None if self.peers is None else self.peers.note
        return AnswerKeeper(memory, note, state.ownership, request, sent, body, kept, several=several)

    def _continue(
        self,
        state: LiveState,
        decision: Decision,
        continuation: Continuation | None,
        targets: list[Target],
    ) -> list[Target]:
        """Return the targets that hold the conversation a request continues."""
        if continuation is None:
            return targets
        self._site.metrics.count("continued", "known" if continuation.earlier else "unknown")
        if decision.tier is None:
            return targets  # the caller named the model
        return _with_conversation(targets, state.targets.get(continuation.model))


def _with_conversation(chosen: list[Target], kept: Target | None) -> list[Target]:
    """Return those of the chosen models at the upstream that stores the conversation; else the last one used.

    Any other upstream has never seen it, and would refuse the request.
    """
    if kept is None:
        return chosen
    return [target for target in chosen if target.upstream is kept.upstream] or [kept]


def of_session(session: str) -> str:
    """Return the name under which the holder of a session's state is registered; empty without a session."""
    return f"session {session}" if session else ""


def _ids_in(inbound: InboundRequest) -> list[str]:
    """Return the names of the responses or conversations that a request in the Responses format continues."""
    member = inbound.body.member
    return [of_caller(inbound.caller, name) for name in (continues(member),) if name]


def _refusal(decision: Decision) -> NoCapableModel | ModelNotAllowed:
    """Return the error for a request that was refused."""
    if any(reason.code.startswith(FORBIDDEN) for reason in decision.refused):
        return _not_allowed(decision)
    why = "; ".join(reason.detail for reason in decision.refused)
    by_caller = decision.tier is None or decision.tier.stage is Stage.FORCED
    hint = _ANY if by_caller else _configured(decision)
    message = f"no model can serve this request: {why}"
    return NoCapableModel(message, hint=hint, param="model", decision=decision.id)


def _not_allowed(decision: Decision) -> ModelNotAllowed:
    """Say which models the caller's key may not use, each by its name."""
    why = "; ".join(reason.detail for reason in decision.refused)
    message = f'key "{decision.input.caller}" may use no model for this request: {why}'
    hint = "what a key may use is configured in [keys] and [teams]"
    return ModelNotAllowed(message, hint=hint, param="model", decision=decision.id)


def _configured(decision: Decision) -> str:
    codes = dict.fromkeys(reason.code.rpartition(".")[2] for reason in decision.refused)
    settings = " and ".join(_CONFIGURED[code] for code in codes if code in _CONFIGURED)
    return f"what a model can serve is configured: {settings or 'see [models] and [upstreams]'}"
