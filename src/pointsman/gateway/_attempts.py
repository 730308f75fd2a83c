"""Attempts: tries the models of a request in order, with retries and fallback, until one responds.

Everything here happens before the caller has seen a byte. A whole answer is read to its end and a stream to
its first event before it counts, so that a failure until then can still be retried.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

import msgspec

from pointsman.access import Hold
from pointsman.decoding import UNREADABLE, decoded_or
from pointsman.errors import (
    CallerError,
    Overloaded,
    StaleConnection,
    UpstreamError,
    UpstreamTimeout,
    UpstreamTooLarge,
)
from pointsman.gateway._failures import (
    Failure,
    backoff,
    connection_failure,
    error_body,
    is_retryable,
    not_sent,
    pass_over,
    refused_key,
    refuses_our_key,
    status_failure,
    together,
    unreadable_answer,
)
from pointsman.gateway._request import DecidedRequest, Prepared
from pointsman.gateway.upstream import Target
from pointsman.offload import offload
from pointsman.stores.ledger.port import NOT_ASKED, Attempt
from pointsman.upstreams.port import Exchange
from pointsman.vocabulary import LARGE
from pointsman.wire import Fault, Usage, sse
from pointsman.wire.reasoning import SignedTurn
from pointsman.wire.translate import Translated, TranslatedAnswer, translate_answer

__all__ = ["RunningAttempt", "UpstreamResponse", "ask_once", "first_answer", "hold_event", "is_stream"]

#: Attempts of one request over all its models: three tiers with the default retries would make nine.
_MAX_ATTEMPTS: Final = 6
#: Longest pause in seconds for which a request is held before the next model, or the caller, takes over.
_LONGEST_PAUSE: Final = 8.0
#: Bytes of comments that may come before the first event; most hosts send some 25 every few seconds.
_MAX_COMMENTS: Final = 64 << 10
#: Failures that are no failures of the upstream.
_NOT_FAILED: Final = frozenset({"busy", "credential", "translation", "budget", "rate"})
#: Digits from which the length of an answer may be a large one's.
_DIGITS: Final = len(str(LARGE))


class RunningAttempt:
    """One attempt while it is in progress; becomes a row of the ledger when it is over."""

    first_byte: float | None = None  # seconds
    room = 0  # bytes of its large answer that are counted
    known: Usage | None = None  # of a large answer that is being translated

    def __init__(
        self, request: DecidedRequest, target: Target, prepared: Prepared, hold: Hold | None = None
    ) -> None:
        """Begin a try; ``hold``: its reservation against the caller's limits."""
        request.attempts += 1
        self.wire = prepared.wire  # the upstream's
        self.translated = prepared.translated
        self.changes = prepared.changes
        self.request = request
        self.target = target
        self.number = request.rows = request.rows + 1
        self.hold = hold
        self._wall = time.time()
        self._started = time.perf_counter()

    def got_first_byte(self) -> None:
        """The upstream has begun to answer."""
        self.first_byte = time.perf_counter() - self._started

    def finish(
        self, status: int, error: str = "", usage: Usage | None = None, *, estimated: bool = False
    ) -> None:
        """Write the attempt down; ``estimated``: the upstream did not tell all of the usage."""
        target = self.target
        spent = usage or Usage()
        if self.hold is not None:
            self.request.settle(self.hold, error, spent, estimated=estimated)
        attempt = Attempt(
            decision=self.request.decision.id,
            number=self.number,
            model=target.model.name,
            upstream=target.upstream.spec.name,
            status=status,
            error=error,
            started_at=self._wall,
            first_byte_ms=None if self.first_byte is None else self.first_byte * 1e3,
            total_ms=(time.perf_counter() - self._started) * 1e3,
            input_tokens=spent.input,
            cached_tokens=spent.cached,
            output_tokens=spent.output,
            estimated=estimated,
            translated=self.changes,
        )
        if spent.written:  # apart: Python passes more than 15 arguments in a dict, which costs 30 steps
            written = {"written_tokens": spent.written, "written_1h_tokens": spent.written_1h}
            attempt = msgspec.structs.replace(attempt, **written)
        self.request.record(attempt)

    def failed(self, failure: Failure, status: int = 0, usage: Usage | None = None) -> Failure:
        """Write the attempt down as one that failed, and return why."""
        self.drop(status, failure.kind, usage)
        return failure

    def drop(self, status: int, error: str, usage: Usage | None = None) -> None:
        """Write the attempt down as one whose answer is not sent; another may have the room of it."""
        self.finish(status, error, usage)
        if self.room and (reservation := self.request.inbound.reservation) is not None:
            reservation.give_answer(self.room)


