"""A ``Conversation`` as a Responses request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import msgspec

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import CONSTRUCTS, Report
from pointsman.wire.conversation import Conversation, Part, Text, Tool
from pointsman.wire.responses._translation_write_items import write_items

__all__ = ["write_request"]

_encode: Final = msgspec.json.encode
_OWN: Final = WireFormat.RESPONSES

#: Members that a chat request and a Responses request have alike.
_OF_CHAT: Final = frozenset(
    {
        "metadata",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
    }
)
#: Members of other formats and the construct that each is, where that has another name.
_CONSTRUCTS: Final = {
    "frequency_penalty": "penalties",
    "presence_penalty": "penalties",
    "modalities": "audio",
    "top_logprobs": "logprobs",
    "web_search_options": "server_tool",
}
#: Values that say what would be so without them.
_NEUTRAL: Final = {
    "n": (b"1",),
    "logprobs": (b"false",),
    "top_logprobs": (b"0",),
    "frequency_penalty": (b"0", b"0.0"),
    "presence_penalty": (b"0", b"0.0"),
    "logit_bias": (b"{}",),
    "modalities": (b'["text"]',),
    "mcp_servers": (b"[]",),
    "service_tier": (b'"auto"',),
}
#: Usage always comes, and obfuscation of deltas is nothing that a caller of another format sees.
_IMPLIED: Final = frozenset({"stream_options"})

_LOW, _MEDIUM = 4_096, 16_384  # tokens of thinking up to which an effort is low, is medium: see CONSTRUCTS
_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


def write_request(request: Conversation, report: Report) -> bytes:
    """Return the body. Raises ``Untranslatable``."""
    body: dict[str, Any] = {"model": request.model}
    system = "\n\n".join(text.text for text in _uncached(request.system, report) if text.text)
    if system:
        body["instructions"] = system
    body["input"] = [item for message in request.messages for item in write_items(message, report)]
    if request.tools:
        body["tools"] = list(_tools(request.tools, report))
    if request.choice is not None:
        body["tool_choice"] = _choice(request)
    plain = {
        "parallel_tool_calls": request.parallel,
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "user": request.user or None,
    }
    body |= {name: value for name, value in plain.items() if value is not None}
    if request.stop:
        report.meet("stop")
    body |= _settings(request, report)
    if report.source is not _OWN and "reasoning" in body:  # the model goes on from it in its next turn
        body["include"] = ["reasoning.encrypted_content"]
    if request.stream:
        body["stream"] = True
    return _encode(body)


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
    if effort := _effort(request, report):
        inner["reasoning"]["effort"] = effort
    if request.shape is not None:
        shape = request.shape
        form: dict[str, Any] = {"type": "json_object"}
        if bytes(shape.schema):
            form = {"type": "json_schema", "name": shape.name or "answer", "schema": shape.schema}
            if shape.strict is not None:
                form["strict"] = shape.strict
        inner["text"]["format"] = form
    for name, raw in request.options.items():
        group, _, member = name.partition(".")
        if report.source is _OWN and member and group in inner:
            inner[group][member] = raw
        elif report.source is _OWN:
            found[name] = raw
        elif report.source is WireFormat.CHAT and name == "verbosity":
            inner["text"]["verbosity"] = raw
        else:
            found |= _foreign(name, raw, report)
    if report.source is not _OWN:
        found.setdefault("store", False)  # the other formats keep nothing unless asked; this one would
    return found | {name: members for name, members in inner.items() if members}


def _foreign(name: str, raw: msgspec.Raw, report: Report) -> dict[str, Any]:
    """Members that stand for one of another format, which the form has no place for."""
    value = bytes(raw)
    if name in _IMPLIED or value == b"null" or value in _NEUTRAL.get(name, ()):
        return {}
    if report.source is WireFormat.CHAT and name in _OF_CHAT:
        return {name: raw}
    construct = _CONSTRUCTS.get(name, name)
    row = CONSTRUCTS.get(construct)
    report.meet(construct if row is not None and _OWN in row.fates else "unknown", name)
    return {}


def _effort(request: Conversation, report: Report) -> str:
    budget = request.thinking_budget
    if budget is None or request.effort:
        return request.effort
    report.meet("thinking_budget")
    if budget <= 0:  # not "none", which models without reasoning refuse
        return ""
    return "low" if budget <= _LOW else "medium" if budget <= _MEDIUM else "high"


def _choice(request: Conversation) -> str | dict[str, str]:
    choice = request.choice
    assert choice is not None  # noqa: S101 - the caller has looked
    if choice.mode != "named":
        return choice.mode
    kind = next((tool.kind for tool in request.tools if tool.name == choice.name), "function")
    return {"type": kind, "name": choice.name} if kind in {"function", "custom"} else {"type": kind}


def _tools(tools: tuple[Tool, ...], report: Report) -> Iterator[msgspec.Raw | dict[str, Any]]:
    for namespace, group in groupby(tools, key=lambda tool: tool.namespace):
        written = [tool for each in group if (tool := _tool(each, report)) is not None]
        if namespace:
            yield {"type": "namespace", "name": namespace, "description": namespace, "tools": written}
        else:
            yield from written


def _tool(tool: Tool, report: Report) -> msgspec.Raw | dict[str, Any] | None:
    if tool.kind == "function":
        return _function(tool, strict=tool.strict if report.source is _OWN else bool(tool.strict))
    if tool.kind == "custom":
        return tool.raw if report.source is _OWN else _custom(tool)
    return tool.raw if report.source is _OWN or report.meet("server_tool", tool.name or "tools") else None


def _function(tool: Tool, *, strict: bool | None) -> dict[str, Any]:
    """A function. ``strict`` is written out, since here a function is strict unless it says otherwise."""
    schema = tool.schema if bytes(tool.schema) else _NO_PARAMETERS
    written: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": schema}
    if tool.description:
        written["description"] = tool.description
    if strict is not None:
        written["strict"] = strict
    return written


def _custom(tool: Tool) -> dict[str, Any]:
    """A custom tool of another format, whose reader may have kept its grammar as it stands here."""
    written: dict[str, Any] = {"type": "custom", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    whole = msgspec.json.decode(tool.raw) if bytes(tool.raw) else {}
    form = whole.get("format") if isinstance(whole, dict) else None
    return written | ({"format": form} if isinstance(form, dict) else {})
