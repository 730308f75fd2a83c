"""An answer of chat completions: whole ones read and written, streams written, from the shared form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode
from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decode_members, decoded_or, without_halves
from pointsman.vocabulary import ToolCall
from pointsman.wire import _openai as openai
from pointsman.wire import sse
from pointsman.wire.chat import read_usage, write_usage
from pointsman.wire.chat._translation_read_request import read_call, reasoning
from pointsman.wire.chat._translation_types import WireCall
from pointsman.wire.conversation import (
    CUT,
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Conversation,
    Event,
    Failed,
    Part,
    Refusal,
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
from pointsman.wire.format import AnswerWriters, Fault
from pointsman.wire.items import present
from pointsman.wire.tools import joined_name

_STOPS: Final = {
    "stop": StopReason.END,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,  # Mistral
    "tool_calls": StopReason.TOOLS,
    "function_call": StopReason.TOOLS,
    "content_filter": StopReason.REFUSAL,
}
_FINISHES: Final = {
    StopReason.END: "stop",
    StopReason.SEQUENCE: "stop",
    StopReason.PAUSE: "stop",  # chat has nothing that asks to be continued
    StopReason.LENGTH: "length",
    StopReason.TOOLS: "tool_calls",
    StopReason.REFUSAL: "content_filter",
}


class _Piece(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    thinking: Any = None


class Said(msgspec.Struct, gc=False):
    """A message of an answer, or a delta of a stream."""

    content: str | list[_Piece] | None = None
    refusal: str | None = None
    reasoning_content: Any = None  # DeepSeek, vLLM, SGLang
    reasoning: Any = None  # OpenRouter, Groq, Ollama, newer vLLM
    tool_calls: list[WireCall] | None = None
    function_call: Any = None


class _Choice(msgspec.Struct, gc=False):
    message: Said
    index: int = 0
    finish_reason: str | None = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice]
    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    usage: msgspec.Raw = msgspec.Raw()


_decode: Final = msgspec.json.Decoder(_Answer).decode


def read_answer(answer: bytes) -> Completion:
    """Read a whole answer: its first choice. Raises ``UNREADABLE``."""
    found = _decode(without_halves(answer))
    choice = found.choices[0] if found.choices else _Choice(Said())
    parts = _parts(choice.message, found.id or "")
    if is_cut_by(choice.finish_reason):
        parts = tuple(
            replace(part, is_cut=not is_certain(part)) if isinstance(part, ToolCall) else part
            for part in parts
        )
    return Completion(
        id=found.id or "",
        model=found.model or "",
        parts=parts,
        stop=stop_reason(
            choice.finish_reason,
            [is_certain(part) for part in parts if isinstance(part, ToolCall)],
            refused=any(isinstance(part, Refusal) for part in parts),
        ),
        usage=read_usage(found.usage),
        created=found.created if isinstance(found.created, int) else 0,
    )


def _parts(message: Said, id_: str) -> tuple[Part, ...]:
    thought, text, refusal = words(message)
    parts: list[Part] = []
    if thought:
        parts.append(Thinking(thought))
    if text:
        parts.append(Text(text))
    if refusal:
        parts.append(Refusal(refusal))
    calls = list(message.tool_calls or ())
    if old := old_call(message):
        calls.append(old)
    return (*parts, *(read_call(call, made_id(id_, at)) for at, call in enumerate(calls)))


def made_id(answer: str, at: int) -> str:
    """Return an id for a call without one, unlike that of any other answer of the conversation."""
    return f"call_{answer.removeprefix('chatcmpl-')}_{at}"


def old_call(message: Said) -> WireCall | None:
    """The one call of the time before ``tool_calls``."""
    if not isinstance(message.function_call, dict):
        return None
    try:
        return msgspec.convert({"function": message.function_call}, WireCall)
    except UNREADABLE:
        return None


def words(said: Said) -> tuple[str, str, str]:
    """Reasoning, text and refusal of a message or delta."""
    thought = reasoning(said.reasoning_content, said.reasoning)
    content, refusal = said.content, said.refusal or ""
    if content is None or isinstance(content, str):
        return thought, content or "", refusal
    thought = thought or "".join(_thought(piece.thinking) for piece in content)
    refusal = refusal or "".join(piece.refusal or "" for piece in content)
    return thought, "".join(piece.text or "" for piece in content), refusal


def _thought(thinking: object) -> str:
    """Mistral's reasoning: a list of texts inside a part of the content."""
    if isinstance(thinking, str):
        return thinking
    pieces = thinking if isinstance(thinking, list) else []
    return "".join(reasoning(piece.get("text")) for piece in pieces if isinstance(piece, dict))