class UpstreamResponse(msgspec.Struct, frozen=True):
    """A successful upstream response: its whole body, or the first events of a stream."""

    attempt: RunningAttempt
    exchange: Exchange
    is_stream: bool
    first: bytes  # the whole body, or a stream's first events
    splitter: sse.Splitter | None = None  # of a stream
    usage: Usage = Usage()
    turn: SignedTurn | None = None  # of a whole translated answer


async def first_answer(request: DecidedRequest, targets: Sequence[Target]) -> UpstreamResponse | Failure:
    """Try each model in order, each several times, until one answers or the attempts are used up.

    A model that is passed over is tried when no other has answered: a circuit breaker or a ``Retry-After``
    puts an upstream at the end of the chain and never out of it.
    """
    passed_over: list[Target] = []
    for target in targets:
        result = await _try_model(request, target)
        if isinstance(result, UpstreamResponse):
            return result
        _leave_out(request, target, result)
        if not result.fall_back or request.attempts >= _MAX_ATTEMPTS:
            break
        if result.kind in {"breaker", "held"}:
            passed_over.append(target)
    else:
        for target in passed_over:
            if request.attempts >= _MAX_ATTEMPTS:
                break
            result = await _try_last(request, target)
            if isinstance(result, UpstreamResponse):
                return result
            _leave_out(request, target, result)
    # ``LiveState.candidates`` refuses a request without a target.
    return together([failure for _, failure in request.left_out])


async def ask_once(request: DecidedRequest, target: Target) -> UpstreamResponse | Failure:
    """Ask one model once, with no other to fall back on. Its circuit breaker counts it, and is heeded.

    Raises:
        Overloaded: its answer has no room.
        StoreUnavailable: the caller's limits cannot be read.
    """
    return await _try_model(request, target, retries=False)


async def _try_last(request: DecidedRequest, target: Target) -> UpstreamResponse | Failure:
    """Try a model that was passed over, because no other has answered.

    A short ``Retry-After`` is waited for. After a longer one the caller would have left: the upstream itself
    decides whether it still applies.
    """
    request.left_out = tuple(pair for pair in request.left_out if pair[0] is not target)
    if 0.0 < (wait := target.upstream.held(target.model.name)) <= _LONGEST_PAUSE:
        await asyncio.sleep(wait)
    return await _try_model(request, target, is_last=True)


def _leave_out(request: DecidedRequest, target: Target, failure: Failure) -> None:
    """Note why a model does not answer; a model that was not asked gets its row in the ledger here."""
    request.left_out += ((target, failure),)
    if failure.kind in NOT_ASKED:
        request.rows += 1
        request.record(
            Attempt(
                decision=request.decision.id,
                number=request.rows,
                model=target.model.name,
                upstream=target.upstream.spec.name,
                status=0,
                error=failure.kind,
                started_at=time.time(),
                total_ms=0.0,
            )
        )


async def _try_model(
    request: DecidedRequest, target: Target, *, is_last: bool = False, retries: bool = True
) -> UpstreamResponse | Failure:
    upstream, breaker = target.upstream, target.upstream.breaker
    is_troubled = upstream.holds or breaker.is_alert
    if is_troubled and not is_last and (why := pass_over(target, request.turn.session)):
        return why
    began, sent = time.monotonic(), request.attempts
    is_held = bool(upstream.holds)
    upstream.waiting += 1
    try:
        result = await _try(request, target)
        if isinstance(result, Failure):
            result = await _try_again(request, target, result, request.attempts - sent, retries=retries)
    finally:
        upstream.waiting -= 1
    if isinstance(result, Failure):
        _count(request, result, target, began)
        return result
    if is_held:
        upstream.lift(target.model.name)
    elif upstream.limited:
        upstream.limited.pop(target.model.name, None)
    if breaker.is_alert or upstream.trouble.is_told:
        upstream.worked(began)
    else:
        breaker.answered.append(began)
    return result


