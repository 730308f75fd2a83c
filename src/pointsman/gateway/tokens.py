"""Counting the tokens of a Messages request: asked of the upstream, estimated where it cannot say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.errors import UpstreamError
from pointsman.gateway import headers
from pointsman.gateway.inbound import Scope
from pointsman.gateway.relay import Send, send_body
from pointsman.gateway.request import naming
from pointsman.gateway.upstream import Target
from pointsman.upstreams.port import Call
from pointsman.vocabulary import WireFormat
from pointsman.wire import Body

__all__ = ["TOKEN_PATHS", "count_tokens"]

_PATH: Final = b"/messages/count_tokens"
TOKEN_PATHS: Final = frozenset({_PATH, b"/v1" + _PATH})

log = logging.getLogger(__name__)


async def count_tokens(targets: Mapping[str, Target], body: Body, scope: Scope, send: Send) -> int:
    """Answer with a number of input tokens, and return the status sent.

    Asks the upstream of the model named, or of the first that speaks Messages: which model will serve is
    decided when there is something to serve, and all models of a provider count much alike.
    """
    named = targets.get((body.text("model") or "").removeprefix("pointsman/"))
    target = named or next(iter(targets.values()), None)
    if target is not None and WireFormat.MESSAGES not in target.model.formats:
        target = next((t for t in targets.values() if WireFormat.MESSAGES in t.model.formats), None)
    counted = await _ask(target, body, scope) if target else b""
    if counted:
        await send_body(send, 200, [(b"content-type", b"application/json")], counted)
    else:
        # Bytes of the whole body, JSON marks included: agents ask to stay below a limit, so rather too many.
        estimate = msgspec.json.encode({"input_tokens": len(body.raw) // 4})
        sent = [(b"content-type", b"application/json"), (b"x-pointsman-estimate", b"1")]
        await send_body(send, 200, sent, estimate)
    return 200


async def _ask(target: Target, body: Body, scope: Scope) -> bytes:
    """Return the upstream's count as it stands; empty when there is none."""
    query = scope["query_string"]
    path = _PATH + b"?" + query if query else _PATH
    sent = headers.upstream(scope["headers"]) + target.upstream.headers[WireFormat.MESSAGES]
    edit = naming(body, body.span("model"), target.id)
    try:
        exchange = await target.upstream.client.send(Call(path, sent, body.edited([edit])))
        try:
            counted = await exchange.read()
        finally:
            exchange.close()
    except UpstreamError as error:
        log.info("tokens are estimated: %s", error.message)
        return b""
    return counted if exchange.status == 200 else b""
