"""An answer of the Messages format, whole or streamed, written from the shared form."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.json import encode as _encode
from msgspec.structs import replace

from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire import sse
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Failed,
    Opaque,
    Part,
    Refusal,
    SignatureDelta,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.messages import STATUS, TYPES
from pointsman.wire.messages._translation_parts import (
    Written,
    call_block,
    stop_beside,
)

_REASONS: Final = {
    StopReason.END: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.SEQUENCE: "stop_sequence",
    StopReason.TOOLS: "end_turn",  # without a call there is nothing to wait for
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}
#: What the API reports beside, and its schema requires: nothing is known of it.
_UNKNOWN_USAGE: Final[dict[str, Any]] = {
    "cache_creation": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": "standard",
    "inference_geo": None,
}


def write_answer(completion: Completion) -> bytes:
    """Write a whole answer."""
    parts = (_named(part, at, completion.id) for at, part in enumerate(completion.parts))
    content = [block for part in parts if (block := _block(part)) is not None]
    calls = any(isinstance(part, ToolCall) for part in completion.parts)
    message = write_message(completion.id, completion.model, content, completion.usage)
    message["stop_reason"] = stop_reason(completion.stop, calls=calls)
    message["stop_sequence"] = completion.sequence or None
    return _encode(message)


def _named(part: Part, at: int, answer: str) -> Part:
    """A call with an id: some servers send none, and a result must name its call."""
    return replace(part, id=f"{answer}_{at}") if isinstance(part, ToolCall) and not part.id else part


def _block(part: Part) -> Written | None:
    """One block; None for what only the provider's own callers can use, and for blank text.

    Sent back to the API in the next request, a block of white space alone would be refused. ``citations`` is
    an empty list: the API's schema requires it, and the Vercel AI SDK refuses null.
    """
    if isinstance(part, ToolCall):
        return {**call_block(part), "caller": {"type": "direct"}}
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text, "citations": []} if part.text.strip() else None
    if isinstance(part, Thinking):
        # No signature is made up: without one the gateway knows that the words are not this provider's.
        words = part.text or part.signature
        return {"type": "thinking", "thinking": part.text, "signature": part.signature} if words else None
    return part.raw if isinstance(part, Opaque) and part.format is WireFormat.MESSAGES else None


def stop_reason(reason: StopReason, *, calls: bool) -> str:
    """The format's word for why an answer ended; a call wants a result unless the answer was cut off."""
    if calls and stop_beside(reason, calls=True) is StopReason.TOOLS:
        return "tool_use"
    return _REASONS[reason]


def write_message(identifier: str, model: str, content: list[Written], usage: Usage | None) -> dict[str, Any]:
    """A message that has not stopped."""
    return {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {**write_usage(usage or Usage()), **_UNKNOWN_USAGE},
    }


