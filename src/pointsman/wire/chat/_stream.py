"""A streamed answer of chat completions: how it ended, and one of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire import sse
from pointsman.wire.base import End, Ending, Fault, Reply, Usage
from pointsman.wire.chat._answer import call, finish, head, read_usage, spent

__all__ = ["answer_events", "end", "error_event"]

_encode: Final = msgspec.json.encode
_NOTHING: Final = (b"", b"null")


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()
    choices: list[_Choice] = []
    error: msgspec.Raw = msgspec.Raw()


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    ending, usage = Ending.CUT, Usage()
    for event in sse.events(b"".join(blocks)):
        payload = sse.data(event)
        if payload.startswith(b"[DONE]"):
            return End(Ending.COMPLETE, usage)
        try:
            chunk = _decode_chunk(payload)
        except UNREADABLE:
            continue
        if bytes(chunk.error) not in _NOTHING:
            return End(Ending.REFUSED, usage)
        if bytes(chunk.usage) not in _NOTHING:  # null in every chunk but one
            usage = read_usage(chunk.usage)
        if any(choice.finish_reason for choice in chunk.choices):
            ending = Ending.SAID  # some servers never send [DONE]
    return End(ending, usage)


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG001 - not numbered
    """Return the event that ends a failed stream."""
    return sse.event(openai_errors.write_error(fault))


def answer_events(reply: Reply) -> Iterator[bytes]:
    """Return an answer as a stream of events."""

    def chunk(delta: dict[str, Any], why: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": why}
        return sse.event(_encode({**head(reply, "chat.completion.chunk"), "choices": [choice]}))

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.pieces():
        yield chunk({"content": piece})
    if reply.tool:
        yield chunk({"tool_calls": [{"index": 0, **call(reply)}]})
    yield chunk({}, finish(reply))
    if reply.wants_usage:
        used = {**head(reply, "chat.completion.chunk"), "choices": [], "usage": spent(reply)}
        yield sse.event(_encode(used))
    yield sse.event(b"[DONE]")
