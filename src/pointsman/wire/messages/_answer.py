"""A whole answer of the Messages format: what it used, what it amounts to, and one of our own."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.base import Reply, Usage
from pointsman.wire.completion import CompletionSummary, decoded

__all__ = [
    "WithUsage",
    "merge_usage",
    "read_completion",
    "usage",
    "write_answer",
    "write_block",
    "write_message",
    "write_stop",
]

_encode: Final = msgspec.json.encode


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class WithUsage(msgspec.Struct, gc=False):
    """An answer as far as its usage is looked for."""

    usage: msgspec.Raw = msgspec.Raw()


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    name: str | None = None
    text: str | None = None


class _Delta(msgspec.Struct, frozen=True, gc=False):
    stop_reason: str | None = None
    text: str | None = None


class _Completion(msgspec.Struct, frozen=True, gc=False):
    stop_reason: str | None = None  # of a whole answer
    content: list[_Block] = []
    content_block: _Block = _Block()  # of a stream
    delta: _Delta = _Delta()


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(WithUsage).decode


def usage(answer: bytes) -> Usage:
    """Read the usage of a whole answer. Raises ``UNREADABLE`` when it is not JSON."""
    return merge_usage(_decode_answer(answer).usage, msgspec.Raw())


def merge_usage(start: msgspec.Raw, final: msgspec.Raw) -> Usage:
    """Put together what ``message_start`` and ``message_delta`` report; the later one counts."""
    first = _reported(start)
    then = _reported(final)

    def pick(field: str) -> int | None:
        later: int | None = getattr(then, field)
        earlier: int | None = getattr(first, field)
        return earlier if later is None else later

    plain, cached, written = (
        pick("input_tokens"),
        pick("cache_read_input_tokens"),
        pick("cache_creation_input_tokens"),
    )
    whole = None if plain is None else plain + (cached or 0) + (written or 0)
    return Usage(whole, cached, pick("output_tokens"))


def _reported(raw: msgspec.Raw) -> _Usage:
    try:
        return _decode_usage(raw) or _Usage()
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return _Usage()


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    why, tools, words = "", list[str](), list[str]()
    for event in decoded(answer, _Completion):
        blocks = (*event.content, event.content_block)
        tools += [block.name for block in blocks if block.type == "tool_use" and block.name]
        words += [block.text for block in blocks if block.type == "text" and block.text]
        words.append(event.delta.text or "")
        why = event.stop_reason or event.delta.stop_reason or why
    return CompletionSummary(why, tuple(tools)), "".join(words)


def write_answer(reply: Reply) -> bytes:
    """Return a whole answer."""
    return _encode(write_message(reply, [write_block(reply)], write_stop(reply), reply.output_tokens))


def write_block(reply: Reply) -> dict[str, Any]:
    """The one block of an answer: a tool call or a text."""
    if reply.tool:
        return {
            "type": "tool_use",
            "id": f"toolu_{reply.id}",
            "name": reply.tool,
            "input": dict(reply.arguments),
            "caller": {"type": "direct"},
        }
    return {"type": "text", "text": reply.text, "citations": []}


def write_stop(reply: Reply) -> str:
    """Why an answer ends."""
    return "tool_use" if reply.tool else "end_turn"


def write_message(
    reply: Reply, content: list[dict[str, Any]], stop: str | None, output: int
) -> dict[str, Any]:
    """An answer with some of its blocks."""
    usage = {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": None,
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": None,
    }
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": usage,
    }
