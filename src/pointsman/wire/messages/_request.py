"""A Messages request: its members, and one of its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.vocabulary import History, Message, Role, ToolCall, ToolResult
from pointsman.wire._items import as_json, mapping, mappings, read_content, read_role, read_texts, string
from pointsman.wire.base import ABSENT, Member, Members

__all__ = ["MEMBERS", "read_item", "system", "write_body"]


class _Members(msgspec.Struct, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Members that Anthropic documents, and those that its clouds and routers add."""

    messages: list[msgspec.Raw]
    model: msgspec.Raw = ABSENT
    container: msgspec.Raw = ABSENT
    context_management: msgspec.Raw = ABSENT
    max_tokens: msgspec.Raw = ABSENT
    mcp_servers: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT
    output_config: msgspec.Raw = ABSENT
    output_format: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    stop_sequences: msgspec.Raw = ABSENT
    stream: msgspec.Raw = ABSENT
    system: msgspec.Raw = ABSENT
    temperature: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    top_k: msgspec.Raw = ABSENT
    top_p: msgspec.Raw = ABSENT
    # Bedrock, Vertex AI, OpenRouter
    anthropic_beta: msgspec.Raw = ABSENT
    anthropic_version: msgspec.Raw = ABSENT
    betas: msgspec.Raw = ABSENT
    cache_control: msgspec.Raw = ABSENT
    inference_geo: msgspec.Raw = ABSENT
    models: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    provider: msgspec.Raw = ABSENT
    speed: msgspec.Raw = ABSENT


MEMBERS: Final = Members.of(_Members, "messages")


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
