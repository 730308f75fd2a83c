"""A request in the form that every format shares, written as a chat completions request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.chat._translation_read_request import WEB_SEARCH
from pointsman.wire.chat._translation_write_messages import write_messages
from pointsman.wire.constructs import CONSTRUCTS, Report
from pointsman.wire.conversation import Conversation, Shape, Tool, ToolChoice
from pointsman.wire.tool_names import flat_name

__all__ = ["write_request"]

_encode: Final = msgspec.json.encode

#: Greatest thinking budget of an effort, in tokens; beyond the last it is high (constructs: thinking_budget).
_EFFORTS: Final = ((4_096, "low"), (16_384, "medium"))

#: Members of other formats, by the construct that says what becomes of them, where it has another name.
_MEMBERS: Final[Mapping[str, str]] = {
    "container": "server_tool",
    "conversation": "previous_response",
    "mcp_servers": "server_tool",
    "previous_response_id": "previous_response",
    "prompt": "previous_response",
    "store": "stored",
    "text.verbosity": "verbosity",
}

#: Members that tell a provider how to serve, not what to answer.
_HINTS: Final = frozenset(
    {
        "include",
        "inference_geo",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning.summary",
        "safety_identifier",
        "service_tier",
        "truncation",
    }
)

#: What holds without them.
_DEFAULTS: Final = {
    "background": b"false",
    "service_tier": b'"auto"',
    "store": b"false",
    "top_logprobs": b"0",
}

_INPUT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def write_request(conversation: Conversation, report: Report) -> bytes:
    """Write a request.

    Raises:
        Untranslatable: it holds something that chat completions cannot express.
    """
    body: dict[str, Any] = {
        "model": conversation.model,
        "messages": write_messages(conversation, report),
        **_tools(conversation, report),
        **_limits(conversation, report),
    }
    if conversation.shape is not None:
        body["response_format"] = _response_format(conversation.shape)
    if conversation.user:
        body["user"] = conversation.user
    if conversation.stream:
        # Every other format reports the usage of a stream: it has to be known.
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return _encode(body | _options(conversation, report))


def _limits(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Output limit, effort and sampling.

    ``max_tokens`` is the one name every server knows. OpenAI's reasoning models refuse it and take
    ``max_completion_tokens``, and only models that reason are sent an effort.
    """
    effort = _effort(conversation, report)
    limit = "max_completion_tokens" if effort else "max_tokens"
    found = {
        limit: conversation.max_tokens,
        "reasoning_effort": effort or None,
        "temperature": conversation.temperature,
        "top_p": conversation.top_p,
        "stop": conversation.stop or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _effort(conversation: Conversation, report: Report) -> str:
    if conversation.effort == "max" and not report.meet("effort_max"):
        return "high"
    if conversation.effort:
        return conversation.effort
    budget = conversation.thinking_budget
    if budget is None:
        return ""
    report.meet("thinking_budget")
    if budget <= 0:
        return ""  # "none" is known to few models; what does not think needs no effort
    return next((effort for most, effort in _EFFORTS if budget <= most), "high")


def _tools(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Tools, and what is said about them: without tools OpenAI refuses both."""
    found: dict[str, Any] = {}
    written = []
    for tool in conversation.tools:
        if tool.kind == WEB_SEARCH and report.source is WireFormat.CHAT:
            found[WEB_SEARCH] = tool.raw
        else:
            written.append(_tool(tool, report))
    if not written:
        return found
    found["tools"] = written
    if conversation.choice is not None:
        found["tool_choice"] = _choice(conversation.choice, conversation.tools)
    if conversation.parallel is not None:
        found["parallel_tool_calls"] = conversation.parallel
    return found


def _tool(tool: Tool, report: Report) -> dict[str, Any] | msgspec.Raw:
    if tool.kind not in {"function", "custom"}:
        if report.source is WireFormat.CHAT:
            return tool.raw
        report.meet("server_tool", f'tools (type "{tool.kind}")')
    if tool.namespace:
        report.meet("namespace")
    function: dict[str, Any] = {"name": flat_name(tool.namespace, tool.name)}
    if tool.description:
        function["description"] = tool.description
    if tool.kind == "custom" and not report.meet("custom_tool"):
        function["parameters"] = _INPUT
    elif bytes(tool.schema):
        function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> str | dict[str, Any]:
    if choice.mode != "named":
        return choice.mode
    namespace = next((tool.namespace for tool in tools if tool.name == choice.name), "")
    return {"type": "function", "function": {"name": flat_name(namespace, choice.name)}}


def _response_format(shape: Shape) -> dict[str, Any]:
    if not bytes(shape.schema):
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": shape.name or "answer", "schema": shape.schema}
    if shape.strict is not None:
        schema["strict"] = shape.strict
    return {"type": "json_schema", "json_schema": schema}


def _options(conversation: Conversation, report: Report) -> dict[str, Any]:
    """The other members of the request: those of chat itself; none of another format's has a name here."""
    if report.source is WireFormat.CHAT:
        return dict(conversation.options)
    for name, raw in conversation.options.items():
        if bytes(raw) != _DEFAULTS.get(name):
            report.meet(_construct(name), name)
    return {}


def _construct(name: str) -> str:
    """The construct of a member of another format: of the same name, or as listed here."""
    row = CONSTRUCTS.get(name)
    if row is not None and WireFormat.CHAT in row.fates:
        return name
    return "provider_hint" if name in _HINTS else _MEMBERS.get(name, "unknown")
