"""A second model, on a share of the requests: after the caller's answer, in the background, for the figures.

It has no part in the answer and none in what is decided later: it is tried once, moves no breaker, and keeps
within bounds of number, rate and money. Its answer is thrown away; what is kept is a ``ShadowAnswer``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec

from pointsman.config import ShadowSpec
from pointsman.decision.decision import Decision, TextMode
from pointsman.decision.engine import BYTES_PER_TOKEN
from pointsman.decoding import UNREADABLE
from pointsman.errors import UpstreamError
from pointsman.gateway.attempts import failure_kind, is_stream
from pointsman.gateway.metrics import Metrics
from pointsman.gateway.relay import Send
from pointsman.gateway.request import Request
from pointsman.gateway.upstream import Target
from pointsman.model_choice.fallback import Requirements, lacks
from pointsman.stores.ledger.port import ShadowAnswer
from pointsman.stores.ledger.redact import kept_text
from pointsman.upstreams.port import Call, read_at_most
from pointsman.wire import Body, Ending, Usage, Wire
from pointsman.wire.completion import CompletionSummary, read_completion

__all__ = ["SecondModel"]

log = logging.getLogger(__name__)

#: Bytes of an answer that are looked at: some 30,000 tokens as a stream, with their wrapping. Few are longer.
_LONGEST: Final = 8 << 20
_MINUTE: Final = 60.0
_DAY: Final = 86_400.0
#: Members with which a request does more than ask: it adds to a conversation that the provider keeps, goes on
#: from an answer that only one provider has, works on after its answer, or reaches out from there.
_NOT_TWICE: Final = ("conversation", "previous_response_id", "background", "container", "mcp_servers")

#: How a stream that did not end well is named.
_FAILED: Final = {Ending.CUT: "cut", Ending.REFUSED: "status"}


class _Tool(msgspec.Struct, gc=False):
    type: str = ""


_UNKNOWN: Final = Usage()
_NOTHING: Final = CompletionSummary()
_decode_tools: Final = msgspec.json.Decoder(list[_Tool] | None).decode


class _Sample:
    """A request of the share while it is answered: passes the answer on, and remembers it."""

    def __init__(self, request: Request, send: Send, then: Callable[[_Sample], None]) -> None:
        self.request = request
        self._send = send
        self._then = then
        self._parts: list[bytes] = []
        self._size = 0
        self._answered = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send to the caller (ASGI)."""
        await self._send(message)
        if message["type"] == "http.response.start":
            self._answered = 200 <= message["status"] < 300
            return
        part = message["body"]
        self._size += len(part)
        if self._size <= _LONGEST:
            self._parts.append(part)
        else:
            self._parts.clear()
        if self._answered and not message.get("more_body"):
            self._then(self)

    @property
    def heard(self) -> bytes | None:
        """What the caller was answered; None when that was too long to remember."""
        return b"".join(self._parts) if self._size <= _LONGEST else None


@dataclass(slots=True)
class _Trial:
    """One request to the second model while it is under way."""

    began: float  # seconds on a steady clock
    status: int = 0
    error: str = ""
    first_byte: float | None = None  # seconds since it began
    total: float | None = None
    usage: Usage = _UNKNOWN
    said: CompletionSummary = _NOTHING
    text: str | None = None
    beside: CompletionSummary | None = None
    beside_text: str | None = None


