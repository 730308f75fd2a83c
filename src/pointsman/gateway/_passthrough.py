"""Passes other paths below ``/v1`` on to one upstream: embeddings, files, batches, images, stored responses.

Nothing is decided and nothing is translated. Limits, retries and circuit breaker are those of every request;
bodies are sent on while they arrive, in both directions.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pointsman.errors import (
    CallerError,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    StaleConnection,
    UpstreamError,
)
from pointsman.gateway._credentials import caller_credentials
from pointsman.gateway._failures import (
    backoff,
    failure_kind,
    is_retryable,
    misconfigured,
    refuses_our_key,
    retry_after,
)
from pointsman.gateway._inbound import (
    BodyReservation,
    CallerLeft,
    Receive,
    Scope,
    Send,
    read_bytes,
)
from pointsman.gateway._limits import check_passed
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._local_replies import PATHS_HINT, send_fault
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._owned import MadeObject, check_path, check_references, check_type, makes_object
from pointsman.gateway._passing import PassedBody, passed_path, with_model_id
from pointsman.gateway._relay import send_pieces
from pointsman.gateway._response_headers import downstream_headers, request_id
from pointsman.gateway.upstream import Upstream, header_value, upstream_headers
from pointsman.offload import offload_large
from pointsman.stores.ledger.port import PassedRequest
from pointsman.upstreams.port import Call, Exchange, Headers, read_at_most
from pointsman.wire import Fault, Format
from pointsman.wire.sse import masked

__all__ = ["Inbound", "Passthrough"]

log = logging.getLogger(__name__)

_IDEMPOTENT: Final = frozenset({"DELETE", "GET"})
_ALLOWED: Final = "DELETE, GET, POST"
#: Longest pause in seconds between two tries.
_LONGEST_PAUSE: Final = 8.0
#: Bytes of an error that are looked at: a page, in which no key must stand.
_ERROR_BYTES: Final = 1 << 20
#: A browser runs no script of an upstream at the address of the console, and shows it in no other page.
_NO_PAGE: Final = {
    b"content-security-policy": b"sandbox; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
}
_NO_BODY: Final = frozenset({204, 304})
#: What such requests count as where others count by session, and where others wait by model.
_PASSED: Final = "passed on"


class Inbound(NamedTuple):
    """A request as it begins; its body has not been read."""

    wire: Format  # in which errors are told
    scope: Scope
    headers: Mapping[bytes, bytes]  # by name, in lower case
    receive: Receive
    reservation: BodyReservation
    body_ended: Callable[[], None]  # called when nothing more is to come
    arrived: float  # seconds of ``time.perf_counter``
    caller: str = ""  # name of the key it came with; empty: none was asked for


class _Exchanged:
    """What becomes the ledger's row of a request."""

    def __init__(self, inbound: Inbound, upstream: str) -> None:
        self.id = f"p-{uuid.uuid4().hex}"
        self.status = 0
        self.error = ""
        self.attempts = 0
        self.bytes_in = self.bytes_out = 0
        self.first_byte: float | None = None  # seconds since the request arrived
        self.caller = inbound.caller
        self.team = ""  # that of its key
        self._inbound = inbound
        self._upstream = upstream
        self._at = time.time()

    @property
    def seconds(self) -> float:
        """Since the request arrived."""
        return time.perf_counter() - self._inbound.arrived

    def row(self) -> PassedRequest:
        """Return it as it is written down: neither query, nor headers, nor any of the bodies."""
        scope = self._inbound.scope
        return PassedRequest(
            id=self.id,
            at=self._at,
            upstream=self._upstream,
            method=scope["method"],
            path=_shown(scope),
            status=self.status,
            error=self.error,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            first_byte_ms=None if self.first_byte is None else self.first_byte * 1e3,
            total_ms=self.seconds * 1e3,
            caller=self._inbound.caller,
            team=self.team,
        )


def _shown(scope: Scope) -> str:
    """Return the path as it was sent, as far as it can be shown."""
    return header_value(scope["raw_path"].decode("ascii", "replace")).decode()


