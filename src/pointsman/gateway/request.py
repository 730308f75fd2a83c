"""One caller's request, read and decided, on its way to an upstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from pointsman.decision import Decision
from pointsman.gateway import headers
from pointsman.gateway.additions import additions, kept_tools
from pointsman.gateway.upstream import Target
from pointsman.gateway.wire import Body, Wire
from pointsman.ledger.port import Attempt
from pointsman.upstreams import Call, credentials

__all__ = ["Context", "Request"]


class Context(Protocol):
    """What a request needs of the gateway around it."""

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down."""
        ...


class Request:
    """Builds the call for whichever model is tried. Only the model's name and our additions differ."""

    __slots__ = ("_edits", "_headers", "_place", "attempts", "body", "client_is_retrying", "context",
                 "decision", "path", "wire")  # fmt: skip

    def __init__(
        self,
        wire: Wire,
        body: Body,
        decision: Decision,
        sent: Sequence[tuple[bytes, bytes]],
        named: Mapping[bytes, bytes],
        query: bytes,
        context: Context,
    ) -> None:
        self.wire = wire
        self.body = body
        self.decision = decision
        self.context = context
        self.attempts = 0
        self.path = f"{wire.path}?{query.decode('latin-1')}" if query else wire.path
        # The SDKs count their own retries here. One owner of retries: if the client is at it, we are not.
        self.client_is_retrying = named.get(b"x-stainless-retry-count", b"0") != b"0"
        self._headers = headers.upstream(sent)
        self._headers.append(("content-type", "application/json"))
        self._place = body.span("model")
        self._edits = additions(wire, body, decision) if decision.additions else []
        if decision.tools:
            self._edits += kept_tools(body, decision.tools)

    def call(self, target: Target) -> Call:
        """Return the request as this model's upstream gets it."""
        name = msgspec.json.encode(target.model.id)
        if self._place is not None:
            edit = (self._place, name)
        else:
            start = self.body.raw.index(b"{") + 1
            edit = ((start, start), b'"model":' + name + (b"," if self.body.members else b""))
        proof = credentials(target.upstream.spec, self.wire.format)
        return Call(self.path, self._headers + proof, self.body.edited([edit, *self._edits]))
