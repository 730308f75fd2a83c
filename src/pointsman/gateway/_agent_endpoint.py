"""The endpoint for agents: read a request, decide, record, relay it to an upstream, respond."""

from __future__ import annotations

import time
from functools import partial

from pointsman.gateway._conversations import Continuation, Conversations, with_conversation
from pointsman.gateway._inbound import InboundRequest
from pointsman.gateway._kept_items import KeptItems
from pointsman.gateway._kept_reasoning import KeptReasoning
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._local_replies import answer_command, send_text, stop_message
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._no_capable_model import LowerTiers, refusal
from pointsman.gateway._reading import read_turn
from pointsman.gateway._relay import Headers, Send, relay, response_headers
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway.upstream import Target
from pointsman.model_choice.chains import LOWER_TIER
from pointsman.vocabulary import AgentRequest
from pointsman.wire.reasoning_formats import own_reasoning

__all__ = ["AgentEndpoint"]


class AgentEndpoint:
    """The endpoint of each of the three formats."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._conversations = Conversations()
        self._reasoning = KeptReasoning()
        self._items = KeptItems()
        self._lower_tiers = LowerTiers()

    async def answer(self, state: LiveState, inbound: InboundRequest, send: Send) -> int:
        """Answer one request, and return the status sent."""
        wire, body, headers = inbound.wire, inbound.body, inbound.headers
        agent_request, continuation = await read_turn(headers, body, self._conversations)
        if wire.is_stateful and (whole := self._items.put_back(agent_request, body)) is not body:
            inbound, body = inbound._replace(body=whole), whole
            agent_request, continuation = await read_turn(headers, body, self._conversations)
        if state.command is not None and (text := answer_command(agent_request, state.command)):
            return await send_text(wire, body, agent_request, text, [], send)
        decision = await state.runtime.decide(agent_request)
        self._metrics.seen(decision)
        if decision.refused:
            raise refusal(decision)
        for reason in decision.reasons:
            if reason.code == LOWER_TIER:
                self._lower_tiers.note(decision, reason)
        targets = state.candidates(decision.chain)
        ledger = state.runtime.ledger
        own = own_reasoning(wire.format) if state.has_several_upstreams else None
        request = DecidedRequest(
            inbound, agent_request, decision, ledger, self._metrics, self._reasoning, own
        )
        if wire.is_stateful:
            targets = self._continue(state, request, agent_request, continuation, targets)
        overhead = time.perf_counter() - inbound.arrived
        self._metrics.overhead.observe(overhead)
        debug = agent_request if headers.get(b"x-pointsman-debug") == b"1" else None

        def build_headers(target: Target | None) -> Headers:
            return response_headers(decision, target, request.attempts, overhead, headers, debug)

        guidance = decision.guidance
        if guidance is not None and guidance.stop and (text := stop_message(guidance)):
            return await send_text(wire, body, agent_request, text, build_headers(None), send)
        if state.shadow_model is not None:
            send = state.shadow_model.capture(request, send)
        return await relay(request, targets, build_headers, send)

    def _continue(
        self,
        state: LiveState,
        request: DecidedRequest,
        agent_request: AgentRequest,
        continuation: Continuation | None,
        targets: list[Target],
    ) -> list[Target]:
        """Keep the answer for requests that continue it; return the targets that hold what this one does."""
        request.on_complete = partial(self._conversations.keep, agent_request, request.body)
        request.on_translated = partial(self._items.keep, agent_request, request.body)
        if continuation is None:
            return targets
        self._metrics.count("continued", "known" if continuation.earlier else "unknown")
        if request.decision.tier is None:
            return targets  # the caller named the model
        return with_conversation(targets, state.targets.get(continuation.model))