class Passthrough:
    """The endpoint of every path that ``is_passed``."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def answer(self, state: LiveState, inbound: Inbound, send: Send) -> int:
        """Answer a request whose caller may call, and return the status sent.

        An object stored by an upstream (response, file, batch) belongs to the caller that made it, if there
        are several callers and the upstream does not know them by separate credentials.

        Raises:
            CallerError: the path does not exist, or the request cannot be passed on as it is.
            Overloaded: the bodies of all requests together are too large.
            CallerLeft: the connection ended before the body did.
        """
        scope = inbound.scope
        name = state.server.passthrough
        if not name:
            hint = '[server] passthrough = "UPSTREAM" sends other paths below /v1 to an upstream'
            if scope["raw_path"].startswith(b"/v1/v1/"):
                hint = "the client adds /v1 itself: leave it out of the base URL"
            raise NotFound(f'"{_shown(scope)}" is not served here: {PATHS_HINT}', hint=hint)
        if scope["method"] not in {"DELETE", "GET", "POST"}:
            raise MethodNotAllowed(scope["method"], allowed=_ALLOWED)
        path = passed_path(scope["raw_path"], scope["query_string"])
        upstream, exchanged = state.upstreams[name], _Exchanged(inbound, name)
        try:
            if state.access is not None:
                caller, method = inbound.caller, scope["method"]
                exchanged.team = await check_passed(state.access, caller, method, self._metrics)
            exchanged.status = await self._exchange(state, upstream, inbound, path, exchanged, send)
        except (CallerError, Overloaded) as error:
            exchanged.status, exchanged.error = error.status, "refused"
            raise
        except (CallerLeft, asyncio.CancelledError):
            exchanged.error = "disconnect"
            raise
        finally:
            state.runtime.ledger.append(exchanged.row())
            self._metrics.count("passed", name, scope["method"], exchanged.error or "ok")
        return exchanged.status

    async def _exchange(
        self,
        state: LiveState,
        upstream: Upstream,
        inbound: Inbound,
        path: bytes,
        exchanged: _Exchanged,
        send: Send,
    ) -> int:
        method, caller = inbound.scope["method"], inbound.caller
        is_apart = state.has_several_callers and not upstream.spec.forward_auth
        if is_apart:
            await check_path(state.ownership, caller, method, path)
            if method not in _IDEMPOTENT and _has_body(inbound.headers):
                check_type(inbound.headers)
        call, tries = await _call(state, upstream, inbound, path, exchanged)
        if is_apart and call.body:
            await check_references(state.ownership, caller, call.body)
        made = (
            MadeObject(state.ownership, caller)
            if caller and method == "POST" and makes_object(path)
            else None
        )
        try:
            exchange = await _first_answer(upstream, call, tries, exchanged)
        except UpstreamError as error:
            return await _fail(inbound, upstream, error, exchanged, send)
        exchanged.first_byte = exchanged.seconds
        try:
            has_body = exchange.status not in _NO_BODY
            if has_body and (fault := misconfigured(upstream, exchange.status)) is not None:
                exchanged.error = "status"
                return await send_fault(inbound.wire, fault, _own_headers(inbound, upstream, exchanged), send)
            sent = _headers_down(inbound, upstream, exchange, exchanged)
            if isinstance(call.upload, PassedBody) and not call.upload.has_ended:
                sent.append((b"connection", b"close"))  # the rest of the body is not read
            if exchange.status >= 400:
                return await _relay_error(upstream, exchange, sent, exchanged, send)
            return await _relay_body(upstream, exchange, sent, exchanged, send, made)
        except UpstreamError as error:
            return await _fail(inbound, upstream, error, exchanged, send)
        finally:
            exchange.close()


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _call(
    state: LiveState, upstream: Upstream, inbound: Inbound, path: bytes, exchanged: _Exchanged
) -> tuple[Call, int]:
    """Return the upstream's request, and how often it may be sent."""
    headers, method = inbound.headers, inbound.scope["method"]
    sent = _headers_up(state, upstream, inbound)
    limit = state.server.limits.body_bytes
    is_json = headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == b"application/json"
    if method not in _IDEMPOTENT and not (is_json and b"content-encoding" not in headers):

        def count(size: int) -> None:
            exchanged.bytes_in += size

        body = PassedBody(headers, inbound.receive, limit, inbound.reservation, inbound.body_ended, count)
        return Call(path, sent, b"", method.encode(), body), 1
    raw = await read_bytes(inbound.receive, headers, limit, inbound.reservation)
    inbound.body_ended()
    exchanged.bytes_in = len(raw)
    if raw and is_json:
        raw = await offload_large(len(raw), with_model_id, raw, state.targets, upstream)
    is_repeated = headers.get(b"x-stainless-retry-count", b"0") != b"0"  # one owner of retries
    tries = 1 + upstream.spec.retries if method in _IDEMPOTENT and not is_repeated else 1
    return Call(path, sent, raw, method.encode()), tries


