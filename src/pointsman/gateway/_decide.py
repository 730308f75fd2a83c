"""``POST /v1/decide`` and ``/v1/explain``: what would be done with a request, which goes to no upstream."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import msgspec

from pointsman.access import Spending
from pointsman.decision.decision import Decision
from pointsman.diagnostics.explained import Served, explain_request, served_by
from pointsman.errors import MalformedRequest
from pointsman.gateway._agent_endpoint import AgentEndpoint
from pointsman.gateway._inbound import InboundRequest, Send, check_no_query
from pointsman.gateway._limits import check_counted, decide_paid, with_permission
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._relay import AS_JSON, send_body
from pointsman.gateway._request import model_edit
from pointsman.gateway._response_headers import response_headers
from pointsman.offload import offload, offload_large
from pointsman.printable import printable_json
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.request import guess_format

__all__ = ["CONVERSATIONS", "DECISION_PATHS", "DecisionEndpoint", "DecisionPage", "TextRequest"]

#: Without ``/v1`` too, as the paths for agents.
DECISION_PATHS: Final = frozenset({b"/decide", b"/v1/decide", b"/explain", b"/v1/explain"})
_EXPLAIN: Final = b"/explain"
#: Members, one of which every request body has.
CONVERSATIONS: Final = ("messages", "input", "prompt", "previous_response_id", "conversation")
_FORMATS: Final = {str(wire): wire for wire in WireFormat}


class TextRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A person's text, asked about without a request body."""

    text: str
    model: str = "auto"  # as a request body names it
    dry_run: bool = False  # no model is asked, and nothing is recorded or remembered


class _Controls(msgspec.Struct):
    """Members that a request body may hold for these paths alone."""

    dry_run: bool = False
    format: str = ""  # of the body; empty: by its members


class DecisionPage(msgspec.Struct, frozen=True):
    """What ``/v1/decide`` answers."""

    decision: Decision  # of a dry run without an id: there is nothing to look up
    served: Served  # who would serve it
    dry_run: bool


_encode: Final = msgspec.json.Encoder().encode
_decode_text: Final = msgspec.json.Decoder(TextRequest).decode
_decode_controls: Final = msgspec.json.Decoder(_Controls).decode


class DecisionEndpoint:
    """Reads a request as the paths for agents do, and answers with the decision instead of relaying it."""

    def __init__(self, agents: AgentEndpoint, metrics: Metrics) -> None:
        self._agents = agents
        self._metrics = metrics

    async def answer(self, path: bytes, state: LiveState, inbound: InboundRequest, send: Send) -> int:
        """Answer one request, and return the status sent.

        Args:
            path: One of ``DECISION_PATHS``.
            state: The live state.
            inbound: The request; its format is found by its members.
            send: Sends to the caller (ASGI).

        Raises:
            CallerError: it cannot be read, or asks for a model that is not served.
        """
        check_no_query(inbound.query)
        size = len(inbound.body.raw)
        is_messages = FORMATS[WireFormat.MESSAGES].header in inbound.headers
        body, dry_run = await offload_large(size, partial(_read, inbound.body, is_messages=is_messages))
        inbound = msgspec.structs.replace(inbound, body=body, wire=body.wire)
        request = await self._agents.read(state, inbound)
        spending: Spending | None = None
        if state.access is not None:
            grant = await check_counted(state.access, request.caller, self._metrics)
            request = with_permission(state.access, request)
            spending = None if grant is None else state.access.begin(grant).beside()
        if path.endswith(_EXPLAIN):
            # Up to a thousand times the work of a decision.
            page = await offload(size, _explained, state, request, aside=True)
            await send_body(send, 200, [AS_JSON], page)
            return 200
        decision = await self._decide(state, request, spending, dry_run=dry_run)
        overhead = time.perf_counter() - inbound.arrived
        headers, first = inbound.headers, state.targets.get(decision.chain[0]) if decision.chain else None
        sent = response_headers(decision, first, 0, overhead, headers, request)
        served = _shown(served_by(state.config, decision))
        await send_body(send, 200, [AS_JSON, *sent], _page(DecisionPage(decision, served, dry_run)))
        return 200

    async def _decide(
        self, state: LiveState, request: AgentRequest, spending: Spending | None, *, dry_run: bool
    ) -> Decision:
        if dry_run:
            return (await offload(request.size, state.runtime.preview, request, aside=True)).decision
        decision = await decide_paid(state, request, spending, self._metrics)
        self._metrics.seen(decision)
        return decision


def _read(sent: Body, *, is_messages: bool) -> tuple[Body, bool]:
    """Return the request to decide, in the format it is in, and whether it is a dry run.

    Raises:
        MalformedRequest: it is neither a text nor a request body, or one of the members above is wrong.
    """
    if not any(name in sent for name in CONVERSATIONS):
        return _read_text(sent)
    controls = _controls(sent)
    wire = _FORMATS.get(controls.format)
    if wire is None:
        if controls.format:
            known = ", ".join(_FORMATS)
            raise MalformedRequest(f'unknown "format"; there are {known}', param="format")
        wire = guess_format(sent.member, is_messages=is_messages)
    body = sent if wire is sent.wire.format else Body(FORMATS[wire], sent.raw)
    if "model" not in body and "prompt" not in body:
        body = Body(body.wire, body.edited([model_edit(body, None, b'"auto"')]))
    return body, controls.dry_run


def _read_text(sent: Body) -> tuple[Body, bool]:
    if "text" not in sent:
        raise MalformedRequest(
            "there is nothing to decide", hint='send a request body, or {"text": "…"}', param="text"
        )
    try:
        asked = _decode_text(sent.readable)
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"{error} of the request body", param="text") from None
    said = {"model": asked.model, "messages": [{"role": "user", "content": asked.text}]}
    return Body(FORMATS[WireFormat.CHAT], _encode(said)), asked.dry_run


def _controls(sent: Body) -> _Controls:
    found = {name: value for name in ("dry_run", "format") if (value := sent.member(name)) is not None}
    try:
        return _decode_controls(_encode(found))
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"{error} of the request body", param=next(iter(found))) from None


def _explained(state: LiveState, request: AgentRequest) -> bytes:
    runtime = state.runtime
    memory = runtime.memories.load(request.session)
    found = explain_request(runtime.engine, runtime.read(request), memory, state.config)
    return _page((found._replace(served=_shown(found.served)) if found.served else found).to_json())


def _page(value: object) -> bytes:
    """Return JSON in which no character acts: it repeats the caller's words."""
    return printable_json(_encode(value).decode()).encode()


def _shown(served: Served) -> Served:
    """Leave out where the operator's file is: that is not the caller's business."""
    return msgspec.structs.replace(served, configuration="")
