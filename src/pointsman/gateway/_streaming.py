"""Streams while they are relayed: keep-alive marks, translation, and the usage known so far.

Marks are sent while an upstream is silent: proxies close an idle connection. Before the first event the
response itself is begun then, so that a later failure of all models is an error event of the stream instead
of an error status. Retries and fallback work as before.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.errors import UpstreamError
from pointsman.gateway._attempts import RunningAttempt
from pointsman.gateway._conversation_memory import Watch
from pointsman.gateway._inbound import Send
from pointsman.gateway._request import DecidedRequest
from pointsman.model_choice.fitness import BYTES_PER_TOKEN
from pointsman.vocabulary import LARGE
from pointsman.wire import Ending, Format, Usage, sse
from pointsman.wire.reasoning import SignedTurn
from pointsman.wire.sse import masked_events
from pointsman.wire.translate import StreamTranslation, Translated

__all__ = [
    "KEPT",
    "NO_KEEP_ALIVE",
    "DirectSend",
    "KeepAlive",
    "NoKeepAlive",
    "OnWhole",
    "RelayedStream",
    "Translating",
    "note_usage",
    "readers",
    "usage_so_far",
    "without_usage",
]

#: Blocks kept from the end of a stream: its closing mark, its usage, its last content, and one to spare.
KEPT: Final = 4


#: Takes a whole answer: its reasoning as only the upstream can check it, its first block and the last few.
OnWhole = Callable[[SignedTurn, Sequence[bytes]], None]


class Translating(StreamTranslation):
    """Translates the blocks of one stream, and retains the first and the last."""

    def __init__(self, request: Translated, on_whole: OnWhole, secrets: Sequence[bytes] = ()) -> None:
        """``on_whole`` is called before the closing marks go out: the caller may then continue at once."""
        super().__init__(request, secrets)
        self._on_whole: OnWhole | None = on_whole
        self._first = b""
        self._last: deque[bytes] = deque(maxlen=KEPT)

    @property
    def blocks(self) -> list[bytes]:
        """The first block that went out, and the last few."""
        return [self._first, *self._last]

    def feed(self, block: bytes) -> bytes:
        """Return the translation of a block of whole events; may be empty.

        Raises:
            UpstreamError: an event cannot be read.
        """
        try:
            return self._keep(super().feed(block))
        except UNREADABLE:
            raise UpstreamError("the upstream sent an event that cannot be read") from None

    def end(self, pending: bytes) -> bytes:
        """Return the rest to send when the upstream has ended the stream well.

        Args:
            pending: A last event without the blank line after it.

        Raises:
            UpstreamError: it cannot be read.
        """
        closing = self.feed(pending + b"\n\n") if pending.strip() else b""
        return closing + self.feed(b"")

    def _keep(self, block: bytes) -> bytes:
        if block:
            self._first = self._first or block
            self._last.append(block)
        if self._on_whole is not None and (turn := self.turn()) is not None:
            self._on_whole(turn, self.blocks)
            self._on_whole = None
        return block


_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class DirectSend:
    """A server's own ``Send``, with shortcuts to its transport.

    Each does nothing, and returns False or None, if the steps of the server are needed.
    """

    def __call__(self, message: Any) -> Awaitable[None]:
        """Send a part of an answer (ASGI)."""
        raise NotImplementedError

    def take_body(self) -> bytes | None:
        """Return the request's body if all of it has come and none was taken."""
        raise NotImplementedError

    def whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer, with its length as the last header."""
        raise NotImplementedError

    def whole_lines(self, status: int, lines: bytes, body: bytes) -> bool:
        """Do as ``whole`` for the answer to a POST, with its headers as well-formed lines."""
        raise NotImplementedError

    def piece(self, body: bytes) -> bool:
        """Send a part of a stream, not empty and not the last."""
        raise NotImplementedError


class KeepAlive:
    """Sends a mark whenever a stream has sent nothing for some seconds, and only between whole events."""

    __slots__ = ("_headers", "_idle", "_loop", "_mark", "_period", "_send", "_timer", "has_begun", "has_sent",
                 "is_waiting", "sending")  # fmt: skip

    def __init__(
        self, send: Send, mark: bytes, seconds: float, headers: Callable[[], list[tuple[bytes, bytes]]]
    ) -> None:
        """Begin to watch.

        Args:
            send: Sends to the caller (ASGI).
            mark: To send: a comment or an event that clients ignore.
            seconds: Of silence after which it is sent, at most; half of that at least.
            headers: Returns the gateway's headers, if the response begins before an upstream answers.
        """
        self._send = send
        self._mark = mark
        self._headers = headers
        self._period = seconds / 2
        self._idle = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._period, self._tick)
        self.has_begun = False  # the response has begun
        self.has_sent = False  # since the last look
        self.is_waiting = True  # for the upstream: no event is being sent
        self.sending: asyncio.Task[None] | None = None

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._period, self._tick)
        if self.has_sent or not self.is_waiting:
            self.has_sent, self._idle = False, 0
            return
        self._idle += 1
        if self._idle > 1 and self.sending is None:
            self._idle = 0
            self.sending = self._loop.create_task(self._beat())

    async def _beat(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            headers = [*_STREAM, *self._headers()]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": self._mark, "more_body": True})
        self.sending = None

    def go_on(self) -> None:
        """Send marks again, now that the response has begun."""
        self.has_begun = self.is_waiting = True

    async def hold(self) -> None:
        """Send no mark until ``go_on``."""
        self.is_waiting = False
        if self.sending is not None:
            await self.sending

    async def answered(self) -> bool:
        """Hold marks back until the stream resumes; return whether the response has begun."""
        await self.hold()
        return self.has_begun

    def close(self) -> None:
        """Send no more."""
        self._timer.cancel()
        if self.sending is not None:
            self.sending.cancel()


class NoKeepAlive:
    """A ``KeepAlive`` that is switched off: sends nothing. One for all streams."""

    has_begun = False
    has_sent = False

    def go_on(self) -> None:
        """Nothing was held."""

    async def hold(self) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """Nothing is open."""


NO_KEEP_ALIVE: Final = NoKeepAlive()


def _not(*_: object) -> bool:
    """Do nothing, in place of a shortcut of ``DirectSend``."""
    return False


class RelayedStream:
    """What of a stream has gone to the caller, and what goes there without waking a task."""

    __slots__ = ("_alive", "_change", "_secrets", "_splitter", "_watch", "last", "piece", "quiet", "size")

    def __init__(
        self,
        splitter: sse.Splitter,
        send: Send,
        alive: KeepAlive | NoKeepAlive,
        change: Callable[[bytes], bytes] | None,
        watch: Watch | None,
        secrets: Sequence[bytes],
    ) -> None:
        """Begin with nothing.

        Args:
            splitter: Of the upstream's bytes.
            send: Sends to the caller (ASGI).
            alive: Is told of everything that is sent.
            change: Returns what the caller gets instead of a block of events.
            watch: Reads each block.
            secrets: Are masked in errors.
        """
        self.last: deque[bytes] = deque(maxlen=KEPT)
        self.size = 0  # bytes of whole events so far
        self.quiet = 0.0  # since when only comments and parts of an event have come; of a steady clock
        self.piece = send.piece if isinstance(send, DirectSend) else _not
        self._splitter = splitter
        self._alive = alive
        self._change = change
        self._watch = watch
        self._secrets = secrets

    def outgoing(self, block: bytes) -> bytes:
        """Return what the caller gets of a block of whole events; may be empty.

        Raises:
            UpstreamError: an event cannot be read.
        """
        if b"data" in block:  # else comments, which would push usage and the closing mark out of ``last``
            self._note(block)
        if self._change is not None:
            block = self._change(block)
        if self._secrets and b"error" in block:
            block = masked_events(block, self._secrets)
        if block:
            self._alive.has_sent = True
        return block

    def take(self, chunk: bytes) -> bool:
        """Send bytes of a stream that is not changed when they arrive; False if more has to be done."""
        splitter = self._splitter
        if (
            not splitter.is_whole(chunk)
            or b"data" not in chunk
            or (self._secrets and b"error" in chunk)
            or not self.piece(chunk)
        ):
            return False
        splitter.bytes_left -= len(chunk)
        self._note(chunk)
        self.quiet = 0.0
        self._alive.has_sent = True
        return True

    def _note(self, block: bytes) -> None:
        self.last.append(block)
        self.size += len(block)
        if self._watch is not None:
            self._watch(block)


#: Members of events that hold what a model writes, in all formats.
_TEXTS: Final = frozenset(
    [
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    ]
)
#: Events of Responses that say again what came before.
_REPEATS: Final = (".done", ".completed", ".incomplete")


def usage_so_far(wire: Format, request: int, blocks: Sequence[bytes], size: int) -> tuple[Usage, bool]:
    """Return the usage of a stream that is not read to its end, and whether any of it is an estimate.

    Args:
        wire: The upstream's format.
        request: Bytes of the request's body, which are counted as input if the upstream did not report it.
        blocks: The first block of whole events and the last few.
        size: Bytes of all blocks. Most providers send one token in an event, some gather more text: the
            larger of both counts. Events are taken to be of one size.
    """
    end = wire.end(blocks)
    told = end.usage
    if told.input is not None and told.output is not None and end.ending in {Ending.COMPLETE, Ending.SAID}:
        return told, False
    known = b"".join(blocks)
    payloads = [data for event in sse.events(known) if (data := sse.data(event))]
    written = max(len(payloads), sum(map(_text_bytes, payloads)) // BYTES_PER_TOKEN)
    sent = round(size * written / len(known)) if known else 0
    output = max(told.output or 0, sent)
    read = request // BYTES_PER_TOKEN if told.input is None else told.input
    return Usage(read, told.cached, output, told.written, written_1h=told.written_1h), True


def note_usage(
    request: DecidedRequest, attempt: RunningAttempt, blocks: list[bytes], pending: bytes, size: int
) -> None:
    """Note the usage of a stream so far, if a limit is settled by it."""
    if attempt.hold is not None:
        asked = len(request.body.raw)
        attempt.hold.so_far = usage_so_far(attempt.wire, asked, [*blocks, pending], size)


def readers(
    request: DecidedRequest, attempt: RunningAttempt
) -> tuple[Translating | None, Callable[[bytes], bytes] | None, Watch | None]:
    """Return what translates a stream, what changes its blocks, and what reads them as they are."""
    if (asked := attempt.translated) is None:
        return None, without_usage if request.hides_usage else None, request.watch(attempt.target)
    on_whole = partial(request.keep_translated, attempt.target)
    translation = Translating(asked, on_whole, attempt.target.upstream.secrets)
    change = translation.feed
    if request.hides_usage:  # which only the gateway has asked for
        change = partial(_changed_without_usage, change)
    return translation, change, None


def _changed_without_usage(change: Callable[[bytes], bytes], block: bytes) -> bytes:
    return without_usage(change(block))


class _Report(msgspec.Struct, gc=False):
    """An event of a chat stream that may hold nothing but usage."""

    choices: list[msgspec.Raw]
    usage: dict[str, Any]


_decode_report: Final = msgspec.json.Decoder(_Report).decode
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')


def without_usage(block: bytes) -> bytes:
    """Return a block of a chat stream without the event that reports usage and holds nothing else."""
    if not _NO_CHOICES.search(block):
        return block
    for event in sse.events(block):
        if _NO_CHOICES.search(event) and any(not each.choices for each in sse.decoded(event, _decode_report)):
            block = re.sub(re.escape(event) + rb"(?:\r?\n\r?\n)?", b"", block, count=1)
    return block


def _text_bytes(data: bytes) -> int:
    """Bytes that a model wrote in one event: all text of it under a name that holds such."""
    if len(data) > LARGE:
        return len(data)
    try:
        event = msgspec.json.decode(data)
        if isinstance(event, dict) and str(event.get("type")).endswith(_REPEATS):
            return 0
        return _written(event, is_text=False)
    except UNREADABLE:
        return 0


def _written(value: object, *, is_text: bool) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) if is_text else 0
    if isinstance(value, list):
        return sum(_written(each, is_text=is_text) for each in value)
    if isinstance(value, dict):
        return sum(_written(each, is_text=name in _TEXTS) for name, each in value.items())
    return 0
