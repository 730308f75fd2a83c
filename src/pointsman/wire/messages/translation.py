"""Translation from and to the Messages format (``wire.translate``)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE, decode_typed, decoded
from pointsman.vocabulary import ToolCall
from pointsman.wire import sse
from pointsman.wire.conversation import (
    CUT,
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Failed,
    SignatureDelta,
    Start,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.format import AnswerWriters, Codec
from pointsman.wire.messages import STATUS, read_usage
from pointsman.wire.messages._translation_answer import (
    MessagesWriter,
    write_answer,
)
from pointsman.wire.messages._translation_parts import (
    STOP_REASONS,
    Block,
    arguments_of,
    read_answer,
    stop_beside,
)
from pointsman.wire.messages._translation_request import read_request
from pointsman.wire.messages._translation_write import write_request

__all__ = ["MessagesReader"]


class _Started(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: msgspec.Raw = msgspec.Raw()


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Error(msgspec.Struct, gc=False):
    type: str | None = None
    message: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    message: _Started | None = None
    content_block: Block | None = None
    delta: _Delta | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: _Error | str | None = None


class _Head(msgspec.Struct, gc=False):
    """What kind of event it is, where the rest of it is of no shape that is known."""

    type: str = ""
    content_block: msgspec.Raw = msgspec.Raw()
    delta: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _OpenCall(msgspec.Struct, gc=False):
    index: int  # of the form
    arguments: str  # whole, as the block began with them; empty once fragments arrive


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode
_UNKNOWN: Final = _Event()
#: Data that says nothing: of a comment, and the end of a stream of chat, which proxies write into any.
_NO_EVENT: Final = (b"", b"[DONE]")
_KINDS: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)
#: Types of blocks and of deltas; the delta of a ``message_delta`` has none.
_READ: Final = frozenset(
    {
        "",
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
    }
)
#: A block of one event with one line of data.
_ONE: Final = re.compile(rb"(?:event: ?[^\r\n]*+\n)?+data: ?([^\r\n]*+)\n\n")


class MessagesReader:
    """Reads one stream. Nothing is read behind its end or its error."""

    __slots__ = (
        "_calls",
        "_closed",
        "_count",
        "_over",
        "_reason",
        "_sequence",
        "_splitter",
        "_started",
        "_usage",
    )

    def __init__(self) -> None:
        self._splitter = sse.Splitter()
        self._calls: dict[int, _OpenCall] = {}  # by the index of the block
        self._count = 0
        self._closed: int | None = None  # call whose block was closed last
        self._usage: Usage | None = None
        self._reason: StopReason = StopReason.END
        self._sequence = ""
        self._started = self._over = False

    def feed(self, block: bytes) -> list[Event]:
        """Return the events of a block; half an event is held until the rest arrives.

        An empty block reports that the connection ended well: the last event may lack its blank line. Raises
        ``UNREADABLE`` for an event that cannot be read: its content is lost.
        """
        block = block or b"\n\n"
        found = None if self._splitter.pending or self._over else _ONE.fullmatch(block)
        if found:  # as nearly every block is: taken apart by one pattern
            return self._read(_event(found[1]))
        events: list[Event] = []
        for single in sse.events(self._splitter.feed(block)):
            if self._over:
                break
            events += self._read(_event(sse.data(single)))
        return events

    def _read(self, event: _Event) -> list[Event]:
        if event.error is not None or event.type == "error":
            self._over = True
            return [_failed(event.error)]
        if event.type == "content_block_delta" and event.delta:
            return self._begun(self._delta(event.index, event.delta))
        if event.type == "message_start":
            return self._start(event.message or _Started())
        if event.type == "content_block_start" and event.content_block:
            return self._begun(self._open(event.index, event.content_block))
        if event.type == "content_block_stop":
            return self._close(event.index)
        if event.type == "message_delta":
            return self._begun(self._ending(event))
        return self._begun(self._stop()) if event.type == "message_stop" else []

    def _start(self, message: _Started) -> list[Event]:
        self._usage = read_usage(message.usage, self._usage)
        if self._started:
            return []
        self._started = True
        return [Start(message.id or "", message.model or "", self._usage)]

    def _begun(self, events: list[Event]) -> list[Event]:
        """A stream of which the first event never came begins with the second."""
        if self._started or not events:
            return events
        return [*self._start(_Started()), *events]

    def _open(self, index: int, block: Block) -> list[Event]:
        closed = self._close(index)  # a block that reuses the number of one which was never closed
        closed += self._end_call()
        if block.type == "tool_use":
            call = _OpenCall(self._count, "" if _is_empty(block.input) else arguments_of(block.input))
            self._calls[index] = call
            self._count += 1
            return [*closed, CallStart(call.index, ToolCall(block.id or "", block.name or "", ""))]
        if block.type == "redacted_thinking":
            return [*closed, SignatureDelta(encrypted=block.data or "")]
        thoughts: list[Event] = [ThinkingDelta(block.thinking)] if block.thinking else []
        if block.signature:
            thoughts.append(SignatureDelta(block.signature))
        words: list[Event] = [TextDelta(block.text)] if block.text and block.type == "text" else []
        return closed + thoughts + words

    def _delta(self, index: int, delta: _Delta) -> list[Event]:
        if delta.text:
            return [TextDelta(delta.text)]
        if delta.thinking:
            return [ThinkingDelta(delta.thinking)]
        if delta.signature:
            return [SignatureDelta(delta.signature)]
        call = self._calls.get(index)
        if call is None or not delta.partial_json:
            return []
        call.arguments = ""
        return [ArgumentsDelta(call.index, delta.partial_json)]

    def _close(self, index: int) -> list[Event]:
        """Close a block. Whether a call is whole is known from the next one, or from the stop reason."""
        call = self._calls.pop(index, None)
        if call is None:
            return []
        before = self._end_call()
        self._closed = call.index
        return [*before, ArgumentsDelta(call.index, call.arguments)] if call.arguments else before

    def _end_call(self, *, is_cut: bool = False) -> list[Event]:
        """End the call of the block that was closed last, unless that is done."""
        index, self._closed = self._closed, None
        return [] if index is None else [CallEnd(index, is_cut)]

    def _ending(self, event: _Event) -> list[Event]:
        if event.delta and event.delta.stop_reason:
            self._reason = STOP_REASONS.get(event.delta.stop_reason, StopReason.END)
            self._sequence = event.delta.stop_sequence or ""
        ended = self._end_call(is_cut=self._reason in CUT)
        used = read_usage(event.usage, self._usage)
        if used is None or used is self._usage:
            return ended
        self._usage = used
        return [*ended, UsageReport(used)]

    def _stop(self) -> list[Event]:
        self._over = True
        closed = [event for index in list(self._calls) for event in self._close(index)]
        closed += self._end_call(is_cut=self._reason in CUT)
        return [*closed, Stop(stop_beside(self._reason, calls=self._count > 0), self._sequence)]


def _event(data: bytes) -> _Event:
    """Decode one event. Raises ``UNREADABLE`` for one of a known kind, or of an unreadable kind."""
    try:
        return decoded(_decode, data)
    except UNREADABLE:
        if data.strip() in _NO_EVENT or _is_of_another_kind(_decode_head(data)):
            return _UNKNOWN
        raise


def _is_of_another_kind(head: _Head) -> bool:
    """Whether an event, its block or its delta is of a kind that is not read, whatever it holds."""
    if head.type not in _KINDS:
        return bool(head.type) and not bytes(head.error)
    part = bytes(head.content_block) or bytes(head.delta)
    return bool(part) and decode_typed(part).type not in _READ


def _is_empty(raw: msgspec.Raw) -> bool:
    return bytes(raw).translate(None, b" \r\n\t") in {b"", b"{}", b"null", b'""'}


def _failed(error: _Error | str | None) -> Failed:
    if not isinstance(error, _Error):
        return Failed(error or "the upstream reported an error")
    kind = error.type or "api_error"
    return Failed(error.message or "the upstream reported an error", kind, STATUS.get(kind, 502))


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    stream_reader=MessagesReader,
    for_request=lambda _: AnswerWriters(write_answer, MessagesWriter),  # they need nothing of the request
)
