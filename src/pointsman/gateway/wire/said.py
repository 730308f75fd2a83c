"""What an answer amounts to without its words: why it ended, and which tools it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from pointsman.gateway.wire import sse
from pointsman.ledger.port import Said
from pointsman.types import WireFormat

__all__ = ["said"]

T = TypeVar("T")


class _Named(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    name: str | None = None  # a stream tells it once, with the first piece of a call


class _Call(msgspec.Struct, frozen=True, gc=False):
    function: _Named = _Named()


class _Message(msgspec.Struct, frozen=True, gc=False):
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


class _Messages(msgspec.Struct, frozen=True, gc=False):
    stop_reason: str | None = None  # of a whole answer
    content: list[_Named] = []
    content_block: _Named = _Named()  # of a stream
    delta: _Delta = _Delta()


def said(wire: WireFormat, answer: bytes) -> Said:
    """Read a whole answer, or all events of a streamed one. What is of no known shape is passed over."""
    whole = answer.lstrip()[:1] == b"{"
    return _READERS[wire]((answer,) if whole else map(sse.data, sse.events(answer)))


def _chat(payloads: Iterable[bytes]) -> Said:
    finish, tools = "", list[str]()
    for chunk in _decoded(payloads, _Chat):
        for choice in chunk.choices:
            calls = [*(choice.message.tool_calls or ()), *(choice.delta.tool_calls or ())]
            tools += [call.function.name for call in calls if call.function.name]
            finish = choice.finish_reason or finish
    return Said(finish, tuple(tools))


def _responses(payloads: Iterable[bytes]) -> Said:
    last: _Response | None = None
    for event in _decoded(payloads, _ResponsesEvent):
        last = event.response or (event if event.status else last)
    if last is None:
        return Said()
    why = last.incomplete_details.reason if last.incomplete_details else ""
    calls = [item.name for item in last.output if item.type == "function_call" and item.name]
    return Said(why or last.status, tuple(calls))


def _messages(payloads: Iterable[bytes]) -> Said:
    finish, tools = "", list[str]()
    for event in _decoded(payloads, _Messages):
        blocks = (*event.content, event.content_block)
        tools += [block.name for block in blocks if block.type == "tool_use" and block.name]
        finish = event.stop_reason or event.delta.stop_reason or finish
    return Said(finish, tuple(tools))


def _decoded(payloads: Iterable[bytes], shape: type[T]) -> Iterator[T]:
    decode = msgspec.json.Decoder(shape).decode
    for payload in payloads:
        try:
            yield decode(payload)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue


_READERS: Final[Mapping[WireFormat, Callable[[Iterable[bytes]], Said]]] = {
    WireFormat.CHAT: _chat,
    WireFormat.RESPONSES: _responses,
    WireFormat.MESSAGES: _messages,
}
