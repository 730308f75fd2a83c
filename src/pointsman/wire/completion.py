"""The completion summary: finish reason, called tools, and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse

__all__ = ["CompletionSummary", "read_completion"]

T = TypeVar("T")


class CompletionSummary(msgspec.Struct, frozen=True, gc=False):
    """The summary of a completion, without its text."""

    finish: str = ""  # why it ended, in its format's terms; empty: it did not say
    tools: tuple[str, ...] = ()  # names of the tools it calls, in order


class _Part(msgspec.Struct, frozen=True, gc=False):
    text: str | None = None


class _Named(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    name: str | None = None  # a stream tells it once, with the first piece of a call
    text: str | None = None
    content: list[_Part] = []


class _Call(msgspec.Struct, frozen=True, gc=False):
    function: _Named = _Named()


class _Message(msgspec.Struct, frozen=True, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True, gc=False):
    finish_reason: str | None = None
    message: _Message = _Message()  # of a whole answer
    delta: _Message = _Message()  # of a stream


class _Chat(msgspec.Struct, frozen=True, gc=False):
    choices: list[_Choice] = []


class _Incomplete(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _Response(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    incomplete_details: _Incomplete | None = None
    output: list[_Named] = []


class _ResponsesEvent(_Response, frozen=True, gc=False):
    response: _Response | None = None  # in the events of a stream


class _Delta(msgspec.Struct, frozen=True, gc=False):
    stop_reason: str | None = None
    text: str | None = None


class _Messages(msgspec.Struct, frozen=True, gc=False):
    stop_reason: str | None = None  # of a whole answer
    content: list[_Named] = []
    content_block: _Named = _Named()  # of a stream
    delta: _Delta = _Delta()


def read_completion(wire: WireFormat, answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one. What is of no known shape is passed over."""
    whole = answer.lstrip()[:1] == b"{"
    return _READERS[wire]((answer,) if whole else map(sse.data, sse.events(answer)))


def _chat(payloads: Iterable[bytes]) -> tuple[CompletionSummary, str]:
    finish, tools, words = "", list[str](), list[str]()
    for chunk in _decoded(payloads, _Chat):
        for choice in chunk.choices:
            for message in (choice.message, choice.delta):
                tools += [call.function.name for call in message.tool_calls or () if call.function.name]
                words += [message.content] if isinstance(message.content, str) else _texts(message.content)
            finish = choice.finish_reason or finish
    return CompletionSummary(finish, tuple(tools)), "".join(words)


def _responses(payloads: Iterable[bytes]) -> tuple[CompletionSummary, str]:
    last = _Response()
    for event in _decoded(payloads, _ResponsesEvent):
        last = event.response or (event if event.status else last)
    why = last.incomplete_details.reason if last.incomplete_details else ""
    calls = [item.name for item in last.output if item.type == "function_call" and item.name]
    words = [text for item in last.output if item.type == "message" for text in _texts(item.content)]
    return CompletionSummary(why or last.status, tuple(calls)), "".join(words)


def _messages(payloads: Iterable[bytes]) -> tuple[CompletionSummary, str]:
    finish, tools, words = "", list[str](), list[str]()
    for event in _decoded(payloads, _Messages):
        blocks = (*event.content, event.content_block)
        tools += [block.name for block in blocks if block.type == "tool_use" and block.name]
        words += [block.text for block in blocks if block.type == "text" and block.text]
        words.append(event.delta.text or "")
        finish = event.stop_reason or event.delta.stop_reason or finish
    return CompletionSummary(finish, tuple(tools)), "".join(words)


def _texts(parts: Iterable[_Part] | None) -> list[str]:
    return [part.text for part in parts or () if part.text]


def _decoded(payloads: Iterable[bytes], shape: type[T]) -> Iterator[T]:
    decode = msgspec.json.Decoder(shape).decode
    for payload in payloads:
        try:
            yield decode(payload)
        except UNREADABLE:
            continue


_READERS: Final[Mapping[WireFormat, Callable[[Iterable[bytes]], tuple[CompletionSummary, str]]]] = {
    WireFormat.CHAT: _chat,
    WireFormat.RESPONSES: _responses,
    WireFormat.MESSAGES: _messages,
}
