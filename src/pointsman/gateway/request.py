"""One caller's request, read and decided, on its way to an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pointsman.decision import Decision
from pointsman.gateway import headers
from pointsman.gateway.additions import additions, kept_tools
from pointsman.gateway.upstream import Target
from pointsman.gateway.wire import Body, Wire
from pointsman.gateway.wire.body import Edit
from pointsman.ledger.port import Attempt
from pointsman.upstreams import Call, Headers

__all__ = ["Context", "Request"]


class Context(Protocol):
    """What a request needs of the gateway around it."""

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down."""
        ...


class Request:
    """Builds the call for whichever model is tried. Only the model's name and our additions differ."""

    __slots__ = ("_edits", "_headers", "_path", "_place", "attempts", "body", "client_is_retrying", "context",
                 "decision", "wire")  # fmt: skip

    def __init__(
        self,
        wire: Wire,
        body: Body,
        decision: Decision,
        sent: Headers,
        named: Mapping[bytes, bytes],
        query: bytes,
        context: Context,
    ) -> None:
        self.wire = wire
        self.body = body
        self.decision = decision
        self.context = context
        self.attempts = 0
        # The SDKs count their own retries here. One owner of retries: if the client is at it, we are not.
        self.client_is_retrying = named.get(b"x-stainless-retry-count", b"0") != b"0"
        self._path = wire.path + b"?" + query if query else wire.path
        self._headers = headers.upstream(sent)
        self._place = body.span("model")
        self._edits = additions(wire, body, decision) if decision.additions else []
        if decision.tools:
            self._edits += kept_tools(body, decision.tools)

    def call(self, target: Target) -> Call:
        """Return the request as this model's upstream gets it."""
        sent = self._headers + target.upstream.headers[self.wire.format]
        return Call(self._path, sent, self.body.edited([self._naming(target.id), *self._edits]))

    def _naming(self, model: bytes) -> Edit:
        if self._place is not None:
            return self._place, model
        start = self.body.raw.index(b"{") + 1
        return (start, start), b'"model":' + model + (b"," if self.body.members else b"")