def _headers_up(state: LiveState, upstream: Upstream, inbound: Inbound) -> list[tuple[bytes, bytes]]:
    all_headers: Headers = inbound.scope["headers"]
    sent = upstream_headers(all_headers, upstream.relayed.taken, inbound.caller)
    sent += [pair for pair in all_headers if pair[0] == b"content-type"]
    sent += [pair for pair in upstream.headers[inbound.wire.format] if pair[0] != b"content-type"]
    if upstream.spec.forward_auth:
        sent += caller_credentials(all_headers, state.server.keys)
    return sent


async def _first_answer(upstream: Upstream, call: Call, tries: int, exchanged: _Exchanged) -> Exchange:
    """Return the head of the upstream's answer, after retries if the request may be sent again.

    Circuit breaker and ``Retry-After`` are updated and not consulted: there is no other upstream for such a
    request.

    Raises:
        UpstreamError: it has not answered.
    """
    upstream.waiting += 1
    try:
        result = await _try(upstream, call, exchanged)
        for number in range(1, tries):
            pause = _pause(result, number)
            if pause is None or not upstream.may_retry:
                break
            if not isinstance(result, UpstreamError):
                result.close()
            upstream.retrying += 1
            try:
                await asyncio.sleep(pause)
                result = await _try(upstream, call, exchanged)
            finally:
                upstream.retrying -= 1
    finally:
        upstream.waiting -= 1
    if isinstance(result, UpstreamError):
        raise result
    return result


async def _try(upstream: Upstream, call: Call, exchanged: _Exchanged) -> Exchange | UpstreamError:
    """Send a request, and record its result."""
    try:
        exchange = await _send(upstream, call, exchanged)
    except UpstreamError as error:
        kind = failure_kind(error)
        if kind != "busy":
            upstream.failed(error.message, None if kind == "connect" else _PASSED, exchanged.caller)
        return error
    _note(upstream, exchange.status, exchanged.caller)
    upstream.asked_to_wait(exchange.status, retry_after(exchange.headers))
    return exchange


def _pause(result: Exchange | UpstreamError, number: int) -> float | None:
    """Return the seconds before the next try; None if there is none."""
    if isinstance(result, UpstreamError):
        return None if failure_kind(result) in {"busy", "timeout", "too_large"} else backoff(number)
    if not is_retryable(result.status):
        return None
    asked = retry_after(result.headers)
    pause = backoff(number) if asked is None else asked
    return None if pause > _LONGEST_PAUSE else pause


async def _send(upstream: Upstream, call: Call, exchanged: _Exchanged) -> Exchange:
    """Send a request and count it, once more if a pooled connection had been closed."""
    exchanged.attempts += 1
    try:
        return await upstream.client.send(call)
    except StaleConnection:
        exchanged.attempts += 1
        return await upstream.client.send(call)


