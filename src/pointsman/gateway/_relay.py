"""Relays an upstream's response to the caller, with back-pressure: headers, body, stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pointsman.decision.decision import Decision
from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.gateway._attempts import RunningAttempt, UpstreamResponse, first_answer
from pointsman.gateway._failures import Failure, failure_kind
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway._translating import KEPT, Translating, translating
from pointsman.gateway._usage_so_far import usage_so_far
from pointsman.gateway.upstream import Target, header_value
from pointsman.upstreams import port
from pointsman.upstreams.relayed_headers import HeaderNames, name_down
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Ending, Fault, Usage, sse
from pointsman.wire.base import Wire
from pointsman.wire.masking import masked, masked_events
from pointsman.wire.translate import translate_error

__all__ = [
    "Headers",
    "Send",
    "downstream_headers",
    "relay",
    "request_id",
    "response_headers",
    "send_body",
    "send_pieces",
]

log = logging.getLogger(__name__)

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", b"application/json")
#: Bytes given to the server at once: what it holds for a caller before it lets the sender wait.
_PIECE: Final = 64 << 10

_SELECTED: Final = 1_000  # characters of the names of capabilities in a header
_REQUEST_ID: Final = 128  # characters of a caller's request id that are kept


async def relay(
    request: DecidedRequest,
    targets: Sequence[Target],
    build_headers: Callable[[Target | None], Headers],
    send: Send,
) -> int:
    """Answer a request from the first target that answers, and return the status sent.

    ``build_headers`` returns the gateway's own headers, once it is known which model answered.
    """
    result = await first_answer(request, targets)
    if isinstance(result, Failure):
        return await _fail(request, result, build_headers(None), send)
    attempt = result.attempt
    request.answered_by = attempt.target.model.name
    if (request.left_out or request.is_lowered) and request.on_answer is not None:
        request.on_answer(attempt.target, request.left_out)
    sent = _headers(request, result, build_headers)
    status = result.exchange.status
    if attempt.translated is None and request.on_begin is not None:
        request.on_begin(result.first)
    if result.is_stream:
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await _stream(request, result, send)
    else:
        error = ""
        if result.turn is not None:
            request.keep_translated(attempt.target, result.turn, (result.first,))
        elif (watch := request.watch(attempt.target)) is not None:
            watch(result.first)
        try:
            await send_body(send, status, sent, result.first)
        except asyncio.CancelledError:
            error = "disconnect"
            raise
        finally:
            attempt.finish(status, error, result.usage)
        if attempt.translated is None and request.on_complete is not None:
            request.on_complete(attempt.target, (result.first,))
    return status


def _headers(
    request: DecidedRequest,
    answer: UpstreamResponse,
    build_headers: Callable[[Target | None], Headers],
) -> Headers:
    """Return the headers of an answer: the upstream's and the gateway's own."""
    attempt, upstream = answer.attempt, answer.attempt.target.upstream
    sent = downstream_headers(answer.exchange.headers, upstream.secrets, upstream.returned)
    if request.spending is not None:  # the upstream's limits are the operator's; these are the caller's
        sent = [pair for pair in sent if not pair[0].startswith(b"x-ratelimit-")]
    sent += build_headers(attempt.target)
    if attempt.changes:
        sent.append((b"x-pointsman-translated", header_value(attempt.changes)))
    return sent


async def send_body(send: Send, status: int, sent: Headers, body: bytes) -> None:
    """Send a whole answer."""
    sent.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": sent})
    if len(body) > _PIECE:
        body = await _send_all_but_last(send, body)
    await send({"type": "http.response.body", "body": body})


async def send_pieces(send: Send, part: bytes) -> None:
    """Send a part of an answer of which more is to come."""
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


async def _stream(request: DecidedRequest, answer: UpstreamResponse, send: Send) -> None:
    attempt, exchange = answer.attempt, answer.exchange
    last: deque[bytes] = deque(maxlen=KEPT)
    block, splitter = answer.first, answer.splitter or sse.Splitter()
    error: UpstreamError | None = None
    quiet = 0.0  # since when only comments and parts of an event have come, in seconds of a steady clock
    longest = attempt.target.upstream.longest_quiet
    keep, receive, split = last.append, exchange.next, splitter.feed
    secrets = attempt.target.upstream.secrets
    translation = translating(attempt.translated, partial(request.keep_translated, attempt.target), secrets)
    read = translation.feed if translation else _without_secrets(request.watch(attempt.target), secrets)
    size = 0  # bytes of whole events so far
    try:
        while True:
            if block:
                keep(block)
                size += len(block)
                if read is not None:
                    block = read(block)
            if block:
                if len(block) > _PIECE:
                    block = await _send_all_but_last(send, block)
                await send({"type": "http.response.body", "body": block, "more_body": True})
            chunk = await receive()
            if not chunk:
                break
            block = split(chunk)
            quiet = _quiet_since(quiet, block, longest)
    except UpstreamError as broken:
        error = broken
    except asyncio.CancelledError:
        asked, blocks = len(request.body.raw), [answer.first, *last]
        usage, is_estimated = usage_so_far(attempt.wire, asked, blocks, size)
        attempt.finish(exchange.status, "disconnect", usage, estimated=is_estimated)
        raise
    finally:
        exchange.close()
    pending = bytes(splitter.pending)
    if attempt.hold is not None:
        blocks = [answer.first, *last, pending]
        attempt.hold.so_far = usage_so_far(attempt.wire, len(request.body.raw), blocks, size)[0]
    await _end(request, answer, translation, [answer.first, *last], pending, error, send)


def _quiet_since(since: float, block: bytes, longest: float) -> float:
    """Return since when only comments and parts of an event have come; 0 when a block holds more.

    Raises:
        UpstreamTimeout: for longer than it may be.
    """
    if b"data" in block:
        return 0.0
    now = time.monotonic()
    if since and now - since > longest:
        raise UpstreamTimeout("the upstream sent no event for too long")
    return since or now


def _without_secrets(
    watch: Callable[[bytes], bytes] | None, secrets: Sequence[bytes]
) -> Callable[[bytes], bytes] | None:
    """Return what a block that is not translated goes through: its watch, and no secret in an error."""
    if not secrets:
        return watch

    def read(block: bytes) -> bytes:
        told = watch(block) if watch is not None else block
        return masked_events(told, secrets) if b"error" in told else told

    return read


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
            error = unreadable
    usage = attempt.wire.end(blocks).usage
    if translation.is_whole or translation.has_failed:
        attempt.finish(answer.exchange.status, "" if translation.is_whole else "status", usage)
    else:
        fault = _broken_off(attempt, answer.exchange.status, error, usage)
        closing += request.wire.error_event(fault, translation.blocks)
    if len(closing) > _PIECE:
        closing = await _send_all_but_last(send, closing)
    await send({"type": "http.response.body", "body": closing})


def _broken_off(attempt: RunningAttempt, status: int, error: UpstreamError | None, usage: Usage) -> Fault:
    """Write down that a stream broke off, and return what the caller is told."""
    kind = failure_kind(error) if error else "cut"
    attempt.finish(status, kind, usage)
    message = error.message if error else "the upstream ended the stream before the answer was whole"
    attempt.target.upstream.failed(message, attempt.request.session, attempt.request.caller)
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
    else:
        fault = _broken_off(attempt, answer.exchange.status, error, end.usage)
        closing = wire.error_event(fault, blocks)
    if len(closing) > _PIECE:
        closing = await _send_all_but_last(send, closing)
    await send({"type": "http.response.body", "body": closing})
    if whole and request.on_complete is not None:
        request.on_complete(attempt.target, (*blocks, pending))


async def _fail(request: DecidedRequest, failure: Failure, sent: Headers, send: Send) -> int:
    status, fault = failure.fault.status, failure.fault
    body = b""
    if failure.upstream and failure.status == status:
        body = _upstream_error(request.wire, failure, failure.upstream.secrets)
    sent.append(_JSON)
    if failure.wait is not None:
        sent.append((b"retry-after", b"%d" % max(round(failure.wait), 1)))
    if failure.kind not in {"status", "held", "rate"} or status >= 500:
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


def _upstream_error(wire: Wire, failure: Failure, secrets: Sequence[bytes]) -> bytes:
    """Return the upstream's own error when it has the format's shape; it explains more than the gateway's."""
    body = masked(failure.body, secrets)
    if failure.wire is not None and failure.wire is not wire:
        return translate_error(wire.format, failure.status, body)
    return body if wire.is_error(body) else b""


