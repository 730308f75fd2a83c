"""Relays an upstream's response to the caller, with back-pressure: headers, body, stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from pointsman.errors import Overloaded, UpstreamBusy, UpstreamError, UpstreamTimeout
from pointsman.gateway._attempts import RunningAttempt, UpstreamResponse, hold_event
from pointsman.gateway._failures import Failure, failure_kind
from pointsman.gateway._inbound import Send
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway._response_headers import Headers, answer_lines, downstream_headers, own_headers
from pointsman.gateway._streaming import (
    NO_KEEP_ALIVE,
    DirectSend,
    KeepAlive,
    NoKeepAlive,
    RelayedStream,
    Translating,
    note_usage,
    readers,
    usage_so_far,
    without_usage,
)
from pointsman.gateway.upstream import Target, header_value
from pointsman.upstreams.port import DirectExchange
from pointsman.vocabulary import LARGE
from pointsman.wire import Ending, Fault, Usage, sse
from pointsman.wire.format import Format, error_message
from pointsman.wire.sse import masked, masked_events
from pointsman.wire.translate import translate_error

__all__ = ["AS_JSON", "Ask", "Relay", "relay", "send_body", "send_pieces"]

log = logging.getLogger(__name__)

#: Gets the answer to a request from targets, in order of preference.
Ask: TypeAlias = Callable[[DecidedRequest, Sequence[Target]], Awaitable[UpstreamResponse | Failure]]
#: ``relay`` with whom to ask and how long to be silent.
Relay: TypeAlias = Callable[[DecidedRequest, Sequence[Target], Send], Awaitable[int]]

AS_JSON: Final = (b"content-type", b"application/json")
#: Bytes given to the server at once: what it holds for a caller before it lets the sender wait.
_PIECE: Final = 64 << 10
_CHANGES: Final = 1_000  # characters of what was changed in a translated request


def relay(
    ask: Ask,
    keep_alive: float,
    request: DecidedRequest,
    targets: Sequence[Target],
    send: Send,
) -> Awaitable[int]:
    """Answer a request, and return the status sent. No coroutine itself: every event would go through it.

    Args:
        ask: Gets the answer: ``first_answer``, or by agreement.
        keep_alive: Seconds of silence after which a stream gets a mark that clients ignore; 0: never.
        request: The request.
        targets: The models to ask, in order.
        send: Sends to the caller (ASGI).
    """
    if keep_alive and request.streams:
        return _relay_kept_alive(ask, keep_alive, request, targets, send)
    return _answer(request, ask(request, targets), send)


async def _relay_kept_alive(
    ask: Ask,
    keep_alive: float,
    request: DecidedRequest,
    targets: Sequence[Target],
    send: Send,
) -> int:
    """Relay a stream, with marks while the upstream is silent."""
    alive = KeepAlive(send, request.wire.keep_alive, keep_alive, partial(own_headers, request, None))
    try:
        try:
            result = await ask(request, targets)
        except Overloaded as error:
            if not await alive.answered():
                raise
            fault = Fault(error.status, error.message, "overloaded")
            return await _fail_begun(request, Failure(fault, "busy"), send)
        try:
            has_begun = await alive.answered()
        except asyncio.CancelledError:
            if isinstance(result, UpstreamResponse):
                _left(request, result, (), 0)
                result.exchange.close()
            raise
        if not has_begun:
            return await _answer(request, _known(result), send, alive)
        return await _go_on(request, result, send, alive)
    finally:
        alive.close()


async def _go_on(
    request: DecidedRequest, result: UpstreamResponse | Failure, send: Send, alive: KeepAlive
) -> int:
    """Answer a request whose stream has begun with marks: with events, for any answer of the upstream."""
    if isinstance(result, UpstreamResponse) and not result.is_stream:
        result.attempt.finish(result.exchange.status, "malformed", result.usage)
        message = "the upstream answered a request for a stream with no stream"
        fault = Fault(502, message, "upstream_malformed")
        result = Failure(fault, "malformed", result.attempt.target.upstream)
    if isinstance(result, Failure):
        return await _fail_begun(request, result, send)
    return await _answer(request, _known(result), send, alive)


async def _known(result: UpstreamResponse | Failure) -> UpstreamResponse | Failure:
    return result


async def _answer(
    request: DecidedRequest,
    asking: Awaitable[UpstreamResponse | Failure],
    send: Send,
    alive: KeepAlive | NoKeepAlive = NO_KEEP_ALIVE,
) -> int:
    result = await asking
    if isinstance(result, Failure):
        return await _fail(request, result, own_headers(request, None), send)
    attempt, status = result.attempt, result.exchange.status
    target = request.answered = attempt.target
    if request.left_out or request.decision.reasons:
        request.site.lower_tiers.note(request.pools, request.decision, target, request.left_out)
    keeper = request.keeper if attempt.translated is None else None
    if keeper is not None:
        keeper.begun(result.first)
    if result.is_stream:
        await _begin(request, result, send, alive)
        await _stream(request, result, send, alive)
        return status
    body, error = result.first, ""
    if result.turn is not None:
        request.keep_translated(target, result.turn, (body,))
    elif (watch := request.watch(target)) is not None:
        watch(body)
    lines = b"" if attempt.changes else answer_lines(request, target, result.exchange.headers)
    try:
        if not (
            lines
            and len(body) <= _PIECE
            and isinstance(send, DirectSend)
            and send.whole_lines(status, lines, body)
        ):
            await send_body(send, status, _headers(request, result), body)
    except asyncio.CancelledError:
        error = "disconnect"
        raise
    finally:
        attempt.finish(status, error, result.usage)
    if keeper is not None:
        keeper.completed(target, (body,))
    return status


def _headers(request: DecidedRequest, answer: UpstreamResponse) -> Headers:
    """Return the headers of an answer: the upstream's and the gateway's own."""
    attempt, upstream = answer.attempt, answer.attempt.target.upstream
    sent = downstream_headers(answer.exchange.headers, upstream.secrets, upstream.relayed.returned)
    if request.spending is not None:  # the upstream's limits are the operator's; these are the caller's
        sent = [pair for pair in sent if not pair[0].startswith(b"x-ratelimit-")]
    sent += own_headers(request, attempt.target)
    if attempt.changes:
        sent.append((b"x-pointsman-translated", header_value(attempt.changes, _CHANGES)))
    return sent


async def send_body(send: Send, status: int, sent: Headers, body: bytes) -> None:
    """Send a whole answer."""
    sent.append((b"content-length", b"%d" % len(body)))
    if isinstance(send, DirectSend) and len(body) <= _PIECE and send.whole(status, sent, body):
        return
    await send({"type": "http.response.start", "status": status, "headers": sent})
    if len(body) > _PIECE:
        body = await _send_all_but_last(send, body)
    await send({"type": "http.response.body", "body": body})


async def send_pieces(send: Send, part: bytes) -> None:
    """Send a part of an answer that is not the last."""
    if len(part) > _PIECE:
        part = await _send_all_but_last(send, part)
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def _send_all_but_last(send: Send, body: bytes) -> bytes:
    """Send a body in pieces, each when the caller has taken most of those before; return the last of them."""
    last = (len(body) - 1) // _PIECE * _PIECE
    for start in range(0, last, _PIECE):
        piece = body[start : min(start + _PIECE, last)]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    return body[last:]


async def _send_block(
    attempt: RunningAttempt, send: Send, block: bytes, alive: KeepAlive | NoKeepAlive
) -> None:
    """Send a block of events; a large one in pieces, between which no mark may come."""
    is_large = len(block) > _PIECE
    if is_large:
        await alive.hold()
    await send_pieces(send, block)
    if is_large:
        alive.go_on()
        if (reservation := attempt.request.inbound.reservation) is not None:
            reservation.give_answer()  # others may have its room


def _left(request: DecidedRequest, answer: UpstreamResponse, last: Sequence[bytes], size: int) -> None:
    """Record the usage of an answer with a caller that leaves.

    Args:
        request: The request.
        answer: Of its upstream.
        last: The latest blocks of a stream.
        size: Bytes of all blocks that were read.
    """
    attempt, status = answer.attempt, answer.exchange.status
    if not answer.is_stream:
        attempt.finish(status, "disconnect", answer.usage)
        return
    asked, blocks = len(request.body.raw), [answer.first, *last]
    usage, is_estimated = usage_so_far(attempt.wire, asked, blocks, size or len(answer.first))
    attempt.finish(status, "disconnect", usage, estimated=is_estimated)


async def _begin(
    request: DecidedRequest, answer: UpstreamResponse, send: Send, alive: KeepAlive | NoKeepAlive
) -> None:
    """Send the head of a stream, unless a mark has done so."""
    if alive.has_begun:
        return
    status, sent = answer.exchange.status, _headers(request, answer)
    try:
        await send({"type": "http.response.start", "status": status, "headers": sent})
    except asyncio.CancelledError:
        _left(request, answer, (), 0)
        answer.exchange.close()
        raise


async def _stream(
    request: DecidedRequest, answer: UpstreamResponse, send: Send, alive: KeepAlive | NoKeepAlive
) -> None:
    attempt, exchange = answer.attempt, answer.exchange
    translation, change, watch = readers(request, attempt)
    # A translation hides them itself.
    secrets = attempt.target.upstream.secrets if translation is None else ()
    splitter = answer.splitter or sse.Splitter()
    stream = RelayedStream(splitter, send, alive, change, watch, secrets)
    if change is None and isinstance(exchange, DirectExchange):
        exchange.take = stream.take
    block = answer.first
    error: UpstreamError | None = None
    alive.go_on()
    try:
        while True:
            if block and (block := stream.outgoing(block)) and not stream.piece(block):
                await _send_block(attempt, send, block, alive)
            chunk = await exchange.next()
            if not chunk:
                break
            block = splitter.feed(chunk)
            stream.quiet = 0.0 if b"data" in block else await _wait_on(attempt, splitter, stream.quiet)
    except UpstreamError as broken:
        # With it a cycle of references would keep this frame, and all that it holds of a large event.
        error = broken.with_traceback(None)
    except asyncio.CancelledError:
        _left(request, answer, stream.last, stream.size)
        raise
    finally:
        exchange.close()
        alive.close()
    is_cut = error is not None and len(splitter.pending) > LARGE  # a large part of an event is slow to read
    pending = b"" if is_cut else bytes(splitter.pending)
    blocks = [answer.first, *stream.last]
    note_usage(request, attempt, blocks, pending, stream.size)
    await _end(request, answer, translation, blocks, pending, error, send)


async def _wait_on(attempt: RunningAttempt, splitter: sse.Splitter, since: float) -> float:
    """Keep waiting while only comments and a part of an event have come.

    Args:
        attempt: Of the stream.
        splitter: Holds the part of an event.
        since: When that began, in seconds of a steady clock; 0: now.

    Returns:
        When it began.

    Raises:
        UpstreamTimeout: for longer than it may be.
        UpstreamBusy: the event is large, and the large answers of others leave no room for it.
    """
    now = time.monotonic()
    if since and now - since > attempt.target.upstream.longest_quiet:
        raise UpstreamTimeout("the upstream sent no event for too long")
    try:
        await hold_event(attempt, splitter)
    except Overloaded as full:
        raise UpstreamBusy(full.message) from None
    return since or now


async def _end_translated(
    request: DecidedRequest,
    answer: UpstreamResponse,
    translation: Translating,
    blocks: list[bytes],
    error: UpstreamError | None,
    send: Send,
) -> None:
    """Close a translated stream: its closing marks go out only when the upstream's answer was whole."""
    attempt, closing = answer.attempt, b""
    if error is None:
        try:
            closing = translation.end(blocks[-1])
        except UpstreamError as unreadable:
            error = unreadable.with_traceback(None)
    usage = attempt.wire.end(blocks).usage
    if translation.is_whole or translation.has_failed:
        attempt.finish(answer.exchange.status, "" if translation.is_whole else "status", usage)
    else:
        fault = _broken_off(attempt, answer.exchange.status, error, usage)
        closing += request.wire.error_event(fault, translation.blocks)
    if request.hides_usage:
        closing = without_usage(closing)
    if len(closing) > _PIECE:
        closing = await _send_all_but_last(send, closing)
    await send({"type": "http.response.body", "body": closing})