def _note(upstream: Upstream, status: int, caller: str) -> None:
    """Tell the circuit breaker and the log how an upstream answered."""
    said = f"answered with status {status}"
    if status >= 500:
        upstream.failed(said, _PASSED, caller)
    elif status < 400:
        if upstream.breaker.is_alert or upstream.trouble.is_told:
            upstream.worked()
        else:
            upstream.breaker.answered.append(time.monotonic())
    else:
        upstream.breaker.record_success(time.monotonic())  # it works; it did not like this request
        if is_retryable(status) or refuses_our_key(upstream, status):
            upstream.trouble.failed(said, time.monotonic())


def _own_headers(inbound: Inbound, upstream: Upstream, exchanged: _Exchanged) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-pointsman-upstream", header_value(upstream.spec.name)),
        (b"x-pointsman-attempts", b"%d" % exchanged.attempts),
        (b"x-request-id", request_id(inbound.headers) or exchanged.id.encode()),
    ]


def _headers_down(
    inbound: Inbound, upstream: Upstream, exchange: Exchange, exchanged: _Exchanged
) -> list[tuple[bytes, bytes]]:
    sent = downstream_headers(exchange.headers, upstream.secrets, upstream.relayed.returned)
    sent = [pair for pair in sent if pair[0] not in _NO_PAGE]
    sent += (*_own_headers(inbound, upstream, exchanged), *_NO_PAGE.items())
    # Only who asked once more knows whether that helped; the upstream's advice is for who asked once.
    kept = (b"x-should-retry",) if inbound.scope["method"] not in _IDEMPOTENT else ()
    return sent + [pair for pair in exchange.headers if pair[0] in kept]


async def _relay_error(
    upstream: Upstream, exchange: Exchange, sent: list[tuple[bytes, bytes]], exchanged: _Exchanged, send: Send
) -> int:
    """Send an error of the upstream on, without a secret that it repeats."""
    exchanged.error = "status"
    body = masked(
        await read_at_most(exchange, _ERROR_BYTES, "the upstream's error is too long"), upstream.secrets
    )
    exchanged.bytes_out = len(body)
    sent.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": exchange.status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
    return exchange.status


async def _relay_body(
    upstream: Upstream,
    exchange: Exchange,
    sent: list[tuple[bytes, bytes]],
    exchanged: _Exchanged,
    send: Send,
    made: MadeObject | None = None,
) -> int:
    """Send an answer on while it arrives; one that breaks off is cut off, so that it does not look whole.

    What may say which object was ``made`` is held until it is noted, or too long for that.
    """
    framing = dict(exchange.headers)
    if b"transfer-encoding" not in framing and exchange.status not in _NO_BODY:
        sent += [pair for pair in exchange.headers if pair[0] == b"content-length"]
    await send({"type": "http.response.start", "status": exchange.status, "headers": sent})
    try:
        while part := await exchange.next():
            exchanged.bytes_out += len(part)
            if made is None or (part := made.read(part)):
                await send_pieces(send, part)
        if made is not None and (part := made.end()):
            await send_pieces(send, part)
    except (UpstreamError, CallerError, Overloaded) as error:
        exchanged.error = failure_kind(error) if isinstance(error, UpstreamError) else "refused"
        if isinstance(error, UpstreamError):
            upstream.failed(error.message, _PASSED, exchanged.caller)
        log.warning('an answer of upstream "%s" was cut off: %s', upstream.spec.name, error.message)
        return exchange.status
    await send({"type": "http.response.body", "body": b""})
    return exchange.status


async def _fail(
    inbound: Inbound, upstream: Upstream, error: UpstreamError, exchanged: _Exchanged, send: Send
) -> int:
    """Tell the caller that the upstream has not answered."""
    exchanged.error = kind = failure_kind(error)
    name = upstream.spec.name
    fault = Fault(error.status, f'{error.message} (upstream "{name}")', f"upstream_{kind}")
    sent = _own_headers(inbound, upstream, exchanged)
    if inbound.scope["method"] in _IDEMPOTENT:
        sent.append((b"x-should-retry", b"false"))  # the gateway has tried
    log.warning("%s %s: %s", inbound.scope["method"], _shown(inbound.scope), fault.message)
    return await send_fault(inbound.wire, fault, sent, send)