def downstream_headers(
    sent: port.Headers, secrets: Sequence[bytes], returned: HeaderNames | None = None
) -> Headers:
    """Return what of an upstream's headers goes to the caller, without any that repeats a secret.

    Args:
        sent: The upstream's headers.
        secrets: What none may hold.
        returned: Those that this upstream is configured to return besides.
    """
    passed = [(new, value) for name, value in sent if (new := name_down(name))]
    if returned is not None:
        passed += [pair for pair in sent if not name_down(pair[0]) and pair[0] in returned]
    if nominated := [value for name, value in sent if name == b"connection"]:  # headers of this connection
        hops = {each.strip().lower() for value in nominated for each in value.split(b",")}
        passed = [pair for pair in passed if pair[0] not in hops]
    for secret in secrets:
        passed = [pair for pair in passed if secret not in pair[1]]
    return passed


def response_headers(
    decision: Decision,
    target: Target | None,
    attempts: int,
    overhead: float,
    headers: Mapping[bytes, bytes],
    debug: AgentRequest | None,
    left_out: Sequence[tuple[Target, Failure]] = (),
) -> Headers:
    """Build the ``x-pointsman-*`` response headers, and ``x-request-id``.

    Args:
        decision: What was decided.
        target: The model that answered, if one did.
        attempts: How many tries that took.
        overhead: Seconds from the request's arrival to the first try.
        headers: The caller's headers, by name.
        debug: The request, when the caller asked for more with ``x-pointsman-debug: 1``.
        left_out: The models that did not answer, and why.
    """
    tier = decision.tier
    own: Headers = [
        (b"x-pointsman-tier", tier.tier.encode() if tier else b"none"),
        (b"x-pointsman-decision-id", decision.id.encode()),
        (b"x-pointsman-overhead-ms", b"%.2f" % (overhead * 1e3)),
        (b"x-pointsman-attempts", b"%d" % attempts),
    ]
    if target is not None:
        own.append((b"x-pointsman-model", target.shown))
    own.append((b"x-request-id", request_id(headers) or decision.id.encode()))
    if debug is not None:
        own += _debug_headers(decision, debug, left_out)
    return own


