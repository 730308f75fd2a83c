"""Messages: ``POST /v1/messages``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import UNREADABLE, decoded_or, without_halves
from pointsman.vocabulary import History, Message, Prompt, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import sse
from pointsman.wire.conversation import Usage
from pointsman.wire.format import (
    CompletionSummary,
    End,
    Ending,
    Fault,
    Format,
    Member,
    Members,
    ModelCall,
    TokenCount,
    WithUsage,
    count,
    objects,
)
from pointsman.wire.items import (
    as_json,
    mapping,
    mappings,
    place_in_messages,
    read_content,
    read_plain,
    read_role,
    read_texts,
    role_of,
    string,
)

__all__ = ["MESSAGES"]


class _Usage(msgspec.Struct, gc=False):
    """Usage as an upstream reports it; ``input_tokens`` excludes the cache."""

    input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    cache_creation: Any = None  # what was written, by how long it is kept
    output_tokens: TokenCount | None = None


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode


def read_usage(raw: msgspec.Raw, earlier: Usage | None = None) -> Usage | None:
    """Read a ``usage`` member on top of an earlier one; the earlier one if it is absent or of another shape.

    A zero does not replace a known figure.
    """
    reported = decoded_or(None, _decode_usage, raw)
    if reported is None:  # also usage of a kind we do not know, which is no reason to throw an answer away
        return earlier
    before = earlier or Usage()
    plain = _later(reported.input_tokens, None if before.input is None else before.uncached)
    cached = _later(reported.cache_read_input_tokens, before.cached)
    written = _later(reported.cache_creation_input_tokens, before.written)
    whole = None if plain is None else plain + (cached or 0) + (written or 0)
    of_writes = reported.cache_creation
    kept = count(of_writes.get("ephemeral_1h_input_tokens")) if isinstance(of_writes, dict) else None
    output = _later(reported.output_tokens, before.output)
    return Usage(whole, cached, output, written, written_1h=_later(kept, before.written_1h))


def _later(later: int | None, earlier: int | None) -> int | None:
    return later if later or earlier is None else earlier


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    why, tools, words = "", list[str](), list[str]()
    for event in objects(answer):
        blocks = (*mappings(event.get("content")), mapping(event.get("content_block")))
        delta = mapping(event.get("delta"))
        tools += [string(block.get("name")) for block in blocks if block.get("type") == "tool_use"]
        words += [string(block.get("text")) for block in blocks if block.get("type") == "text"]
        words.append(string(delta.get("text")))
        why = string(event.get("stop_reason")) or string(delta.get("stop_reason")) or why
    return CompletionSummary(why, tuple(filter(None, tools))), "".join(words)


# Errors of the Messages format, whole and inside a stream.

#: Anthropic's documented error types by status.
TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUS: Final = {kind: status for status, kind in TYPES.items()}


class _Error(msgspec.Struct, gc=False):
    type: str = ""


class _ErrorEvent(msgspec.Struct, gc=False):
    type: str = ""
    error: _Error | None = None


_decode_error: Final = msgspec.json.Decoder(_ErrorEvent).decode


def status_of(block: bytes) -> int | None:
    """Return the status a block's first event amounts to when it is an error; None when it is none."""
    event = next((event for event in sse.decoded(block, _decode_error) if event.type != "ping"), None)
    if event is None or event.type != "error":
        return None
    return STATUS.get(event.error.type, 502) if event.error else 502


def is_error(answer: bytes) -> bool:
    """Whether an answer is an object with an object under ``error``."""
    try:
        return _decode_error(answer).error is not None
    except UNREADABLE:
        return (mended := without_halves(answer)) != answer and is_error(mended)


def write_error(fault: Fault) -> bytes:
    """Return the body of an error answer."""
    kind = TYPES.get(fault.status, "api_error" if fault.status >= 500 else "invalid_request_error")
    return _encode({"type": "error", "error": {"type": kind, "message": fault.message}})


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG001 - not numbered
    """Return the event that ends a failed stream."""
    return sse.event(write_error(fault), "error")


# A question of our own as a Messages request.


