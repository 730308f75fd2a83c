"""A whole answer of chat completions: what it used, what it amounts to, and one of our own."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.base import Reply, Usage
from pointsman.wire.completion import CompletionSummary, Part, decoded, texts

__all__ = ["call", "finish", "head", "read_completion", "read_usage", "spent", "usage", "write_answer"]

_encode: Final = msgspec.json.encode


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()


class _Function(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None  # a stream tells it once, with the first piece of a call


class _Call(msgspec.Struct, frozen=True, gc=False):
    function: _Function = _Function()


class _Message(msgspec.Struct, frozen=True, gc=False):
    content: str | list[Part] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True, gc=False):
    finish_reason: str | None = None
    message: _Message = _Message()  # of a whole answer
    delta: _Message = _Message()  # of a stream


class _Completion(msgspec.Struct, frozen=True, gc=False):
    choices: list[_Choice] = []


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


def usage(answer: bytes) -> Usage:
    """Read the usage of a whole answer. Raises ``UNREADABLE`` when it is not JSON."""
    return read_usage(_decode_answer(answer).usage)


def read_usage(raw: msgspec.Raw) -> Usage:
    """Read a ``usage`` member; nothing is known from one of another shape."""
    try:
        reported = _decode_usage(raw)
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return Usage()
    if reported is None:
        return Usage()
    details = reported.prompt_tokens_details
    cached = details.cached_tokens if details else None
    return Usage(reported.prompt_tokens, cached, reported.completion_tokens)


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    why, tools, words = "", list[str](), list[str]()
    for chunk in decoded(answer, _Completion):
        for choice in chunk.choices:
            for message in (choice.message, choice.delta):
                tools += [asked.function.name for asked in message.tool_calls or () if asked.function.name]
                words += [message.content] if isinstance(message.content, str) else texts(message.content)
            why = choice.finish_reason or why
    return CompletionSummary(why, tuple(tools)), "".join(words)


def write_answer(reply: Reply) -> bytes:
    """Return a whole answer."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": None,
        "annotations": [],
    }
    if reply.tool:
        message["tool_calls"] = [call(reply)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish(reply)}
    return _encode({**head(reply, "chat.completion"), "choices": [choice], "usage": spent(reply)})


def head(reply: Reply, kind: str) -> dict[str, Any]:
    """The members with which an answer or a chunk begins."""
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": reply.created, "model": reply.model}


def call(reply: Reply) -> dict[str, Any]:
    """The tool call of an answer."""
    function = {"name": reply.tool, "arguments": _encode(reply.arguments).decode()}
    return {"id": f"call_{reply.id}", "type": "function", "function": function}


def finish(reply: Reply) -> str:
    """Why an answer ends."""
    return "tool_calls" if reply.tool else "stop"


def spent(reply: Reply) -> dict[str, Any]:
    """The ``usage`` of an answer."""
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
