"""The request to an upstream: the caller's, with the model name, injections and API key replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.gateway._inbound import InboundRequest
from pointsman.gateway._injections import injections, kept_tools
from pointsman.gateway._metrics import Metrics
from pointsman.gateway.upstream import Target
from pointsman.stores.ledger.port import Attempt, Ledger, ShadowAnswer
from pointsman.upstreams.port import Call, Headers
from pointsman.wire import Body
from pointsman.wire.body import Edit, Span

__all__ = ["HOP_BY_HOP", "KEPT_NAMES", "OWN_PREFIX", "DecidedRequest", "model_edit", "upstream_headers"]

#: Ours alone: nobody else can set one, in either direction.
OWN_PREFIX: Final = b"x-pointsman-"

#: About one connection, never passed on (RFC 9110, section 7.6.1).
HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

#: Not for an upstream: the caller's key and cookies, where it came from, and what the gateway sets.
#: Compression is not asked for, because the gateway reads what passes.
_NOT_UP: Final = HOP_BY_HOP | {
    b"host", b"content-length", b"content-type", b"expect", b"accept-encoding",
    b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie",
    b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
}  # fmt: skip

#: Names of headers whose way is remembered; a client sends the same dozen with every request.
KEPT_NAMES: Final = 512


def upstream_headers(sent: Headers) -> list[tuple[bytes, bytes]]:
    """Return what of a caller's headers goes to the upstream."""
    return [pair for pair in sent if _goes_up(pair[0])]


@lru_cache(KEPT_NAMES)
def _goes_up(name: bytes) -> bool:
    return name not in _NOT_UP and not name.startswith(OWN_PREFIX)


def model_edit(body: Body, place: Span | None, model: bytes) -> Edit:
    """Return the edit that puts a model's name, as JSON, where one stands, or first where none does."""
    if place is not None:
        return place, model
    start = body.raw.index(b"{") + 1
    return (start, start), b'"model":' + model + (b"," if not body.is_empty else b"")


class DecidedRequest:
    """A request and its decision: builds the call for whichever model is tried, and writes attempts down.

    Only the model's name and the decision's injections and tools differ from what the caller sent.
    """

    __slots__ = ("_edits", "_headers", "_ledger", "_model", "_path", "attempts", "body", "client_is_retrying",
                 "decision", "metrics", "on_complete", "wire")  # fmt: skip

    #: Called when all has been sent: with who answered, and the whole body or the last events of a stream.
    on_complete: Callable[[Target, Sequence[bytes]], None] | None

    def __init__(self, inbound: InboundRequest, decision: Decision, ledger: Ledger, metrics: Metrics) -> None:
        wire, body, query = inbound.wire, inbound.body, inbound.query
        self.wire = wire
        self.body = body
        self.decision = decision
        self.metrics = metrics
        self.attempts = 0
        self.on_complete = None
        # The SDKs count their own retries here. One owner of retries: if the client is at it, we are not.
        self.client_is_retrying = inbound.headers.get(b"x-stainless-retry-count", b"0") != b"0"
        self._ledger = ledger
        self._path = wire.path + b"?" + query if query else wire.path
        self._headers = upstream_headers(inbound.all_headers)
        self._model = body.span("model")
        self._edits = injections(wire, body, decision) if decision.injections else []
        if decision.tools:
            self._edits += kept_tools(body, decision.tools)

    def call(self, target: Target) -> Call:
        """Return the request as this model's upstream gets it."""
        sent = self._headers + target.upstream.headers[self.wire.format]
        edits = [model_edit(self.body, self._model, target.id), *self._edits]
        return Call(self._path, sent, self.body.edited(edits))

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down, and count it."""
        self._ledger.append(attempt)
        self.metrics.seen(attempt)

    def record_shadow(self, answer: ShadowAnswer) -> None:
        """Record what the shadow model answered."""
        self._ledger.append(answer)
