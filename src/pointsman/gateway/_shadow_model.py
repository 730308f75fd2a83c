"""The shadow model: it gets a share of the requests after the caller's answer, in the background.

It has no part in the answer and none in later decisions: it is tried once, counts for no circuit breaker, and
is bounded in number, rate and money. Its answer is thrown away; only a ``ShadowAnswer`` is stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final

import msgspec

from pointsman.access import Hold
from pointsman.config import ShadowSpec
from pointsman.decision.decision import Decision, TextMode
from pointsman.decision.permission import is_permitted
from pointsman.decoding import UNREADABLE
from pointsman.errors import CallerError, LimitReached, StoreUnavailable, UpstreamError
from pointsman.gateway._attempts import is_stream
from pointsman.gateway._failures import failure_kind
from pointsman.gateway._inbound import Send
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway.upstream import Target
from pointsman.model_choice.fitness import BYTES_PER_TOKEN, Requirements, lacks
from pointsman.stores.ledger.port import ShadowAnswer
from pointsman.stores.ledger.redact import kept_text
from pointsman.text.extract import draw
from pointsman.upstreams.port import Call, read_at_most
from pointsman.upstreams.port import send as send_call
from pointsman.vocabulary import DAY, ModelSpec
from pointsman.wire import Body, Ending, Format, Usage
from pointsman.wire.format import CompletionSummary

__all__ = ["ShadowModel", "ShadowUsage", "unfit"]

log = logging.getLogger(__name__)

#: Bytes of an answer that are looked at: some 30,000 tokens as a stream, with their wrapping. Few are longer.
_LONGEST: Final = 8 << 20
_MINUTE: Final = 60.0
#: Members with which a request does more than ask: it adds to a conversation that the provider keeps, goes on
#: from an answer that only one provider has, works on after its answer, or reaches out from there.
_EFFECTS: Final = ("conversation", "previous_response_id", "background", "container", "mcp_servers")

#: How a stream that did not end well is named.
_FAILED: Final = {Ending.CUT: "cut", Ending.REFUSED: "status"}


#: How failures are charged to the caller's key: the first was not sent, the second may go on.
_CHARGED: Final = {"translation": "connect", "cancelled": "disconnect"}


class _Tool(msgspec.Struct, gc=False):
    type: str = ""


#: Counted instead of an answer.
_NO_BUDGET: Final = "skipped: budget"
_UNKNOWN: Final = Usage()
_NOTHING: Final = CompletionSummary()
_decode_tools: Final = msgspec.json.Decoder(list[_Tool] | None).decode


class _CapturedResponse:
    """Passes a sampled request's response on to the caller, and copies it."""

    def __init__(
        self, request: DecidedRequest, send: Send, then: Callable[[_CapturedResponse], None]
    ) -> None:
        self.request = request
        self._send = send
        self._then = then
        self._parts: list[bytes] = []
        self._size = 0
        self._succeeded = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send to the caller (ASGI)."""
        await self._send(message)
        if message["type"] == "http.response.start":
            self._succeeded = 200 <= message["status"] < 300
            return
        part = message["body"]
        self._size += len(part)
        if self._size <= _LONGEST:
            self._parts.append(part)
        else:
            self._parts.clear()
        if self._succeeded and not message.get("more_body"):
            self._then(self)

    @property
    def body(self) -> bytes | None:
        """The body that the caller got; None if it was too long to store."""
        return b"".join(self._parts) if self._size <= _LONGEST else None


@dataclass(slots=True)
class _ShadowAttempt:
    """One request to the shadow model while it is in progress."""

    began: float  # seconds on a steady clock
    at: float  # seconds since the epoch
    hold: Hold | None = None  # of the limits of the caller's key
    status: int = 0
    error: str = ""
    first_byte: float | None = None  # seconds since it began
    total: float | None = None
    usage: Usage = _UNKNOWN
    said: CompletionSummary = _NOTHING
    text: str | None = None
    beside: CompletionSummary | None = None
    beside_text: str | None = None


class ShadowUsage:
    """Requests in progress and spending of the shadow model; carried over on reload. For one event loop."""

    def __init__(self) -> None:
        self.under_way: set[asyncio.Task[None]] = set()
        self.started: deque[float] = deque()  # within the last minute
        self.day_began = time.monotonic()
        self.spent = 0.0  # since then
        self.stopped = False

    def refuses(self, spec: ShadowSpec, now: float, *, is_priced: bool) -> str:
        """Return why no request may be sent now, within the bounds of ``spec``; empty when one may."""
        started = self.started
        while started and now - started[0] >= _MINUTE:
            started.popleft()
        if now - self.day_began >= DAY:
            self.day_began, self.spent = now, 0.0
        if self.stopped or len(self.under_way) >= spec.concurrent:
            return "busy"
        if len(started) >= spec.per_minute:
            return "rate"
        if spec.money_per_day is None:
            return ""
        return "" if is_priced and self.spent < spec.money_per_day else "money"


class ShadowModel:
    """Takes samples of requests and sends them to one model. For one event loop."""

    def __init__(self, spec: ShadowSpec, target: Target, usage: ShadowUsage) -> None:
        """Prepare to sample.

        Args:
            spec: The share, and its bounds.
            target: The model.
            usage: What counts against the bounds.
        """
        self.usage: Final = usage
        self._spec: Final = spec
        self._target: Final = target

    def stop(self) -> None:
        """Take no more samples, and cancel the requests in progress."""
        self.usage.stopped = True
        for task in self.usage.under_way:
            task.cancel()

    def capture(self, request: DecidedRequest, send: Send) -> Send:
        """Wrap ``send`` so that the response is captured for the shadow model, if the request is sampled.

        The model gets the request once the caller has a successful response.
        """
        try:
            if not _sampled(request.decision, self._spec):
                return send
            is_same = request.decision.chain[:1] == (self._target.model.name,)
            why = "same model" if is_same else unfit(request, self._target)
        except Exception:
            # The caller waits: whatever is wrong with the sampling, the answer goes out as without one.
            log.warning("%s cannot be sampled", request.decision.id, exc_info=True)
            why = "failed"
        if why:
            self._count(request, f"skipped: {why}")
            return send
        return _CapturedResponse(request, send, self._start).send

    def _start(self, sample: _CapturedResponse) -> None:
        now, usage = time.monotonic(), self.usage
        if why := usage.refuses(self._spec, now, is_priced=self._target.model.is_priced):
            self._count(sample.request, f"skipped: {why}")
            return
        usage.started.append(now)
        attempt = _ShadowAttempt(now, time.time())
        task = asyncio.get_running_loop().create_task(self._try(sample, attempt))
        usage.under_way.add(task)
        # A task that is cancelled before its first step runs no line of its own.
        task.add_done_callback(partial(self._ended, sample.request, attempt))

    async def _try(self, sample: _CapturedResponse, attempt: _ShadowAttempt) -> None:
        request = sample.request
        try:
            try:
                attempt.hold = await request.reserve(self._target.model, beside=True)
            except (LimitReached, StoreUnavailable):
                attempt.error = _NO_BUDGET
                return
            await _ask(attempt, request, self._target, self._spec.text)
            await asyncio.to_thread(_compare, attempt, sample, self._spec.text)
        except CallerError:
            attempt.error = "translation"
        except UpstreamError as error:
            attempt.error = failure_kind(error)
        except Exception:
            # No caller waits for it: whatever happens ends here, and is counted as "failed".
            log.warning("the shadow model cannot be asked for %s", request.decision.id, exc_info=True)
            attempt.error = "failed"

    def _ended(self, request: DecidedRequest, attempt: _ShadowAttempt, task: asyncio.Task[None]) -> None:
        """Settle and record an attempt, cancelled ones too."""
        self.usage.under_way.discard(task)
        if task.cancelled():
            attempt.error = "cancelled"
        if attempt.error == _NO_BUDGET:
            self._count(request, attempt.error)
            return
        if attempt.hold is not None:
            request.settle(attempt.hold, _CHARGED.get(attempt.error, attempt.error), attempt.usage)
        self._record(attempt, request)

    def _record(self, attempt: _ShadowAttempt, request: DecidedRequest) -> None:
        model, used = self._target.model, attempt.usage
        total = time.monotonic() - attempt.began if attempt.total is None else attempt.total
        self.usage.spent += _spent(model, attempt)
        self._count(request, attempt.error or "ok")
        request.ledger.append(
            ShadowAnswer(
                decision=request.decision.id,
                at=attempt.at,
                model=model.name,
                upstream=self._target.upstream.spec.name,
                status=attempt.status,
                error=attempt.error,
                first_byte_ms=None if attempt.first_byte is None else attempt.first_byte * 1e3,
                total_ms=total * 1e3,
                input_tokens=used.input,
                cached_tokens=used.cached,
                output_tokens=used.output,
                written_tokens=used.written,
                written_1h_tokens=used.written_1h,
                said=attempt.said,
                text=attempt.text,
                beside=attempt.beside,
                beside_text=attempt.beside_text,
            )
        )

    def _count(self, request: DecidedRequest, result: str) -> None:
        request.site.metrics.count("shadow_answers", self._target.model.name, result)


def _sampled(decision: Decision, spec: ShadowSpec) -> bool:
    """Sample whole sessions, the same for the same seed: a model that sees all of one has its cache warm.

    The key is not that of the control share of guidance, so that the two draws have nothing to do with each
    other.
    """
    return draw("shadow", spec.seed, decision.input.session or decision.id) < spec.share


def unfit(request: DecidedRequest, target: Target) -> str:
    """Why a request cannot be sent to this model too; empty when it can."""
    if target.upstream.spec.forward_auth:
        return "credential"  # the caller's is not for requests that the caller did not send
    sent = request.decision.input
    if (permission := sent.permission) is not None:
        if not is_permitted(target.model.name, permission):
            return "not permitted"
        if permission.priced and not target.model.is_priced:
            return "no price"
    needed = Requirements.of(sent.estimate * BYTES_PER_TOKEN or sent.size, sent.features, sent.format)
    for reason in lacks(target.model, needed):
        return reason.code.rpartition(".")[2]
    if target.upstream.breaker.is_open:
        return "breaker"
    return "effects" if _has_effects(request.body) else ""


def _has_effects(body: Body) -> bool:
    """Whether sending a request again could do more than ask again."""
    if any(bytes(body.member(name) or b"null") not in {b"null", b"false"} for name in _EFFECTS):
        return True
    try:
        tools = _decode_tools(body.member("tools") or b"null")
    except UNREADABLE:
        return True  # of an unknown kind: better not
    return any(tool.type == "mcp" for tool in tools or ())


async def _ask(attempt: _ShadowAttempt, request: DecidedRequest, target: Target, text: TextMode) -> None:
    prepared = await request.prepare(target)
    exchange = await send_call(target.upstream.client, _without_key(prepared.call))
    try:
        attempt.status = exchange.status
        attempt.first_byte = time.monotonic() - attempt.began
        if not 200 <= exchange.status < 300:
            attempt.error = "status"
            return
        body = await read_at_most(exchange, _LONGEST, "the answer is too long to look at")
        attempt.total = time.monotonic() - attempt.began
        # A long answer takes milliseconds to read, during which no caller should wait.
        await asyncio.to_thread(_look, attempt, prepared.wire, body, text, stream=is_stream(exchange))
    finally:
        exchange.close()


def _without_key(call: Call) -> Call:
    """The request as the serving model got it, without the header that would make a provider see one."""
    headers = [pair for pair in call.headers if pair[0] != b"idempotency-key"]
    return msgspec.structs.replace(call, headers=headers)


def _look(attempt: _ShadowAttempt, wire: Format, body: bytes, text: TextMode, *, stream: bool) -> None:
    """Find the usage of an answer, its failure if it failed, and its content."""
    attempt.said, words = wire.completion(body)
    attempt.text = kept_text(words, text)
    if stream:
        end = wire.end([body])
        attempt.usage, attempt.error = end.usage, _FAILED.get(end.ending, "")
        return
    try:
        attempt.usage = wire.usage(body)
    except UNREADABLE:
        attempt.error = "malformed"


def _compare(attempt: _ShadowAttempt, sample: _CapturedResponse, text: TextMode) -> None:
    """Find the content of the caller's answer."""
    body = sample.body
    if body is not None:
        attempt.beside, words = sample.request.wire.completion(body)
        attempt.beside_text = kept_text(words, text)


def _spent(model: ModelSpec, attempt: _ShadowAttempt) -> float:
    """Cost of an attempt against the budget: if usage is unknown, the most that it can have cost.

    Infinite if that is unknown too, without a context window: nothing more is spent that day.
    """
    used, window = attempt.usage, model.context_window
    is_asked = attempt.status // 100 == 2 or attempt.error == "timeout"
    is_free = not model.cost(1, 0, 1)
    if is_asked and not is_free and (used.input is None or used.output is None):
        longest = model.max_output_tokens or window
        return inf if window is None or longest is None else model.cost(window, 0, longest) or 0.0
    return model.cost(*used.priced) or 0.0
