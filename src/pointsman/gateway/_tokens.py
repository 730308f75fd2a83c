"""Token counts of a request: by the upstream, or estimated."""

from __future__ import annotations

import logging

import msgspec

from pointsman.errors import Unauthorized, UpstreamError
from pointsman.gateway._inbound import InboundRequest, caller_credentials
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._relay import Send, send_body
from pointsman.gateway._request import model_edit, upstream_headers
from pointsman.gateway.upstream import Target
from pointsman.upstreams.port import Call

__all__ = ["count_tokens"]


log = logging.getLogger(__name__)


async def count_tokens(state: LiveState, inbound: InboundRequest, send: Send) -> int:
    """Answer with a number of input tokens, and return the status sent.

    Asks the upstream of the model named, or of the first that speaks the format: which model will serve is
    decided when there is something to serve, and all models of a provider count much alike.
    """
    body, targets = inbound.body, state.targets
    resolved = state.names.resolve(body.text("model") or "")
    named = targets.get(resolved.target.model) if resolved else None
    target = named or next(iter(targets.values()), None)
    if target is not None and inbound.wire.format not in target.model.formats:
        target = next((t for t in targets.values() if inbound.wire.format in t.model.formats), None)
    counted = await _ask(target, inbound) if target else b""
    if counted:
        await send_body(send, 200, [(b"content-type", b"application/json")], counted)
    else:
        # Bytes of the whole body, JSON marks included: agents ask to stay below a limit, so rather too many.
        estimate = msgspec.json.encode({"input_tokens": len(body.raw) // 4})
        sent = [(b"content-type", b"application/json"), (b"x-pointsman-estimate", b"1")]
        await send_body(send, 200, sent, estimate)
    return 200


async def _ask(target: Target, inbound: InboundRequest) -> bytes:
    """Return the upstream's count as it stands; empty when there is none."""
    query, body = inbound.query, inbound.body
    path = inbound.wire.token_path + b"?" + query if query else inbound.wire.token_path
    sent = upstream_headers(inbound.all_headers) + target.upstream.headers[inbound.wire.format]
    edit = model_edit(body, body.span("model"), target.id)
    try:
        if target.upstream.forwards_auth:
            sent += caller_credentials(inbound.all_headers, inbound.keys)
        exchange = await target.upstream.client.send(Call(path, sent, body.edited([edit])))
        try:
            counted = await exchange.read()
        finally:
            exchange.close()
    except (Unauthorized, UpstreamError) as error:
        log.info("tokens are estimated: %s", error.message)
        return b""
    return counted if exchange.status == 200 else b""
