"""Chat completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from pointsman.wire.base import End, Ending, Fault, Reply, Usage, lenient
from pointsman.wire.openai_errors import error_object, is_error, status_of

__all__ = ["CHAT"]

_encode: Final = msgspec.json.encode
_NOTHING: Final = (b"", b"null")


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()


class _Choice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()
    choices: list[_Choice] = []
    error: msgspec.Raw = msgspec.Raw()


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode


class _ChatWire:
    format: Final = WireFormat.CHAT
    items: Final = "messages"
    path: Final = b"/chat/completions"

    def usage(self, answer: bytes) -> Usage:
        return _usage(_decode_answer(answer).usage)

    def end(self, blocks: Sequence[bytes]) -> End:
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
                usage = _usage(chunk.usage)
            if any(choice.finish_reason for choice in chunk.choices):
                ending = Ending.SAID  # some servers never send [DONE]
        return End(ending, usage)

    def refusal(self, block: bytes) -> int | None:
        return status_of(block)

    def is_error(self, answer: bytes) -> bool:
        return is_error(answer)

    def error(self, fault: Fault) -> bytes:
        return _encode({"error": error_object(fault)})

    def error_event(self, fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG002 - not numbered
        return sse.event(self.error(fault))

    def answer(self, reply: Reply) -> bytes:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text or None,
            "refusal": None,
            "annotations": [],
        }
        if reply.tool:
            message["tool_calls"] = [_call(reply)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        return _encode({**_head(reply, "chat.completion"), "choices": [choice], "usage": _spent(reply)})

    def answer_events(self, reply: Reply) -> Iterator[bytes]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return sse.event(_encode({**_head(reply, "chat.completion.chunk"), "choices": [choice]}))

        yield chunk({"role": "assistant", "content": ""})
        for piece in reply.pieces():
            yield chunk({"content": piece})
        if reply.tool:
            yield chunk({"tool_calls": [{"index": 0, **_call(reply)}]})
        yield chunk({}, _finish(reply))
        if reply.wants_usage:
            spent = {**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _spent(reply)}
            yield sse.event(_encode(spent))
        yield sse.event(b"[DONE]")


def _usage(raw: msgspec.Raw) -> Usage:
    reported = lenient(_decode_usage, raw)
    if reported is None:
        return Usage()
    details = reported.prompt_tokens_details
    cached = details.cached_tokens if details else None
    return Usage(reported.prompt_tokens, cached, reported.completion_tokens)


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": reply.created, "model": reply.model}


def _call(reply: Reply) -> dict[str, Any]:
    function = {"name": reply.tool, "arguments": _encode(reply.arguments).decode()}
    return {"id": f"call_{reply.id}", "type": "function", "function": function}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.tool else "stop"


def _spent(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


CHAT: Final = _ChatWire()
