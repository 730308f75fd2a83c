"""Messages: ``POST /v1/messages``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pointsman.vocabulary import History, Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire.format import Format, Member, Members
from pointsman.wire.items import (
    as_json,
    mapping,
    mappings,
    place_in_messages,
    read_content,
    read_role,
    read_texts,
    role_of,
    string,
)
from pointsman.wire.messages import _answer as answer

__all__ = ["MESSAGES"]


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
    read_role=role_of,
    place=partial(place_in_messages, as_blocks=True),
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=answer.is_error,
    error=answer.write_error,
    end=answer.end,
    refusal=answer.status_of,
    answer_events=answer.answer_events,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_event=answer.error_event,
    model_call=answer.MODEL_CALL,
    has_own_reasoning=True,
)