def _broken_off(attempt: RunningAttempt, status: int, error: UpstreamError | None, usage: Usage) -> Fault:
    """Record that a stream broke off, and return the error for the caller."""
    kind = failure_kind(error) if error else "cut"
    attempt.finish(status, kind, usage)
    message = error.message if error else "the upstream ended the stream before the answer was whole"
    if kind != "busy":  # for want of room in the gateway
        attempt.target.upstream.failed(message, attempt.request.turn.session, attempt.request.turn.caller)
    return Fault(502, message, f"upstream_{kind}")


async def _end(
    request: DecidedRequest,
    answer: UpstreamResponse,
    translation: Translating | None,
    blocks: list[bytes],
    pending: bytes,
    error: UpstreamError | None,
    send: Send,
) -> None:
    """Close a stream: as the upstream did, or with an error event when it did not."""
    if translation is not None:
        await _end_translated(request, answer, translation, [*blocks, pending], error, send)
        return
    wire, attempt = request.wire, answer.attempt
    end = wire.end([*blocks, pending])
    whole = end.ending is Ending.COMPLETE or (end.ending is Ending.SAID and error is None)
    if whole or end.ending is Ending.REFUSED:
        attempt.finish(answer.exchange.status, "" if whole else "status", end.usage)
        # A last event without the blank line after it.
        closing = masked_events(pending, attempt.target.upstream.secrets)
        if request.hides_usage:
            closing = without_usage(closing)
    else:
        fault = _broken_off(attempt, answer.exchange.status, error, end.usage)
        closing = wire.error_event(fault, blocks)
    if len(closing) > _PIECE:
        closing = await _send_all_but_last(send, closing)
    await send({"type": "http.response.body", "body": closing})
    if whole and request.keeper is not None:
        request.keeper.completed(attempt.target, (*blocks, pending))