async def _try_again(
    request: DecidedRequest, target: Target, result: Failure, sent: int, *, retries: bool
) -> UpstreamResponse | Failure:
    """Retry a failed request as often as it may be; a probe of the circuit breaker is not retried.

    A request ``sent`` again because a pooled connection broke counts as a retry.
    """
    upstream = target.upstream
    upstream.asked_to_wait(result.status, result.wait, target.model.name)
    is_probe = upstream.breaker.is_probe(request.turn.session)
    most = 0 if request.client_is_retrying or is_probe or not retries else upstream.spec.retries
    first = request.attempts - sent
    for number in range(1, 1 + most):
        if (left := 1 + most - (request.attempts - first)) <= 0:
            break
        pause = backoff(number) if result.wait is None else result.wait
        is_spent = request.attempts >= _MAX_ATTEMPTS or not upstream.may_retry
        if is_spent or not result.retry or pause > _LONGEST_PAUSE:
            break
        upstream.retrying += 1
        try:
            await asyncio.sleep(pause)
            again = await _try(request, target, may_resend=left > 1)
        finally:
            upstream.retrying -= 1
        if isinstance(again, UpstreamResponse):
            return again
        result = again
        upstream.asked_to_wait(result.status, result.wait, target.model.name)
    return result


def _count(request: DecidedRequest, failure: Failure, target: Target, began: float) -> None:
    """Tell the upstream's circuit breaker, and the log where only the operator or time can help."""
    upstream = target.upstream
    if failure.kind in _NOT_FAILED:
        return
    if failure.kind != "status" or failure.status >= 500:
        # Whatever a request contains, it cannot be why there is no connection.
        session = None if failure.kind == "connect" else request.turn.session
        body, took = hash(request.body.raw), time.monotonic() - began
        upstream.failed(failure.fault.message, session, request.turn.caller, request=body, took=took)
        return
    upstream.breaker.record_success(time.monotonic(), began)  # it works; it did not like this request
    if failure.is_operators or is_retryable(failure.status):
        upstream.trouble.failed(failure.fault.message, time.monotonic())


async def _try(
    request: DecidedRequest, target: Target, *, may_resend: bool = True
) -> UpstreamResponse | Failure:
    try:
        prepared = request.unchanged(target) or await request.prepare(target)
        hold = await request.reserve(target.model) if request.spending is not None else None
    except CallerError as error:  # a credential is missing, a limit reached, or it cannot be translated
        request.count_limit(error)
        return not_sent(target, error)
    attempt = RunningAttempt(request, target, prepared, hold)
    try:
        try:
            exchange = await target.upstream.client.send(prepared.call)
        except StaleConnection:  # sent again at once, and told: the upstream may have read it all the same
            if not may_resend:
                raise
            attempt.hold = None  # what was reserved is for the second sending
            attempt.finish(0, "stale")
            attempt = RunningAttempt(request, target, prepared, hold)
            exchange = await target.upstream.client.send(prepared.call)
    except UpstreamError as error:
        return attempt.failed(connection_failure(target.upstream, error))
    except asyncio.CancelledError:
        attempt.finish(0, "disconnect")
        raise
    try:
        attempt.got_first_byte()
        result = await _read(attempt, exchange)
    except UpstreamError as error:
        error.with_traceback(None)  # the exchange holds the error: what was read would be held in a cycle
        result = attempt.failed(connection_failure(target.upstream, error), exchange.status)
    except BaseException as error:
        attempt.drop(exchange.status, "busy" if type(error) is Overloaded else "disconnect", attempt.known)
        exchange.close()
        raise
    if isinstance(result, Failure) or not result.is_stream:
        exchange.close()
    return result


async def _read(attempt: RunningAttempt, exchange: Exchange) -> UpstreamResponse | Failure:
    status, upstream = exchange.status, attempt.target.upstream
    if not 200 <= status < 300:
        return attempt.failed(
            status_failure(upstream, exchange, attempt.wire, await error_body(exchange)), status
        )
    if is_stream(exchange):
        return await _first_event(attempt, exchange)
    body = await _whole(attempt, exchange)
    turn = None
    try:
        if attempt.translated is None:
            usage = attempt.wire.usage(body)
        elif attempt.wire.is_error(body):  # some say so with status 200
            return attempt.failed(status_failure(upstream, exchange, attempt.wire, body, 502), status)
        else:
            body, turn, usage = await _translated(attempt, attempt.translated, body)
    except UNREADABLE:
        wire = attempt.wire if attempt.translated else None
        usage = decoded_or(Usage(), attempt.wire.usage, body)  # one of too many parts tells it
        return attempt.failed(unreadable_answer(upstream, wire, usage), status, usage)
    return UpstreamResponse(attempt, exchange, is_stream=False, first=body, usage=usage, turn=turn)


