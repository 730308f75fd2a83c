"""A whole answer of the Responses format: what it used, what it amounts to, and one of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.base import Reply, Usage
from pointsman.wire.completion import CompletionSummary, Part, decoded, texts

__all__ = [
    "WithUsage",
    "read_completion",
    "read_usage",
    "snapshot",
    "usage",
    "write_answer",
    "write_item",
    "write_part",
    "write_response",
]

_encode: Final = msgspec.json.encode

#: What a response repeats of its request, and what stands there when the request did not say.
_UNASKED: Final[dict[str, Any]] = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1,
    "text": {"format": {"type": "text"}},
    "top_logprobs": 0,
    "top_p": 1,
    "truncation": "disabled",
}


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class WithUsage(msgspec.Struct, gc=False):
    """An answer as far as its usage is looked for."""

    usage: msgspec.Raw = msgspec.Raw()


class _Incomplete(msgspec.Struct, frozen=True, gc=False):
    reason: str = ""


class _Item(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    name: str | None = None
    content: list[Part] = []


class _Response(msgspec.Struct, frozen=True, gc=False):
    status: str = ""
    incomplete_details: _Incomplete | None = None
    output: list[_Item] = []


class _Event(_Response, frozen=True, gc=False):
    response: _Response | None = None  # in the events of a stream


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(WithUsage).decode


def usage(answer: bytes) -> Usage:
    """Read the usage of a whole answer. Raises ``UNREADABLE`` when it is not JSON."""
    return read_usage(_decode_answer(answer))


def read_usage(answer: WithUsage | None) -> Usage:
    """Read the usage of an answer; nothing is known from one of another shape."""
    try:
        reported = _decode_usage(answer.usage) if answer else None
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return Usage()
    if reported is None:
        return Usage()
    details = reported.input_tokens_details
    return Usage(reported.input_tokens, details.cached_tokens if details else None, reported.output_tokens)


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    last = _Response()
    for event in decoded(answer, _Event):
        last = event.response or (event if event.status else last)
    why = last.incomplete_details.reason if last.incomplete_details else ""
    calls = [item.name for item in last.output if item.type == "function_call" and item.name]
    words = [text for item in last.output if item.type == "message" for text in texts(item.content)]
    return CompletionSummary(why or last.status, tuple(calls)), "".join(words)


def write_answer(reply: Reply) -> bytes:
    """Return a whole answer."""
    return _encode(write_response(reply, "completed", [write_item(reply)]))


def write_part(text: str) -> dict[str, Any]:
    """One part of a message with a text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def write_item(reply: Reply) -> dict[str, Any]:
    """The one item of an answer: a tool call or a message."""
    if reply.tool:
        return {
            "type": "function_call",
            "id": f"fc_{reply.id}",
            "call_id": f"call_{reply.id}",
            "name": reply.tool,
            "arguments": _encode(reply.arguments).decode(),
            "status": "completed",
        }
    return {
        "type": "message",
        "id": f"msg_{reply.id}",
        "role": "assistant",
        "status": "completed",
        "content": [write_part(reply.text)],
    }


def write_response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    """A response with some of its items."""
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    done = status == "completed"
    return snapshot(
        id=f"resp_{reply.id}",
        model=reply.model,
        created=reply.created,
        status=status,
        output=output,
        usage=usage if done else None,
        asked=reply.asked,
    )


def snapshot(
    *,
    id: str,  # noqa: A002 - the member's name
    model: str,
    created: int,
    status: str,
    output: Sequence[Any],
    usage: Mapping[str, Any] | None,
    asked: Mapping[str, Any],
    incomplete: str | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A response object; ``incomplete`` is why it is, ``asked`` are members of the request to repeat."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "completed_at": created if status == "completed" else None,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "model": model,
        "output": output,
        "usage": usage,
        "tool_choice": "auto",
        "tools": [],
        **_UNASKED,
        **{name: value for name, value in asked.items() if name in _UNASKED},
    }
