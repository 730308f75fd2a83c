"""A ``Conversation`` as a Responses request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Part, Text, Tool
from pointsman.wire.hosted import portable_tools
from pointsman.wire.members import foreign_members
from pointsman.wire.openai_settings import openai_effort_of, openai_sampling, openai_user
from pointsman.wire.responses._translation_write_items import write_items
from pointsman.wire.tool_names import flat_name

__all__ = ["write_request"]

_encode: Final = msgspec.json.encode
_OWN: Final = WireFormat.RESPONSES

#: Members that a chat request and a Responses request have alike: they are of one provider.
_OF_CHAT: Final = {
    name: name
    for name in (
        "metadata",
        "moderation",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "text.verbosity",
    )
} | {"verbosity": "text.verbosity"}
_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


def write_request(request: Conversation, report: Report) -> bytes:
    """Return the body. Raises ``Untranslatable``."""
    body: dict[str, Any] = {"model": request.model}
    system = "\n\n".join(text.text for text in _uncached(request.system, report) if text.text)
    if system:
        body["instructions"] = system
    items = [item for message in request.messages for item in write_items(message, report)]
    body["input"] = items if report.source is _OWN else _with_ids(items)
    if request.tools:
        tools = request.tools if report.source is _OWN else portable_tools(request, report)
        body["tools"] = list(_tools(tools, report))
    if request.choice is not None:
        body["tool_choice"] = _choice(request, report)
    plain = {
        "parallel_tool_calls": request.parallel,
        "max_output_tokens": request.max_tokens,
        **openai_sampling(request, report),
        "user": openai_user(request.user, report) if request.user else None,
    }
    body |= {name: value for name, value in plain.items() if value is not None}
    if request.stop:
        report.keep_stops(request.stop)
    body |= _settings(request, report)
    if report.source is not _OWN and "reasoning" in body:  # the model goes on from it in its next turn
        body["include"] = ["reasoning.encrypted_content"]
    if request.stream:
        body["stream"] = True
    return _encode(body)


def _with_ids(items: list[Any]) -> list[Any]:
    """Give each of the assistant's messages an id and a status: the schema requires both."""
    for at, item in enumerate(items):
        if isinstance(item, dict) and item.get("role") == "assistant":
            item |= {"id": f"msg_{at}", "status": "completed"}
    return items


def _uncached(texts: tuple[Part, ...], report: Report) -> Iterator[Text]:
    for text in texts:
        if isinstance(text, Text):
            if text.cached:
                report.meet("cache_control")
            yield text


def _settings(request: Conversation, report: Report) -> dict[str, Any]:
    """What has to do with reasoning, the answer's text, and all that only one format has."""
    found: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {"reasoning": {}, "text": {}}
    if effort := openai_effort_of(request, report):
        inner["reasoning"]["effort"] = effort
    if request.shape is not None:
        shape = request.shape
        form: dict[str, Any] = {"type": "json_object"}
        if bytes(shape.schema):
            form = {"type": "json_schema", "name": shape.name or "answer", "schema": shape.schema}
            if shape.strict is not None:
                form["strict"] = shape.strict
        inner["text"]["format"] = form
    shared = _OF_CHAT if report.source is WireFormat.CHAT else None
    own = report.source is _OWN
    for name, raw in (request.options if own else foreign_members(request, report, shared)).items():
        group, _, member = name.partition(".")
        if member and group in inner:
            inner[group][member] = raw
        else:
            found[name] = raw
    if report.source is not _OWN:
        found.setdefault("store", False)  # the other formats keep nothing unless asked; this one would
    return found | {name: members for name, members in inner.items() if members}


def _choice(request: Conversation, report: Report) -> str | dict[str, str]:
    choice = request.choice
    assert choice is not None  # noqa: S101 - the caller has looked
    if choice.mode != "named":
        return choice.mode
    kind = next((tool.kind for tool in request.tools if tool.name == choice.name), "function")
    if kind in {"function", "custom"}:
        return {"type": kind, "name": flat_name("", choice.name)}
    return {"type": kind} if report.source is _OWN else {"type": "function", "name": choice.name}


def _tools(tools: tuple[Tool, ...], report: Report) -> Iterator[msgspec.Raw | dict[str, Any]]:
    for namespace, group in groupby(tools, key=lambda tool: tool.namespace):
        written = [_tool(each, report) for each in group]
        if namespace:
            yield {"type": "namespace", "name": namespace, "description": namespace, "tools": written}
        else:
            yield from written


def _tool(tool: Tool, report: Report) -> msgspec.Raw | dict[str, Any]:
    if tool.kind == "function":
        return _function(tool, strict=tool.strict if report.source is _OWN else bool(tool.strict))
    if tool.kind == "custom":
        return tool.raw if report.source is _OWN else _custom(tool)
    return tool.raw


def _function(tool: Tool, *, strict: bool | None) -> dict[str, Any]:
    """A function. ``strict`` is written out, since here a function is strict unless it says otherwise."""
    schema = tool.schema if bytes(tool.schema) else _NO_PARAMETERS
    name = flat_name("", tool.name)
    written: dict[str, Any] = {"type": "function", "name": name, "parameters": schema}
    if tool.description:
        written["description"] = tool.description
    if strict is not None:
        written["strict"] = strict
    return written


def _custom(tool: Tool) -> dict[str, Any]:
    """A custom tool of another format, whose reader may have kept its grammar as it stands here."""
    written: dict[str, Any] = {"type": "custom", "name": flat_name("", tool.name)}
    if tool.description:
        written["description"] = tool.description
    whole = msgspec.json.decode(tool.raw) if bytes(tool.raw) else {}
    form = whole.get("format") if isinstance(whole, dict) else None
    return written | ({"format": form} if isinstance(form, dict) else {})
