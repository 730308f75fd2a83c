"""Token counts of a request: by the upstream, in the request's format or translated, or estimated."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from pointsman.decoding import decode_members, decoded_or
from pointsman.errors import CallerError, Unauthorized, UpstreamError
from pointsman.gateway._credentials import caller_credentials
from pointsman.gateway._inbound import InboundRequest, Send
from pointsman.gateway._limits import check_counted
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._owned import check_references
from pointsman.gateway._relay import send_body
from pointsman.gateway._request import model_edit
from pointsman.gateway.upstream import Target, upstream_headers, without_providers
from pointsman.offload import offload_large
from pointsman.upstreams.port import Call, read_at_most
from pointsman.upstreams.port import send as send_call
from pointsman.vocabulary import LARGE, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.translate import translate_request

__all__ = ["count_tokens"]


log = logging.getLogger(__name__)

#: Where OpenAI counts, and what of a request it takes there.
_PATH: Final = b"/responses/input_tokens"
_COUNTED: Final = frozenset({
    "input", "instructions", "model", "parallel_tool_calls", "reasoning", "text", "tool_choice", "tools",
    "truncation",
})  # fmt: skip
#: Statuses of an upstream that has no such path.
_ABSENT: Final = frozenset({404, 405, 501})
#: Seconds after which it is asked again.
_ASKED_AGAIN: Final = 600.0


class _Counted(msgspec.Struct, gc=False):
    input_tokens: int


_decode_counted: Final = msgspec.json.Decoder(_Counted).decode


async def count_tokens(metrics: Metrics, state: LiveState, inbound: InboundRequest, send: Send) -> int:
    """Answer with a number of input tokens, and return the status sent.

    Asks the upstream of the model named. If none is named, that of the first model that speaks the format, or
    of the first that speaks Responses: the model is decided only for a request to serve, and all models of a
    provider count much alike.
    """
    body, targets = inbound.body, state.targets
    if state.access is not None:
        await check_counted(state.access, inbound.caller, metrics)
    if state.has_several_callers:
        await check_references(state.ownership, inbound.caller, body.raw)
    resolved = state.names.resolve(body.text("model") or "")
    named = targets.get(resolved.target.model) if resolved else None
    counted = await _count([named] if named else targets.values(), inbound)
    if counted:
        await send_body(send, 200, [(b"content-type", b"application/json")], counted)
    else:
        # Bytes of the whole body, JSON marks included: agents ask to stay below a limit, so rather too many.
        estimate = msgspec.json.encode({"input_tokens": len(body.raw) // 4})
        sent = [(b"content-type", b"application/json"), (b"x-pointsman-estimate", b"1")]
        await send_body(send, 200, sent, estimate)
    return 200


async def _count(targets: Iterable[Target], inbound: InboundRequest) -> bytes:
    """Return the count of the first of these models with an upstream that counts; empty if there is none."""
    wire = inbound.wire.format
    now = time.monotonic()
    counting = [target for target in targets if now >= target.upstream.uncounted.get(target.id, now)]
    for target in counting:
        if wire in target.model.formats:
            return await _ask(target, inbound)
    for target in counting:
        if wire in target.model.translated and WireFormat.RESPONSES in target.model.formats:
            return await _ask_translated(target, inbound)
    return b""


async def _ask(target: Target, inbound: InboundRequest) -> bytes:
    """Return the upstream's count unchanged; empty if there is none."""
    query, body = inbound.query, inbound.body
    path = inbound.wire.token_path + b"?" + query if query else inbound.wire.token_path
    edit = model_edit(body, body.span("model"), target.id)
    sent = upstream_headers(inbound.all_headers, target.upstream.relayed.taken, inbound.caller)
    return await _send(target, inbound, inbound.wire.format, Call(path, sent, body.edited([edit])))


async def _ask_translated(target: Target, inbound: InboundRequest) -> bytes:
    """Return OpenAI's count of the translated request, as Messages writes it; empty when there is none."""
    wire, body = inbound.wire.format, inbound.body
    raw = body.edited([model_edit(body, body.span("model"), target.id)])
    try:
        translated = await offload_large(len(raw), translate_request, wire, WireFormat.RESPONSES, raw)
    except CallerError as error:
        log.info("tokens are estimated: %s", error.message)
        return b""
    members = {name: raw for name, raw in decode_members(translated.body).items() if name in _COUNTED}
    sent = without_providers(
        upstream_headers(inbound.all_headers, target.upstream.relayed.taken, inbound.caller)
    )
    call = Call(_PATH, sent, msgspec.json.encode(members))
    counted = decoded_or(None, _decode_counted, await _send(target, inbound, WireFormat.RESPONSES, call))
    return msgspec.json.encode(counted) if counted else b""


async def _send(target: Target, inbound: InboundRequest, wire: WireFormat, call: Call) -> bytes:
    """Return the answer of an upstream; empty unless it is a count. One without any is not asked again."""
    upstream = target.upstream
    sent = [*call.headers, *upstream.headers[wire]]
    if upstream.spec.forward_auth and FORMATS[wire].auth != inbound.wire.auth:
        log.info("tokens are estimated: the caller's credential is for another provider")
        return b""
    try:
        if upstream.spec.forward_auth:
            sent += caller_credentials(inbound.all_headers, inbound.keys)
        exchange = await send_call(upstream.client, msgspec.structs.replace(call, headers=sent))
        try:
            counted = await read_at_most(exchange, LARGE)
        finally:
            exchange.close()
    except (Unauthorized, UpstreamError) as error:
        log.info("tokens are estimated: %s", error.message)
        return b""
    # With the caller's own credential the status may be about the caller's account.
    if exchange.status in _ABSENT and not upstream.spec.forward_auth:
        upstream.uncounted[target.id] = time.monotonic() + _ASKED_AGAIN
    return counted if exchange.status == 200 else b""
