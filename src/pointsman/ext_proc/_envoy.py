"""Envoy in the place of an upstream: takes the gateway's request, and gives it Envoy's response."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from contextvars import ContextVar
from typing import Final, Literal

import msgspec

from pointsman.errors import UpstreamError
from pointsman.gateway.parts import LiveState
from pointsman.gateway.request_log import ServedRequest, current_request
from pointsman.gateway.upstream import Target, Upstream
from pointsman.upstreams.port import Call, Exchange, Headers
from pointsman.vocabulary import WireFormat

#: What a model is called towards Envoy: by its upstream's id, or by its configured name.
ModelValue = Literal["id", "name"]

#: Stands for the body of a response whose body Envoy does not show: no usage is in it.
_NO_BODY: Final = b"{}"
_JSON: Final = (b"content-type", b"application/json")


class EnvoyExchange:
    """One request and its response, while Envoy passes them on (``upstreams.port.Exchange``)."""

    def __init__(self) -> None:
        self.call: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self.served: ServedRequest | None = None  # the request as it is told of
        self.status = 0
        self.headers: Headers = []
        self._parts: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._is_encoded = self._is_closed = False
        self.has_begun = False  # the head of the response has come
        self.has_body = False  # a part of its body has come
        self.has_ended = False

    def begin(self, status: int, headers: Headers) -> None:
        """The head of the response has come."""
        self.status, self.headers, self.has_begun = status, headers, True
        self._is_encoded = any(
            name == b"content-encoding" and value not in {b"", b"identity"} for name, value in headers
        )

    def feed(self, part: bytes) -> None:
        """A part of its body has come. A compressed part, or one that is not awaited, is dropped."""
        self.has_body = True
        if part and not self._is_encoded and not self._is_closed:
            self._parts.append(part)
            self._changed.set()

    def finish(self) -> None:
        """All of it has come, or all that Envoy shows."""
        self.has_ended = True
        self._changed.set()

    async def answered(self) -> Exchange:
        """Wait for the head and for the first part, or the end, of the body."""
        while not self._parts and not self.has_ended:
            await self._wait()
        if not self.has_begun:
            raise UpstreamError("Envoy ended the request without a response")
        if not self._parts:  # nothing is shown of the body
            self.headers = [_JSON]
            self._parts.append(_NO_BODY)
        return self

    async def read(self) -> bytes:
        """Return the whole body."""
        while not self.has_ended:
            await self._wait()
        parts = b"".join(self._parts)
        self._parts.clear()
        return parts

    async def next(self) -> bytes:
        """Return the next part; empty at the end."""
        while not self._parts:
            if self.has_ended:
                return b""
            await self._wait()
        return self._parts.popleft()

    def close(self) -> None:
        """No more parts are awaited."""
        self._is_closed = True
        self._parts.clear()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()


#: The exchange of the request that a task serves.
current: Final[ContextVar[EnvoyExchange]] = ContextVar("envoy_exchange")


class _Client:
    """Gives a request to Envoy instead of sending it (``upstreams.port.UpstreamClient``)."""

    async def send(self, call: Call) -> Exchange:
        exchange = current.get()
        if exchange.call.done():
            raise UpstreamError("Envoy sends a request once")
        exchange.served = current_request()
        exchange.call.set_result(call)
        return await exchange.answered()

    def close(self) -> None:
        """Nothing is open."""


class _EnvoyUpstream(Upstream):
    """An upstream that Envoy reaches: retries, circuit breakers and rate limits are Envoy's."""

    def hold(self, model: str, seconds: float) -> None:
        """Envoy waits, if asked to."""

    def failed(
        self, why: str, session: str | None = None, caller: str = "", *, request: int = 0, took: float = 0.0
    ) -> None:
        """Envoy detects failing upstreams."""

    def worked(self, sent: float | None = None) -> None:
        """As above."""


def behind_envoy(state: LiveState, value: ModelValue) -> LiveState:
    """Return a state that decides as ``state`` does and gives every request to Envoy, in the caller's format.

    Args:
        state: As built from the configuration.
        value: Name of a model for Envoy.
    """
    client = _Client()
    upstreams = {
        name: _EnvoyUpstream(msgspec.structs.replace(upstream.spec, retries=0, forward_auth=False), client)
        for name, upstream in state.upstreams.items()
    }

    def target(found: Target) -> Target:
        model = msgspec.structs.replace(found.model, formats=frozenset(WireFormat))
        called = model.id if value == "id" else model.name
        return Target(model, upstreams[model.upstream], msgspec.json.encode(called), found.shown)

    targets = {name: target(found) for name, found in state.targets.items()}

    def candidates(chain: tuple[str, ...]) -> list[Target]:
        # The first alone: what follows when it fails is Envoy's configuration.
        return [targets[each.model.name] for each in state.candidates(chain)[:1]]

    return dataclasses.replace(
        state,
        targets=targets,
        upstreams=upstreams,
        candidates=candidates,
        shadow_model=None,
    )