def write_usage(usage: Usage) -> dict[str, int]:
    """Tokens; ``input_tokens`` excludes the cache, as in the form."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.written or 0,
        "cache_read_input_tokens": usage.cached or 0,
        "output_tokens": usage.output or 0,
    }


# A streamed answer of the Messages format, written from events.
_Kind: TypeAlias = Literal["text", "thinking", "call"]


class _Block(msgspec.Struct, gc=False):
    index: int
    kind: _Kind
    start: Mapping[str, Any]  # as it begins: empty
    held: list[bytes] = []  # written once it is its turn
    is_open: bool = False
    ended: bool = False
    filled: bool = False  # arguments have come
    custom: bool = False


class MessagesWriter:
    """Writes one stream. One block is open at a time; content of a later one waits for its end."""

    __slots__ = ("_blank", "_blocks", "_calls", "_count", "_head", "_id", "_model", "_over", "_started",
                 "_usage")  # fmt: skip

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks: deque[_Block] = deque()  # the first is the open one
        self._calls: dict[int, _Block] = {}
        self._count = 0
        self._blank = self._id = ""
        self._usage: Usage | None = None
        self._started = self._over = False
        self._head = b""  # of a delta, while the one block that is open is a text

    def write(self, events: Iterable[Event]) -> bytes:
        """Return the server-sent events for these."""
        out: list[bytes] = []
        for event in events:
            if self._head and type(event) is TextDelta:  # as nearly every event of a stream is
                if event.text:
                    out.append(self._head + _encode(event.text) + b"}}\n\n")
                continue
            if self._over:
                break
            if isinstance(event, Failed):
                self._over = True
                self._head = b""
                out.append(_failed(event))
                break
            if not self._started:
                self._start(event, out)
            _HANDLERS[type(event)](self, event, out)
        return b"".join(out)

    def _start(self, event: Event, out: list[bytes]) -> None:
        self._started = True
        started = event if isinstance(event, Start) else Start("", "")
        self._id = started.id
        self._usage = started.usage
        message = write_message(started.id, self._model, [], started.usage)
        out.append(_event("message_start", message=message))

    def _text(self, event: TextDelta, out: list[bytes]) -> None:
        """White space waits for words: a block without any would be refused when it is sent back."""
        text = event.text
        if not self._blocks or self._blocks[-1].kind != "text":
            text = self._blank + text
            if not text or text.isspace():
                self._blank = text
                return
        if text:
            block = self._last("text", _EMPTY_TEXT, out)
            self._put(block, b"text_delta", b"text", _encode(text), out)
            if block.is_open:
                self._head = _DELTA % (block.index, b"text_delta", b"text")

    def _thinking(self, event: ThinkingDelta, out: list[bytes]) -> None:
        if event.text:
            block = self._last("thinking", _EMPTY_THINKING, out)
            self._put(block, b"thinking_delta", b"thinking", _encode(event.text), out)

    def _signature(self, event: SignatureDelta, out: list[bytes]) -> None:
        """A signature ends its block. Encrypted content of another provider is of no use to this caller."""
        if event.signature:
            block = self._last("thinking", _EMPTY_THINKING, out)
            self._put(block, b"signature_delta", b"signature", _encode(event.signature), out)
            self._end(block, out)

    def _call(self, event: CallStart, out: list[bytes]) -> None:
        call = event.call
        identifier = call.id or f"{self._id}_{self._count}"  # some servers send none
        start = call_block(ToolCall(identifier, call.name, ""))
        block = self._calls[event.index] = self._add("call", start, out)
        block.custom = call.custom
        if call.custom:  # free text becomes the one string of an object
            self._put_json(block, '{"input":"', out)
            block.filled = True

    def _arguments(self, event: ArgumentsDelta, out: list[bytes]) -> None:
        block = self._calls.get(event.index)
        if block is None or block.ended or not event.text:
            return
        block.filled = block.filled or not event.text.isspace()
        text = _encode(event.text)[1:-1].decode() if block.custom else event.text
        self._put_json(block, text, out)

    def _call_end(self, event: CallEnd, out: list[bytes]) -> None:
        block = self._calls.get(event.index)
        if block is not None:
            self._end(block, out)

    def _report(self, event: UsageReport, out: list[bytes]) -> None:  # noqa: ARG002 - said at the end
        self._usage = event.usage

    def _stop(self, event: Stop, out: list[bytes]) -> None:
        self._over = True
        for block in list(self._blocks):
            self._end(block, out)
        delta = {
            "stop_reason": stop_reason(event.reason, calls=bool(self._calls)),
            "stop_sequence": event.sequence or None,
        }
        out.append(_event("message_delta", delta=delta, usage=write_usage(self._usage or Usage())))
        out.append(_event("message_stop"))

    def _last(self, kind: _Kind, start: Mapping[str, Any], out: list[bytes]) -> _Block:
        """The last block, if words of this kind may still go into it, or else a new one."""
        last = self._blocks[-1] if self._blocks else None
        return last if last and last.kind == kind and not last.ended else self._add(kind, start, out)

    def _add(self, kind: _Kind, start: Mapping[str, Any], out: list[bytes]) -> _Block:
        """Queue a block. Words end where something else begins; a call ends at its end event."""
        if self._blocks and self._blocks[-1].kind != "call":
            self._end(self._blocks[-1], out)
        self._blank = ""
        self._head = b""
        block = _Block(self._count, kind, start)
        self._count += 1
        self._blocks.append(block)
        self._advance(out)
        return block

    def _put_json(self, block: _Block, text: str, out: list[bytes]) -> None:
        self._put(block, b"input_json_delta", b"partial_json", _encode(text), out)

    def _put(self, block: _Block, kind: bytes, member: bytes, value: bytes, out: list[bytes]) -> None:
        written = _DELTA % (block.index, kind, member) + value + b"}}\n\n"
        (out if block.is_open else block.held).append(written)

    def _end(self, block: _Block, out: list[bytes]) -> None:
        if block.ended:
            return
        self._head = b""
        if block.kind == "call" and (block.custom or not block.filled):
            self._put_json(block, '"}' if block.custom else "{}", out)
        block.ended = True
        self._advance(out)

    def _advance(self, out: list[bytes]) -> None:
        """Close the first block if it has ended, open the next one, and so on."""
        while self._blocks:
            block = self._blocks[0]
            if not block.is_open:
                block.is_open = True
                out.append(_event("content_block_start", index=block.index, content_block=block.start))
                out += block.held
                block.held = []
            if not block.ended:
                return
            out.append(_event("content_block_stop", index=block.index))
            self._blocks.popleft()


_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
)
_EMPTY_TEXT: Final = {"type": "text", "text": ""}
_EMPTY_THINKING: Final = {"type": "thinking", "thinking": "", "signature": ""}


def _event(kind: str, **members: Any) -> bytes:
    return sse.event(_encode({"type": kind, **members}), kind)


def _failed(event: Failed) -> bytes:
    kind = event.kind if event.kind in STATUS else TYPES.get(event.status, "api_error")
    return _event("error", error={"type": kind, "message": event.message})


def _nothing(writer: MessagesWriter, event: Event, out: list[bytes]) -> None:
    """``Start`` is written by whatever comes first."""


_HANDLERS: Final[Mapping[type, Callable[[MessagesWriter, Any, list[bytes]], None]]] = {
    Start: _nothing,
    TextDelta: MessagesWriter._text,
    ThinkingDelta: MessagesWriter._thinking,
    SignatureDelta: MessagesWriter._signature,
    CallStart: MessagesWriter._call,
    ArgumentsDelta: MessagesWriter._arguments,
    CallEnd: MessagesWriter._call_end,
    UsageReport: MessagesWriter._report,
    Stop: MessagesWriter._stop,
}