def is_whole(arguments: str) -> bool:
    """Whether arguments are a whole object, so that nothing can follow; none at all are whole as well."""
    if not arguments:
        return True
    if not arguments.rstrip().endswith("}"):
        return False
    return decoded_or(None, decode_members, arguments) is not None


def is_certain(call: ToolCall) -> bool:
    """Whether a call is whole beyond doubt: free text, and no arguments at all, may have been cut off."""
    return not call.custom and bool(call.arguments) and is_whole(call.arguments)


def is_cut_by(finish: str | None) -> bool:
    """Whether an answer with this finish was cut off: a call that is not whole is then none to run."""
    return _STOPS.get(finish or "") in CUT


def stop_reason(finish: str | None, whole: list[bool], *, refused: bool = False) -> StopReason:
    """Why an answer ended.

    Calls mean TOOLS whatever the finish reason: servers report "stop" with calls. A call that the limit or a
    filter cut off must not be run, so those two reasons hold unless ``whole`` is true for all calls.
    """
    stop = _STOPS.get(finish or "", StopReason.END)
    if whole:
        is_cut = stop in CUT and not all(whole)
        return stop if is_cut else StopReason.TOOLS
    if stop is StopReason.TOOLS:
        return StopReason.END  # no call came: a caller would wait for one
    return StopReason.REFUSAL if refused and stop is StopReason.END else stop


def finish_reason(stop: StopReason, *, calls: bool) -> str:
    """The ``finish_reason`` of an answer."""
    if calls and stop in {StopReason.END, StopReason.SEQUENCE, StopReason.PAUSE}:
        return "tool_calls"
    return _FINISHES[stop]


def write_answer(completion: Completion) -> bytes:
    """Return a whole answer. Reasoning is in ``reasoning_content``, which many clients show to people."""
    parts = completion.parts
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    refusal = "".join(part.text for part in parts if isinstance(part, Refusal))
    thought = "".join(part.text for part in parts if isinstance(part, Thinking))
    message = {
        "role": "assistant",
        # Clients expect a text where there is nothing else.
        "content": text or (None if calls or refusal else ""),
        "refusal": refusal or None,
        **present(reasoning_content=thought or None, tool_calls=calls or None),
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(completion.stop, calls=bool(calls)),
    }
    answer = {
        "id": completion.id,
        "object": "chat.completion",
        "created": completion.created,
        "model": completion.model,
        "choices": [choice],
        "usage": completion.usage and write_usage(completion.usage),
    }
    return _encode(present(**answer))


def _call(call: ToolCall) -> dict[str, Any]:
    name = joined_name(call.namespace, call.name)
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": call.arguments}}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": name, "arguments": call.arguments or ("" if call.is_cut else "{}")},
    }


# A stream of chat completions, written from the form that every format shares.
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
        made = event.call
        call = self._calls[event.index] = _OpenCall(len(self._calls), made.custom)
        self._has_calls = True
        kind, body = ("custom", "input") if made.custom else ("function", "arguments")
        name = joined_name(made.namespace, made.name)
        begun = {"index": call.index, "id": made.id, "type": kind, kind: {"name": name, body: ""}}
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
        return sse.event(openai.write_error(Fault(event.status, event.message, event.kind)))


def writers_for(request: Conversation) -> AnswerWriters:
    """Return the writers. Clients that did not ask for the chunk of usage fail on it: it has no choices."""
    return AnswerWriters(write_answer, partial(ChatStreamWriter, reports_usage=request.stream_usage))
