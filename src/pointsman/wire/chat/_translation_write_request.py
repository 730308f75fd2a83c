"""A request in the form that every format shares, written as a chat completions request."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.chat._translation_read_request import PARTICIPANT, WEB_SEARCH
from pointsman.wire.chat._translation_write_messages import write_messages
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Shape, Tool, ToolChoice
from pointsman.wire.hosted import described, portable_tools
from pointsman.wire.members import foreign_members
from pointsman.wire.models import is_openai_reasoning
from pointsman.wire.openai_settings import openai_effort_of, openai_sampling, openai_user
from pointsman.wire.tool_names import flat_name

__all__ = ["write_request"]

_encode: Final = msgspec.json.encode

_MAX_STOPS: Final = 4
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
        body["user"] = openai_user(conversation.user, report)
    if conversation.stream:
        # Every other format reports the usage of a stream: it has to be known.
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return _encode(body | _options(conversation, report))


def _limits(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Output limit, effort and sampling.

    ``max_tokens`` is the one name every server knows. OpenAI's reasoning models refuse it and take
    ``max_completion_tokens``; they are known by their names, and only models that reason are sent an effort.
    """
    effort = openai_effort_of(conversation, report)
    limit = "max_completion_tokens" if effort or is_openai_reasoning(conversation.model) else "max_tokens"
    found = {
        limit: conversation.max_tokens,
        "reasoning_effort": effort or None,
        **openai_sampling(conversation, report),
        "stop": _stop(conversation, report) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _stop(conversation: Conversation, report: Report) -> tuple[str, ...]:
    """The sequences that chat completions take; OpenAI's reasoning models take none."""
    most = 0 if is_openai_reasoning(conversation.model) else _MAX_STOPS
    if report.source is WireFormat.CHAT or len(conversation.stop) <= most:
        return conversation.stop
    report.keep_stops(conversation.stop[most:])
    return conversation.stop[:most]


def _tools(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Tools, and what is said about them: without tools OpenAI refuses both."""
    found: dict[str, Any] = {}
    written = []
    own = report.source is WireFormat.CHAT
    for tool in conversation.tools if own else portable_tools(conversation, report):
        if tool.kind == WEB_SEARCH and own:
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


class _Function(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    parameters: msgspec.Raw | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    strict: bool | None = None


class _Offered(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="function"):
    """A function: structs are made and encoded faster than objects, and an agent offers dozens."""

    function: _Function


def _tool(tool: Tool, report: Report) -> _Offered | msgspec.Raw:
    if tool.kind == "function":
        if tool.namespace:
            report.meet("namespace")
        schema = tool.schema if memoryview(tool.schema).nbytes else msgspec.UNSET
        return _Offered(
            _Function(flat_name(tool.namespace, tool.name), tool.description, schema, tool.strict)
        )
    if tool.kind != "custom":
        return tool.raw
    if tool.namespace:
        report.meet("namespace")
    report.meet("custom_tool")
    name = flat_name(tool.namespace, tool.name)
    return _Offered(_Function(name, described(tool), _INPUT, tool.strict))


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
        return {name: raw for name, raw in conversation.options.items() if name != PARTICIPANT}
    return dict(foreign_members(conversation, report))