def _write_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {**_write_plain_question(model, prompt), "temperature": 0}


def _write_plain_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {
        "model": model,
        "system": prompt.system,
        "messages": [{"role": "user", "content": prompt.text}],
        "max_tokens": prompt.max_tokens,
    }


MODEL_CALL: Final = ModelCall(
    ((b"anthropic-version", b"2023-06-01"),), _write_question, _write_plain_question
)


# A streamed answer of the Messages format: how it ended.


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    message: WithUsage | None = None
    usage: msgspec.Raw = msgspec.Raw()


_decode_event: Final = msgspec.json.Decoder(_Event).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    ending = Ending.CUT
    start = final = msgspec.Raw()
    for event in sse.decoded(b"".join(blocks), _decode_event):
        if event.type == "message_start" and event.message:
            start = event.message.usage
        elif event.type == "message_delta":
            final = event.usage
        elif event.type == "message_stop":
            ending = Ending.COMPLETE
        elif event.type == "error":
            ending = Ending.REFUSED
    return End(ending, read_usage(final, read_usage(start)) or Usage())


#: Members that Anthropic documents, and those that its clouds and routers add.
MEMBERS: Final = Members.of(
    "messages",
    list[msgspec.Raw],
    "container context_management max_tokens mcp_servers metadata output_config output_format "
    "service_tier stop_sequences stream system temperature thinking tool_choice tools top_k top_p "
    # Bedrock, Vertex AI, OpenRouter
    "anthropic_beta anthropic_version betas cache_control inference_geo models prompt provider speed",
)


def system(member: Member, history: History) -> str:  # noqa: ARG001 - no system message
    """The system text, a string or blocks."""
    value = member("system")
    return "\n\n".join(read_texts(msgspec.json.decode(value))) if value is not None else ""


def write_body(items: Sequence[Any], system: str) -> dict[str, Any]:
    """Messages and a system text as a body."""
    return {"messages": items, "system": system}


def read_item(item: Mapping[str, Any]) -> Message:
    """Read one message, already decoded from JSON."""
    role = read_role(item.get("role"))
    content = item.get("content")
    texts, images = read_content(content)
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in mappings(content):
        kind = string(block.get("type"))
        if kind.endswith("tool_use"):  # tool_use, server_tool_use, mcp_tool_use
            calls.append(
                ToolCall(string(block.get("id")), string(block.get("name")), as_json(block.get("input")))
            )
        elif kind.endswith("tool_result"):  # tool_result, web_search_tool_result, mcp_tool_result, …
            result, pictures = _result(block)
            results.append(result)
            images += pictures
    if role is Role.USER and results and len(results) == len(content or ()):
        role = Role.TOOL
    return Message(role, texts, tuple(calls), tuple(results), images)


def _result(block: Mapping[str, Any]) -> tuple[ToolResult, int]:
    content = block.get("content")
    texts, images = read_content(content)
    # A provider's own tools say that they failed in the type of the content, not in ``is_error``.
    failed = string(mapping(content).get("type")).endswith("_error")
    text = "\n".join(texts) if texts or images else as_json(content)
    return ToolResult(string(block.get("tool_use_id")), text, block.get("is_error") is True or failed), images


MESSAGES: Final = Format(
    format=WireFormat.MESSAGES,
    folder=__name__,
    path=b"/messages",
    token_path=b"/messages/count_tokens",
    auth="x-api-key",
    header=b"anthropic-version",
    items="messages",
    members=MEMBERS,
    required=("max_tokens",),
    output_limits=("max_tokens",),
    shapes=("output_config", "output_format"),
    system=system,
    body=write_body,
    read_item=read_item,
    read_plain=read_plain,
    read_role=role_of,
    place=partial(place_in_messages, as_blocks=True),
    read_usage=read_usage,
    completion=read_completion,
    ids=("msg_", "toolu_"),
    is_error=is_error,
    error=write_error,
    end=end,
    refusal=status_of,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_event=error_event,
    model_call=MODEL_CALL,
    own_reasoning=".own_reasoning",
)