class SecondModel:
    """Takes samples of requests and sends them to one model. For one event loop."""

    def __init__(
        self, spec: ShadowSpec, target: Target, keep: Callable[[ShadowAnswer], None], metrics: Metrics
    ) -> None:
        """Begin with nothing sent.

        Args:
            spec: The share, and its bounds.
            target: The model.
            keep: Writes down what came of a request.
            metrics: Counts answers, and samples that were not sent.
        """
        self._spec = spec
        self._target = target
        self._keep = keep
        self._metrics = metrics
        self._under_way: set[asyncio.Task[None]] = set()
        self._begun: deque[float] = deque()  # within the last minute
        self._day_began = time.monotonic()
        self._spent = 0.0  # since then
        self._ended = False

    def change(self, spec: ShadowSpec, target: Target) -> None:
        """Go on otherwise, from the next sample on; what was spent today stays spent."""
        self._spec, self._target = spec, target

    def end(self) -> None:
        """Take no more samples, and break off what is under way."""
        self._ended = True
        for task in self._under_way:
            task.cancel()

    def listening(self, request: Request, send: Send) -> Send:
        """Return what to answer a request with: ``send``, or for one of the share the same with an ear.

        Once such a request has been answered well, the model gets it too.
        """
        try:
            if not _drawn(request.decision, self._spec):
                return send
            why = _unfit(request, self._target)
        except Exception:
            # The caller waits: whatever is wrong with a trial, the answer goes out as without one.
            log.warning("%s cannot be sampled", request.decision.id, exc_info=True)
            why = "failed"
        if why:
            self._count(f"skipped: {why}")
            return send
        return _Sample(request, send, self._begin).send

    def _begin(self, sample: _Sample) -> None:
        now = time.monotonic()
        if why := self._refuses(now):
            self._count(f"skipped: {why}")
            return
        self._begun.append(now)
        task = asyncio.get_running_loop().create_task(self._try(sample, self._target, now))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _refuses(self, now: float) -> str:
        spec, begun = self._spec, self._begun
        while begun and now - begun[0] >= _MINUTE:
            begun.popleft()
        if now - self._day_began >= _DAY:
            self._day_began, self._spent = now, 0.0
        if self._ended or len(self._under_way) >= spec.concurrent:
            return "busy"
        if len(begun) >= spec.per_minute:
            return "rate"
        return "money" if spec.money_per_day is not None and self._spent >= spec.money_per_day else ""

    async def _try(self, sample: _Sample, target: Target, now: float) -> None:
        request, trial, at = sample.request, _Trial(now), time.time()
        try:
            await _ask(trial, request, target, self._spec.text)
            await asyncio.to_thread(_compare, trial, sample, self._spec.text)
        except UpstreamError as error:
            trial.error = failure_kind(error)
        except asyncio.CancelledError:
            trial.error = "cancelled"
            raise
        except Exception:
            # A request on trial is nobody's: whatever happens to it ends here, and is counted.
            log.warning("the shadow model could not be tried for %s", request.decision.id, exc_info=True)
            trial.error = "failed"
        finally:
            self._keep_answer(trial, sample, target, at)

    def _keep_answer(self, trial: _Trial, sample: _Sample, target: Target, at: float) -> None:
        model, used = target.model, trial.usage
        total = time.monotonic() - trial.began if trial.total is None else trial.total
        self._spent += model.cost(used.input or 0, used.cached or 0, used.output or 0)
        self._count(trial.error or "ok")
        self._keep(
            ShadowAnswer(
                decision=sample.request.decision.id,
                at=at,
                model=model.name,
                upstream=target.upstream.spec.name,
                status=trial.status,
                error=trial.error,
                first_byte_ms=None if trial.first_byte is None else trial.first_byte * 1e3,
                total_ms=total * 1e3,
                input_tokens=used.input,
                cached_tokens=used.cached,
                output_tokens=used.output,
                said=trial.said,
                text=trial.text,
                beside=trial.beside,
                beside_text=trial.beside_text,
            )
        )

    def _count(self, result: str) -> None:
        self._metrics.count("shadow_answers", self._target.model.name, result)


def _drawn(decision: Decision, spec: ShadowSpec) -> bool:
    """Draw whole sessions, the same for the same seed: a model that sees all of one has its cache warm.

    The key is not that of the control share of guidance, so that the two draws have nothing to do with each
    other.
    """
    key = f"shadow\0{spec.seed}\0{decision.session or decision.id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest()) < spec.share * 2**64


def _unfit(request: Request, target: Target) -> str:
    """Why a request is not for this model; empty when it is."""
    decision = request.decision
    if decision.chain[:1] == (target.model.name,):
        return "same model"
    needed = Requirements(decision.size // BYTES_PER_TOKEN, frozenset(decision.features), decision.format)
    for reason in lacks(target.model, needed):
        return reason.code.rpartition(".")[2]
    if target.upstream.breaker.is_open:
        return "breaker"
    return "effects" if _has_effects(request.body) else ""


def _has_effects(body: Body) -> bool:
    """Whether sending a request again could do more than ask again."""
    if any(bytes(body.members.get(name, b"null")) not in {b"null", b"false"} for name in _NOT_TWICE):
        return True
    try:
        tools = _decode_tools(body.members.get("tools", b"null"))
    except UNREADABLE:
        return True  # of an unknown kind: better not
    return any(tool.type == "mcp" for tool in tools or ())


async def _ask(trial: _Trial, request: Request, target: Target, text: TextMode) -> None:
    exchange = await target.upstream.client.send(_call(request, target))
    try:
        trial.status = exchange.status
        trial.first_byte = time.monotonic() - trial.began
        if not 200 <= exchange.status < 300:
            trial.error = "status"
            return
        body = await read_at_most(exchange, _LONGEST, "the answer is too long to look at")
        trial.total = time.monotonic() - trial.began
        # A long answer takes milliseconds to read, during which no caller should wait.
        await asyncio.to_thread(_look, trial, request.wire, body, text, stream=is_stream(exchange))
    finally:
        exchange.close()


def _call(request: Request, target: Target) -> Call:
    """The request as the model that served got it, but for what would make a provider take them for one."""
    call = request.call(target)
    return call._replace(headers=[pair for pair in call.headers if pair[0] != b"idempotency-key"])


def _look(trial: _Trial, wire: Wire, body: bytes, text: TextMode, *, stream: bool) -> None:
    """Find what an answer used, how it failed if it did, and what it amounts to."""
    trial.said, words = read_completion(wire.format, body)
    trial.text = kept_text(words, text)
    if stream:
        end = wire.end([body])
        trial.usage, trial.error = end.usage, _FAILED.get(end.ending, "")
        return
    try:
        trial.usage = wire.usage(body)
    except UNREADABLE:
        trial.error = "malformed"


def _compare(trial: _Trial, sample: _Sample, text: TextMode) -> None:
    """Find what the caller's answer amounts to."""
    heard = sample.heard
    if heard is not None:
        trial.beside, words = read_completion(sample.request.wire.format, heard)
        trial.beside_text = kept_text(words, text)