async def _fail(request: DecidedRequest, failure: Failure, sent: Headers, send: Send) -> int:
    status, fault = failure.fault.status, failure.fault
    body = b""
    if failure.upstream and failure.status == status and not failure.is_operators:
        body = _upstream_error(request.wire, failure, failure.upstream.secrets)
    sent.append(AS_JSON)
    if failure.wait is not None:
        sent.append((b"retry-after", b"%d" % max(round(failure.wait), 1)))
    may_retry = failure.kind in {"status", "held", "rate"} or (failure.limit and failure.limit.is_passing)
    if not may_retry or status >= 500 or failure.is_operators:
        sent.append((b"x-should-retry", b"false"))  # the gateway has tried; a client that does too multiplies
    log.log(
        logging.INFO if failure.kind in {"budget", "rate"} else logging.WARNING,  # the caller's own doing
        "%s answered with status %d after %d attempts: %s",
        request.decision.id,
        status,
        request.attempts,
        failure.why or fault.message,
    )
    await send_body(send, status, sent, body or request.wire.error(fault))
    return status


async def _fail_begun(request: DecidedRequest, failure: Failure, send: Send) -> int:
    """Tell a failure in a stream that has begun: as the event in which the format reports errors."""
    fault, upstream = failure.fault, failure.upstream
    if upstream and failure.status == fault.status and not failure.is_operators:
        told = error_message(_upstream_error(request.wire, failure, upstream.secrets) or b"{}")
        fault = replace(fault, message=told) if told else fault
    why = failure.why or fault.message
    log.warning(
        "%s failed after its stream had begun, in %d attempts: %s", request.decision.id, request.attempts, why
    )
    await send({"type": "http.response.body", "body": request.wire.error_event(fault, ())})
    return fault.status


def _upstream_error(wire: Format, failure: Failure, secrets: Sequence[bytes]) -> bytes:
    """Return the upstream's own error when it has the format's shape; it explains more than the gateway's."""
    body = masked(failure.body, secrets)
    if failure.wire is not None and failure.wire is not wire:
        return translate_error(wire.format, failure.status, body)
    return body if wire.is_error(body) else b""
