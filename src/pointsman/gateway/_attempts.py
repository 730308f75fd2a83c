"""Attempts: tries the models of a request in order, with retries and fallback, until one responds.

Everything here happens before the caller has seen a byte. A whole answer is read to its end and a stream to
its first event before it counts, so that a failure until then can still be retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.errors import (
    CallerError,
    PreviousResponseNotFound,
    Unauthorized,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from pointsman.gateway._request import DecidedRequest, Prepared
from pointsman.gateway._retry import backoff, is_credentials_error, is_retryable, retry_after
from pointsman.gateway.upstream import Target, Upstream
from pointsman.offload import offload
from pointsman.stores.ledger.port import Attempt
from pointsman.upstreams.port import Exchange, Headers
from pointsman.vocabulary import LARGE
from pointsman.wire import Fault, Usage, Wire, sse
from pointsman.wire.signed_turns import SignedTurn
from pointsman.wire.translate import Translated, TranslatedAnswer, translate_answer

__all__ = ["Failure", "RunningAttempt", "UpstreamResponse", "failure_kind", "first_answer", "is_stream"]

#: Attempts of one request over all its models: three tiers with the default retries would make nine.
_MAX_ATTEMPTS: Final = 6
#: Longest pause in seconds for which a request is held before the next model, or the caller, takes over.
_LONGEST_PAUSE: Final = 8.0
#: Failures before an upstream was asked.
_NOT_ASKED: Final = frozenset({"breaker", "credential", "translation"})
#: Failures that are no failures of the upstream.
_NOT_FAILED: Final = frozenset({"busy", "credential", "translation"})


class RunningAttempt:
    """One attempt while it is in progress; becomes a row of the ledger when it is over."""

    __slots__ = ("_started", "_wall", "changes", "first_byte", "number", "request", "target", "translated",
                 "wire")  # fmt: skip

    def __init__(self, request: DecidedRequest, target: Target, prepared: Prepared) -> None:
        request.attempts += 1
        self.wire = prepared.wire  # the upstream's
        self.translated = prepared.translated
        self.changes = prepared.changes
        self.request = request
        self.target = target
        self.number = request.attempts
        self.first_byte: float | None = None  # seconds
        self._wall = time.time()
        self._started = time.perf_counter()

    def got_first_byte(self) -> None:
        """The upstream has begun to answer."""
        self.first_byte = time.perf_counter() - self._started

    def finish(self, status: int, error: str = "", usage: Usage | None = None) -> None:
        """Write the attempt down."""
        model, upstream = self.target.model, self.target.upstream
        spent = usage or Usage()
        self.request.record(
            Attempt(
                decision=self.request.decision.id,
                number=self.number,
                model=model.name,
                upstream=upstream.spec.name,
                status=status,
                error=error,
                started_at=self._wall,
                first_byte_ms=None if self.first_byte is None else self.first_byte * 1e3,
                total_ms=(time.perf_counter() - self._started) * 1e3,
                input_tokens=spent.input,
                cached_tokens=spent.cached,
                output_tokens=spent.output,
                translated=self.changes,
            )
        )


class UpstreamResponse(msgspec.Struct, frozen=True):
    """A successful upstream response: its whole body, or the first events of a stream."""

    attempt: RunningAttempt
    exchange: Exchange
    is_stream: bool
    first: bytes  # the whole body, or a stream's first events
    pending: bytes = b""  # a stream's next event as far as it has come
    usage: Usage = Usage()
    turn: SignedTurn | None = None  # of a whole translated answer


class Failure(msgspec.Struct, frozen=True):
    """One try failed, or could not be made."""

    fault: Fault
    kind: str  # as the ledger's ``Attempt.error``, or one of ``_NOT_ASKED``
    upstream: Upstream | None = None
    status: int = 0  # as the upstream answered; 0 when it did not
    headers: Headers = ()
    body: bytes = b""
    wire: Wire | None = None  # of the body
    retry: bool = True  # the same request may succeed later
    fall_back: bool = True  # another model may serve it
    wait: float | None = None  # seconds the upstream asked for


async def first_answer(request: DecidedRequest, targets: Sequence[Target]) -> UpstreamResponse | Failure:
    """Try each model in order, each several times, until one answers or the attempts are used up."""
    failure: Failure | None = None
    for target in targets:
        result = await _try_model(request, target)
        if isinstance(result, UpstreamResponse):
            return result
        # What an upstream said explains more than that the next one was not asked.
        failure = result if failure is None or result.kind not in _NOT_ASKED else failure
        if not result.fall_back or request.attempts >= _MAX_ATTEMPTS:
            break
    assert failure is not None, "a request has at least one target"  # noqa: S101 - ``LiveState.candidates`` refuses
    return failure


async def _try_model(request: DecidedRequest, target: Target) -> UpstreamResponse | Failure:
    spec, breaker = target.upstream.spec, target.upstream.breaker
    most = 1 if request.client_is_retrying else 1 + spec.retries
    for number in range(1, most + 1):
        if breaker.failures and (wait := breaker.seconds_to_wait(time.monotonic())):
            return _circuit_open(target.upstream, wait)
        result = await _try(request, target)
        if isinstance(result, UpstreamResponse):
            if breaker.failures:
                breaker.record_success()
            return result
        if result.kind == "status" and result.status < 500:
            breaker.record_success()  # it works; it did not like this request
        elif result.kind not in _NOT_FAILED:
            breaker.record_failure(time.monotonic())
        pause = backoff(number) if result.wait is None else result.wait
        if number == most or request.attempts >= _MAX_ATTEMPTS:
            return result
        if not result.retry or pause > _LONGEST_PAUSE:
            return result
        await asyncio.sleep(pause)
    raise AssertionError("the last try returns")


async def _try(request: DecidedRequest, target: Target) -> UpstreamResponse | Failure:
    try:
        prepared = await request.prepare(target)
    except Unauthorized as error:
        return _without_credential(target, error)
    except CallerError as error:
        return _untranslatable(target, error)
    attempt = RunningAttempt(request, target, prepared)
    upstream = target.upstream
    try:
        exchange = await upstream.client.send(prepared.call)
    except UpstreamError as error:
        return _connection_failure(attempt, error)
    except asyncio.CancelledError:
        attempt.finish(0, "disconnect")
        raise
    try:
        attempt.got_first_byte()
        result = await _read(attempt, exchange)
    except UpstreamError as error:
        result = _connection_failure(attempt, error, exchange.status)
    except BaseException:
        attempt.finish(exchange.status, "disconnect")
        exchange.close()
        raise
    if isinstance(result, Failure) or not result.is_stream:
        exchange.close()
    return result


async def _read(attempt: RunningAttempt, exchange: Exchange) -> UpstreamResponse | Failure:
    status = exchange.status
    if not 200 <= status < 300:
        return _status_failure(attempt, exchange, await exchange.read())
    if is_stream(exchange):
        return await _first_event(attempt, exchange)
    body = await exchange.read()
    turn = None
    try:
        usage = attempt.wire.usage(body)
        if attempt.translated is not None:
            if attempt.wire.is_error(body):  # some say so with status 200
                return _status_failure(attempt, exchange, body, 502)
            body, turn = await _translated(attempt.translated, body)
    except UNREADABLE:
        attempt.finish(status, "malformed")
        return Failure(
            Fault(
                502,
                f"the upstream's answer is not {_what(attempt)}",
                "upstream_malformed",
            ),
            "malformed",
            attempt.target.upstream,
        )
    return UpstreamResponse(attempt, exchange, is_stream=False, first=body, usage=usage, turn=turn)


def _what(attempt: RunningAttempt) -> str:
    return f"an answer of the format {attempt.wire.format}" if attempt.translated else "JSON"


async def _translated(request: Translated, body: bytes) -> TranslatedAnswer:
    """Translate a whole answer back."""
    work = partial(translate_answer, request, body)
    return work() if len(body) <= LARGE else await offload(len(body), work)


def is_stream(exchange: Exchange) -> bool:
    """Whether an upstream answers with a stream of events."""
    for name, value in exchange.headers:
        if name == b"content-type":
            return value.startswith(b"text/event-stream")
    return False


async def _first_event(attempt: RunningAttempt, exchange: Exchange) -> UpstreamResponse | Failure:
    """Wait for the first event. Comments that only keep the connection alive wait with it."""
    block, pending = b"", b""
    while True:
        chunk = await exchange.next()
        if not chunk:
            raise UpstreamError("the upstream ended the stream before its first event")
        more, pending = sse.whole(pending, chunk)
        block += more
        if any(sse.data(event) for event in sse.events(block)):
            break
    status = attempt.wire.refusal(block)
    if status is None:
        return UpstreamResponse(attempt, exchange, is_stream=True, first=block, pending=pending)
    refused_key = _refuses_our_key(attempt.target.upstream, status)
    if status < 500 and not is_retryable(status) and not refused_key:
        return UpstreamResponse(
            attempt, exchange, is_stream=True, first=block, pending=pending
        )  # the caller's own doing
    attempt.finish(exchange.status, "status")
    fault = Fault(502, "the upstream began its answer with an error", "upstream_error")
    return Failure(fault, "status", attempt.target.upstream, status, retry=not refused_key)


def failure_kind(error: UpstreamError) -> str:
    """Return the class of a failure, as the ledger names it."""
    if isinstance(error, UpstreamTimeout):
        return "timeout"
    if isinstance(error, UpstreamBusy):
        return "busy"
    return "connect" if isinstance(error, UpstreamUnavailable) else "cut"


def _connection_failure(attempt: RunningAttempt, error: UpstreamError, status: int = 0) -> Failure:
    kind = failure_kind(error)
    attempt.finish(status, kind)
    name = attempt.target.upstream.spec.name
    fault = Fault(error.status, f'{error.message} (upstream "{name}")', f"upstream_{kind}")
    # A request that timed out may have cost its whole answer already, and one that found all connections in
    # use has waited for one: another model, not the same again.
    return Failure(fault, kind, attempt.target.upstream, retry=kind not in {"timeout", "busy"})


def _status_failure(
    attempt: RunningAttempt, exchange: Exchange, body: bytes, status: int | None = None
) -> Failure:
    upstream, status = attempt.target.upstream, status or exchange.status
    attempt.finish(exchange.status, "status")
    name = upstream.spec.name
    credentials = _refuses_our_key(upstream, status)
    retryable = is_retryable(status)
    if credentials:
        fault = Fault(502, f'upstream "{name}" refuses the key it is configured with', "upstream_refused_key")
    elif 300 <= status < 400:
        fault = Fault(502, f'upstream "{name}" redirects; name its final address', "upstream_redirect")
    else:
        fault = Fault(status, f'upstream "{name}" answered with status {status}', "upstream_error")
    return Failure(
        fault,
        "status",
        upstream,
        status,
        exchange.headers,
        body,
        attempt.wire,
        retry=retryable and dict(exchange.headers).get(b"x-should-retry") != b"false",
        fall_back=retryable or credentials or status < 400,
        wait=retry_after(exchange.headers),
    )


def _refuses_our_key(upstream: Upstream, status: int) -> bool:
    """Whether the operator's key was refused: a credential of the caller's own is the caller's business."""
    return is_credentials_error(status) and not upstream.forwards_auth


def _without_credential(target: Target, error: Unauthorized) -> Failure:
    message = f'{error.message} (upstream "{target.upstream.spec.name}"); {error.hint}'
    return Failure(
        Fault(error.status, message, "invalid_api_key"), "credential", target.upstream, retry=False
    )


def _untranslatable(target: Target, error: CallerError) -> Failure:
    hint = f"; {error.hint}" if error.hint else ""
    unknown = isinstance(error, PreviousResponseNotFound)
    code = "previous_response_not_found" if unknown else "untranslatable"
    fault = Fault(error.status, f"{error.message}{hint}", code, error.param)
    return Failure(fault, "translation", target.upstream, retry=False)


def _circuit_open(upstream: Upstream, wait: float) -> Failure:
    name = upstream.spec.name
    fault = Fault(503, f'the circuit breaker of upstream "{name}" is open', "upstream_unavailable")
    return Failure(fault, "breaker", upstream, wait=wait)
