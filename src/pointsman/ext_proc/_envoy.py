"""Envoy in the place of an upstream, the answers to Envoy, and the check of its callers' keys."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal

import msgspec

from pointsman.access import Grant
from pointsman.errors import (
    CallerError,
    MalformedRequest,
    Overloaded,
    RoleForbids,
    StoreUnavailable,
    TooLarge,
    UpstreamError,
    UpstreamTooLarge,
)
from pointsman.ext_proc import messages as proto
from pointsman.gateway.parts import CapturedAnswer, LiveState, Scope, authorise, relaying, send_refusal
from pointsman.gateway.request_log import ServedRequest, current_request
from pointsman.gateway.upstream import Target, Upstream
from pointsman.upstreams.port import Call, Exchange, Headers
from pointsman.vocabulary import WireFormat
from pointsman.wire import ENDPOINTS, Format, guess_wire

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
        self.longest = 0  # bytes of it that wait to be read at most
        self._held = 0
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
            self._held += len(part)
            if self._held > self.longest:
                self.close()
            self._changed.set()

    def finish(self) -> None:
        """All of it has come, or all that Envoy shows."""
        self.has_ended = True
        self._changed.set()

    async def answered(self) -> Exchange:
        """Wait for the head and for the first part, or the end, of the body."""
        while not self._parts and not self.has_ended:
            await self._wait()
        self._check()
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
        self._check()
        parts = b"".join(self._parts)
        self._parts.clear()
        return parts

    async def next(self) -> bytes:
        """Return the next part; empty at the end."""
        while not self._parts:
            self._check()
            if self.has_ended:
                return b""
            await self._wait()
        part = self._parts.popleft()
        self._held -= len(part)
        return part

    def close(self) -> None:
        """No more parts are awaited."""
        self._is_closed = True
        self._parts.clear()

    def _check(self) -> None:
        if self._held > self.longest:
            raise UpstreamTooLarge(f"the upstream answered with more than {self.longest} bytes")

    async def _wait(self) -> None:
        self._check()
        self._changed.clear()
        await self._changed.wait()


#: The exchange of the request that a task serves.
current: Final[ContextVar[EnvoyExchange]] = ContextVar("envoy_exchange")


class _Client:
    """Gives a request to Envoy instead of sending it (``upstreams.port.UpstreamClient``)."""

    def __init__(self, longest: int) -> None:
        """Bound the bytes of an answer."""
        self._longest: Final = longest

    async def send(self, call: Call) -> Exchange:
        exchange = current.get()
        if exchange.call.done():
            raise UpstreamError("Envoy sends a request once")
        exchange.served, exchange.longest = current_request(), self._longest
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
    upstreams = {
        name: _EnvoyUpstream(
            msgspec.structs.replace(upstream.spec, retries=0, forward_auth=False),
            _Client(upstream.spec.answer_bytes),
        )
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
        agreement=None,
        relay=relaying(state.server),
    )


# The messages that a stream answers Envoy with.

#: A message inside another, by the names of its fields.
Fields = Mapping[str, Any]
#: Bytes of one message with a part of a body: what Envoy writes at once.
_PART: Final = 64 << 10
#: What Envoy writes by itself in an answer.
_OWN: Final = frozenset({b"content-length", b"connection", b"transfer-encoding"})


def mutated(headers: Iterable[tuple[bytes, bytes]], removed: Iterable[str] = ()) -> Fields:
    """Return a mutation that sets some headers and removes others."""
    options = [
        {"header": {"key": name.decode("latin-1"), "raw_value": value}, "append_action": proto.OVERWRITE}
        for name, value in headers
    ]
    return {"set_headers": options, "remove_headers": removed}


def continued(kind: str, common: Fields | None = None) -> Any:
    """Return a response of a kind (``request_headers``, …) that lets the request continue.

    Args:
        kind: Its kind.
        common: Fields of its ``CommonResponse``: what changes.
    """
    return proto.ProcessingResponse(**{kind: {} if common is None else {"response": common}})


def plain(kind: str, *, streams: bool, body: bytes = b"", ends: bool = False) -> Any:
    """Return a response to a part of a body that passes unchanged, which some modes want repeated."""
    if not streams:
        return continued(kind)
    part = {"body": body, "end_of_stream": ends}
    return continued(kind, {"body_mutation": {"streamed_response": part}})


def body_parts(body: bytes, *, ends: bool) -> Iterator[Any]:
    """Yield the whole body of a request in parts, for a mode in which each is a message."""
    for start in range(0, max(len(body), 1), _PART):
        part = body[start : start + _PART]
        yield plain("request_body", streams=True, body=part, ends=ends and start + _PART >= len(body))


def immediate(status: int, headers: Headers, body: bytes) -> Any:
    """Return the answer that Envoy gives at once, instead of asking an upstream."""
    return proto.ProcessingResponse(
        immediate_response={
            "status": {"code": status},
            "headers": mutated(pair for pair in headers if pair[0] not in _OWN),
            "body": body,
            "details": "pointsman",
        }
    )


#: What a key with limits may do where nothing is decided: no model works for it.
_READS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"DELETE"})


def admitted(state: LiveState, sent: Headers) -> Grant | None:
    """Return the permissions of a request's key; None: all, or no key is required.

    Args:
        state: Names the keys.
        sent: The headers of the request.

    Raises:
        Unauthorized: no key, or an unknown one.
        Forbidden: it is no longer valid.
    """
    if not state.server.keys:  # Envoy decides who may call
        return None
    caller = authorise(dict(sent), state.server, state.callers)
    if state.access is None:
        return None
    state.access.admit(caller)
    return state.access.grants.get(caller)


def is_bounded(grant: Grant | None) -> bool:
    """Whether a request with this key has to be decided."""
    return grant is not None and grant.bounds_cost


async def check_passed(state: LiveState, grant: Grant | None, why: str, method: bytes, sent: Headers) -> None:
    """Pass a request unchanged, and count it against the rate limit of its key.

    Args:
        state: Counts.
        grant: From ``admitted``.
        why: The request is not decided.
        method: Of the request.
        sent: Its headers.

    Raises:
        CallerError: its key may not do that, or its rate limit is used up.
        Overloaded: that is unknown, or the request cannot be decided now.
    """
    if grant is None or state.access is None:
        return
    grant.check_role()
    reads = method in _READS and all(name != b"upgrade" for name, _ in sent)
    if grant.bounds_cost and not reads:
        raise _not_passed(grant, why, state.server.limits.body_bytes)
    try:
        await state.access.begin(grant).count_request()
    except StoreUnavailable:
        raise Overloaded("the limits of the key cannot be checked", hint="send the request later") from None


def _not_passed(grant: Grant, why: str, limit: int) -> CallerError | Overloaded:
    match why:
        case "too_large":
            return TooLarge(f"the request body is larger than {limit} bytes, or is not shown as a whole")
        case "no_body":
            return MalformedRequest("the request has no body")
        case "overloaded" | "failed":
            return Overloaded("the request cannot be decided now", hint="send it again later")
    return RoleForbids(
        f'key "{grant.name}" has a budget, a token limit or a list of models, '
        "and what is passed on as it came has no known cost",
        hint="POST a whole body to /v1/chat/completions, /v1/responses or /v1/messages",
    )


async def refused(error: CallerError | Overloaded, scope: Scope) -> Any:
    """Return Envoy's answer to a refused request, in the caller's format."""
    answer = CapturedAnswer()
    headers: Headers = scope["headers"]
    await send_refusal(_wire(scope["raw_path"], headers), error, dict(headers), answer, scope)
    return immediate(answer.status, answer.headers, answer.body)


def _wire(path: bytes, headers: Headers) -> Format:
    return ENDPOINTS.get(path) or guess_wire((name for name, _ in headers), path.decode("ascii", "replace"))