def _whole(attempt: RunningAttempt, exchange: Exchange) -> Awaitable[bytes]:
    """Read a whole answer; a large one when the budget of all answers has room for it."""
    framing = dict(exchange.headers)
    declared = framing.get(b"content-length", b"")
    if len(declared) < _DIGITS and declared.isdigit() and b"transfer-encoding" not in framing:
        return exchange.read()
    return _counted(attempt, exchange, framing)


async def _counted(attempt: RunningAttempt, exchange: Exchange, framing: Mapping[bytes, bytes]) -> bytes:
    """Read a whole answer that may be large.

    Raises:
        Overloaded: there is no room.
        UpstreamError: the answer does not come to its end, or is too long.
    """
    reservation = attempt.request.inbound.reservation
    if reservation is None:
        return await exchange.read()
    limit = attempt.target.upstream.spec.answer_bytes
    if b"transfer-encoding" not in framing:
        declared = framing.get(b"content-length", b"")
        if declared.isdigit() and LARGE < (size := int(declared)) <= limit:
            await reservation.take_answer(size)
            attempt.room = size
        return await exchange.read()
    parts, size = [], 0
    while part := await exchange.next():
        parts.append(part)
        size += len(part)
        if size > limit:
            raise UpstreamTooLarge(f"the upstream answered with more than {limit} bytes")
        if size > LARGE:
            reservation.take_of_answer(size - attempt.room)
            attempt.room = size
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _translated(attempt: RunningAttempt, request: Translated, body: bytes) -> TranslatedAnswer:
    """Translate a whole answer back; a large one in another thread, and the caller may leave meanwhile."""
    if len(body) <= LARGE:
        return translate_answer(request, body)
    attempt.known = attempt.wire.usage(body)
    return await offload(len(body), translate_answer, request, body)


def is_stream(exchange: Exchange) -> bool:
    """Whether an upstream answers with a stream of events."""
    for name, value in exchange.headers:
        if name == b"content-type":
            return value.startswith(b"text/event-stream")
    return False


async def hold_event(attempt: RunningAttempt, splitter: sse.Splitter) -> None:
    """Count the unfinished event of a stream, if it is large, among the large answers; wait for room.

    Raises:
        Overloaded: there was none in time.
    """
    reservation, size = attempt.request.inbound.reservation, len(splitter.pending)
    if reservation is not None and size > LARGE:
        await reservation.take_event(size)
        attempt.room = size


async def _first_event(attempt: RunningAttempt, exchange: Exchange) -> UpstreamResponse | Failure:
    """Wait for the first event. Comments and pings of a silent upstream wait with it."""
    spec = attempt.target.upstream.spec
    splitter = sse.Splitter(spec.answer_bytes, spec.stream_bytes)
    held: list[bytes] = []
    comments = 0  # bytes of them
    began = time.monotonic()
    while comments <= _MAX_COMMENTS:
        chunk = await exchange.next()
        if not chunk:
            raise UpstreamError("the upstream ended the stream before its first event")
        held.append(block := splitter.feed(chunk))
        if sse.has_begun(block):
            break
        comments += len(block)
        await hold_event(attempt, splitter)
        if time.monotonic() - began > attempt.target.upstream.longest_quiet:
            raise UpstreamTimeout("the upstream sent only comments for too long")
    else:
        raise UpstreamTooLarge(f"the upstream sent more than {_MAX_COMMENTS} bytes before its first event")
    block = b"".join(held) if len(held) > 1 else block
    status, upstream = attempt.wire.refusal(block), attempt.target.upstream
    is_refused = status is not None and refuses_our_key(upstream, status)
    if status is None or (status < 500 and not is_retryable(status) and not is_refused):  # the caller's doing
        return UpstreamResponse(attempt, exchange, is_stream=True, first=block, splitter=splitter)
    message = f'upstream "{upstream.spec.name}" began its answer with an error'
    fault = refused_key(upstream, status) if is_refused else Fault(502, message, "upstream_error")
    return attempt.failed(Failure(fault, "status", upstream, status, retry=not is_refused), exchange.status)
