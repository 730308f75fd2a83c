"""Chat completions, read into the form that every format shares and written from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec

from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire import sse
from pointsman.wire.chat._translation_answer import CUT, finish_reason, read_answer, write_answer, write_usage
from pointsman.wire.chat._translation_read_request import read_request
from pointsman.wire.chat._translation_read_stream import ChatStreamReader
from pointsman.wire.chat._translation_write_request import write_request
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Conversation,
    Event,
    Failed,
    Start,
    Stop,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.format import Codec, Fault
from pointsman.wire.tool_names import joined_name

__all__ = ["CODEC"]


# A stream of chat completions, written from the form that every format shares.
_encode: Final = msgspec.json.encode
_BEHIND: Final = b',"logprobs":null,"finish_reason":null}]}\n\n'


class _OpenCall(msgspec.Struct, gc=False):
    index: int  # among the calls of the answer, from 0
    custom: bool
    is_empty: bool = True


class ChatStreamWriter:
    """Writes one stream: a chunk for each event, the finish, a chunk of the usage, and ``[DONE]``."""

    def __init__(self, model: str, *, reports_usage: bool = True) -> None:
        self._model = model
        self._reports_usage = reports_usage
        self._head: dict[str, Any] = {}
        self._before = b""  # what every chunk begins with
        self._calls: dict[int, _OpenCall] = {}
        self._has_calls = self._is_over = False
        self._usage: Usage | None = None

    def write(self, events: Iterable[Event]) -> bytes:
        """Return the chunks for these events."""
        return b"".join([self._event(event) for event in events])

    def _event(self, event: Event) -> bytes:
        if self._is_over:
            return b""
        if isinstance(event, Failed):
            return self._failed(event)
        if not self._before:
            return self._start(event) + (b"" if isinstance(event, Start) else self._event(event))
        if isinstance(event, TextDelta):
            return self._delta({"refusal" if event.refusal else "content": event.text})
        if isinstance(event, ArgumentsDelta):
            return self._arguments(event)
        if isinstance(
            event, ThinkingDelta
        ):  # the name under which most servers stream it, so that people see it
            return self._delta({"reasoning_content": event.text})
        if isinstance(event, UsageReport):
            self._usage = event.usage
        return self._mark(event)

    def _mark(self, event: Event) -> bytes:
        if isinstance(event, CallStart):
            return self._start_call(event)
        if isinstance(event, CallEnd):
            return b"" if event.is_cut else self._end_call(event.index)
        return self._stop(event) if isinstance(event, Stop) else b""

    def _start(self, event: Event) -> bytes:
        start = event if isinstance(event, Start) else Start("", "")
        self._usage = start.usage
        self._head = {
            "id": start.id,
            "object": "chat.completion.chunk",
            "created": start.created,
            "model": self._model,
        }
        head = _encode(self._head).removesuffix(b"}")
        self._before = b"data: " + head + b',"choices":[{"index":0,"delta":'
        return self._delta({"role": "assistant", "content": ""})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return self._before + _encode(delta) + _BEHIND

    def _start_call(self, event: CallStart) -> bytes:
        call = self._calls[event.index] = _OpenCall(len(self._calls), event.custom)
        self._has_calls = True
        kind, body = ("custom", "input") if event.custom else ("function", "arguments")
        name = joined_name(event.namespace, event.name)
        begun = {"index": call.index, "id": event.id, "type": kind, kind: {"name": name, body: ""}}
        return self._delta({"tool_calls": [begun]})

    def _arguments(self, event: ArgumentsDelta) -> bytes:
        call = self._calls.get(event.index)
        if call is None or not event.text:
            return b""
        call.is_empty = False
        return self._piece(call, event.text)

    def _piece(self, call: _OpenCall, text: str) -> bytes:
        kind, body = ("custom", "input") if call.custom else ("function", "arguments")
        return self._delta({"tool_calls": [{"index": call.index, kind: {body: text}}]})

    def _end_call(self, index: int) -> bytes:
        call = self._calls.get(index)
        if call is None or call.custom or not call.is_empty:
            return b""
        call.is_empty = False
        return self._piece(call, "{}")  # clients parse the arguments: nothing is no JSON

    def _stop(self, event: Stop) -> bytes:
        self._is_over = True
        cut = event.reason in CUT
        ends = b"" if cut else b"".join([self._end_call(index) for index in self._calls])
        why = _encode(finish_reason(event.reason, calls=self._has_calls))
        finish = self._before + b'{},"logprobs":null,"finish_reason":' + why + b"}]}\n\n"
        used = b""
        if self._usage is not None and self._reports_usage:
            used = sse.event(_encode({**self._head, "choices": [], "usage": write_usage(self._usage)}))
        return ends + finish + used + sse.event(b"[DONE]")

    def _failed(self, event: Failed) -> bytes:
        self._is_over = True
        return sse.event(openai_errors.write_error(Fault(event.status, event.message, event.kind)))


def _answering(request: Conversation) -> Codec:
    """The chunk of the usage has no choices: clients that did not ask for it fail on it."""
    return CODEC._replace(stream_writer=partial(ChatStreamWriter, reports_usage=request.stream_usage))


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    write_answer=write_answer,
    stream_reader=ChatStreamReader,
    stream_writer=ChatStreamWriter,
    for_request=_answering,
)
