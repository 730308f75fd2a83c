"""Answers of chat completions, whole and streamed: usage, summary, own answers; questions to models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import Prompt
from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire import sse
from pointsman.wire.conversation import Usage
from pointsman.wire.format import (
    CompletionSummary,
    End,
    Ending,
    Fault,
    ModelCall,
    Part,
    Reply,
    TokenCount,
    count,
    decoded,
    texts,
)

__all__ = ["call", "finish", "head", "read_completion", "read_usage", "spent", "usage", "write_answer"]

_encode: Final = msgspec.json.encode


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: Any = None  # OpenRouter


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: TokenCount | None = None
    completion_tokens: TokenCount | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: Any = None
    prompt_cache_hit_tokens: Any = None  # DeepSeek


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


_decode_usage: Final = msgspec.json.Decoder(_Usage).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


def usage(answer: bytes) -> Usage:
    """Read the usage of a whole answer. Raises ``UNREADABLE`` when it is not JSON."""
    return read_usage(_decode_answer(answer).usage) or Usage()


def read_usage(raw: msgspec.Raw) -> Usage | None:
    """Read a ``usage`` member; None if it is absent or of another shape."""
    if bytes(raw) in _NOTHING:
        return None
    try:
        found = _decode_usage(raw)
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return None
    details, reasoned = found.prompt_tokens_details, found.completion_tokens_details
    cached = details.cached_tokens if details else None
    if found.prompt_cache_hit_tokens and not cached:
        cached = count(found.prompt_cache_hit_tokens) or cached
    return Usage(
        found.prompt_tokens,
        cached,
        found.completion_tokens,
        count(details.cache_write_tokens) if details else None,
        count(reasoned.get("reasoning_tokens")) if isinstance(reasoned, dict) else None,
    )


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


# A question of our own as a chat completions request, and its reply.
class _ReplyMessage(msgspec.Struct):
    content: str | None = None


class _ReplyChoice(msgspec.Struct):
    message: _ReplyMessage


class _Reply(msgspec.Struct):
    choices: list[_ReplyChoice]


_decode_reply: Final = msgspec.json.Decoder(_Reply).decode


def _write_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {**_question(model, prompt), "max_tokens": prompt.max_tokens, "temperature": 0}


def _write_plain_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    # OpenAI's reasoning models take neither a temperature nor the older name of the limit.
    return {**_question(model, prompt), "max_completion_tokens": prompt.max_tokens}


def _question(model: str, prompt: Prompt) -> Mapping[str, object]:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]
    return {"model": model, "messages": messages}


def _read_reply(body: bytes) -> str:
    choices = _decode_reply(body).choices
    return (choices[0].message.content or "") if choices else ""


MODEL_CALL: Final = ModelCall((), _write_question, _write_plain_question, _read_reply)


# A streamed answer of chat completions: how it ended, and one of our own.
_NOTHING: Final = (b"", b"null")


class _EndedChoice(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()
    choices: list[_EndedChoice] = []
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
            usage = read_usage(chunk.usage) or Usage()
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
