"""One caller's request, read and decided, on its way to an upstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pointsman.decision.decision import Decision
from pointsman.gateway import headers
from pointsman.gateway.injections import injections, kept_tools
from pointsman.gateway.upstream import Target
from pointsman.stores.ledger.port import Attempt
from pointsman.upstreams.port import Call, Headers
from pointsman.wire import Body, Wire
from pointsman.wire.spans import Edit, Span

__all__ = ["Context", "Request", "naming"]


class Context(Protocol):
    """What a request needs of the gateway around it."""

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down."""
        ...


def naming(body: Body, place: Span | None, model: bytes) -> Edit:
    """Return the edit that puts a model's name, as JSON, where one stands, or first where none does."""
    if place is not None:
        return place, model
    start = body.raw.index(b"{") + 1
    return (start, start), b'"model":' + model + (b"," if body.members else b"")


class Request:
    """Builds the call for whichever model is tried. Only the model's name and our additions differ."""

    __slots__ = ("_edits", "_headers", "_model", "_path", "attempts", "body", "client_is_retrying", "context",
                 "decision", "on_answer", "wire")  # fmt: skip

    #: Called when all has been sent: with who answered, and the whole body or the last events of a stream.
    on_answer: Callable[[Target, Sequence[bytes]], None] | None

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
        self.on_answer = None
        # The SDKs count their own retries here. One owner of retries: if the client is at it, we are not.
        self.client_is_retrying = named.get(b"x-stainless-retry-count", b"0") != b"0"
        self._path = wire.path + b"?" + query if query else wire.path
        self._headers = headers.upstream(sent)
        self._model = body.span("model")
        self._edits = injections(wire, body, decision) if decision.injections else []
        if decision.tools:
            self._edits += kept_tools(body, decision.tools)

    def call(self, target: Target) -> Call:
        """Return the request as this model's upstream gets it."""
        sent = self._headers + target.upstream.headers[self.wire.format]
        return Call(
            self._path, sent, self.body.edited([naming(self.body, self._model, target.id), *self._edits])
        )