def request_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the id that a caller gave its request; empty when it gave none that can be sent back."""
    asked = headers.get(b"x-request-id", b"")
    return asked[:_REQUEST_ID] if asked.isascii() else b""


def _guidance(decision: Decision) -> str:
    guidance = decision.guidance
    if guidance is None or not guidance.firings:
        return ""
    fired = ", ".join(firing.classifier for firing in guidance.firings)
    return f"{fired}; {guidance.arm}; {guidance.firings[0].rung}"


def _capabilities(decision: Decision) -> str:
    """The names selected, cut: an agent may offer hundreds of tools."""
    selected = decision.capabilities
    if selected is None:
        return ""
    names = " ".join(selected.selected)
    shown = names if len(names) <= _SELECTED else names[:_SELECTED].rpartition(" ")[0] + " ..."
    return f"bypass; {shown}" if selected.bypass else shown


def _debug_headers(
    decision: Decision, request: AgentRequest, left_out: Sequence[tuple[Target, Failure]]
) -> Headers:
    tier = decision.tier
    shown = {
        "session": request.session,
        "left-out": "; ".join(f"{target.model.name}: {failure.kind}" for target, failure in left_out),
        "policy": decision.policy,
        "chain": " ".join(decision.chain),
        "parameters": "; ".join(f"{model}: {given}" for model, given in decision.parameters.items()),
        "decide-us": f"{decision.elapsed_us:.0f}",
        "domains": decision.domains.signature if decision.domains else "",
        "domains-rule": decision.domains.rule if decision.domains else "",
        "guidance": _guidance(decision),
        "capabilities": _capabilities(decision),
        "reasons": "; ".join(reason.code for reason in decision.reasons),
        "abstained": "; ".join(reason.code for reason in decision.abstained),
    }
    if tier:
        shown |= {
            "score": f"{tier.score:.4f}",
            "confidence": f"{tier.confidence:.4f}",
            "stage": tier.stage,
            "signals": "; ".join(tier.signals),
        }
    return [(f"x-pointsman-{name}".encode(), header_value(text)) for name, text in shown.items() if text]
