"""A ``Conversation`` as a Responses request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.vocabulary import ASSISTANT, SYSTEM, TOOL, ToolCall, WireFormat
from pointsman.wire.constructs import Report, foreign_members
from pointsman.wire.conversation import (
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from pointsman.wire.items import present
from pointsman.wire.models import openai_effort_of, openai_sampling, user_name
from pointsman.wire.responses._translation_answer import summary_part
from pointsman.wire.responses._translation_items import BUILT_IN, action_of
from pointsman.wire.tools import plain_name, portable_tools, short

# Messages of the form as items of a Responses request.
_OWN: Final = WireFormat.RESPONSES
_MAX_ID: Final = 64  # characters of a ``call_id``


class _Called(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="function_call"):
    """A call of a function: structs are made and encoded faster than objects, and most items are these."""

    call_id: str
    name: str
    arguments: str


class _Returned(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="function_call_output"):
    call_id: str
    output: str


def write_items(message: Message, report: Report) -> list[Any]:
    """The items of one message, in their order; results come before a user's words."""
    parts = message.parts
    if message.role is ASSISTANT:
        return _assistant(parts, report)
    items: list[Any] = [_result(part, report) for part in parts if type(part) is Result]
    if len(items) == len(parts):
        return items
    rest = [part for part in parts if type(part) is not Result]
    if message.role is TOOL:
        items += filter(None, [_act(part, report) for part in rest if type(part) is Opaque])
        rest = [part for part in rest if type(part) is not Opaque]
    content = [written for part in rest if (written := _content(part, report)) is not None]
    if content:
        role = "developer" if message.role is SYSTEM else "user"
        items.append({"type": "message", "role": role, "content": content})
    return items


def _assistant(parts: tuple[Part, ...], report: Report) -> list[Any]:
    """Words in a row are one message; every other part is an item."""
    items: list[Any] = []
    words: list[dict[str, Any]] | None = None  # of the message that is open
    for part in parts:
        if type(part) is ToolCall:
            words = None
            items.append(_call(part))
        elif type(part) is Text or type(part) is Refusal:
            if (said := _said(part, report)) is None:
                continue
            if words is None:
                words = []
                items.append({"type": "message", "role": "assistant", "content": words})
            words.append(said)
        else:
            words = None
            if (written := _act(part, report)) is not None:
                items.append(written)
    return items


def _said(part: Text | Refusal, report: Report) -> dict[str, Any] | None:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    if part.cached:
        report.meet("cache_control")
    return {"type": "output_text", "text": part.text, "annotations": []} if part.text else None


def _act(part: Part, report: Report) -> Any:
    """A part other than text and calls, as an item; None for nothing."""
    match part:
        case Result():
            return _result(part, report)
        case Thinking():
            if _OWN in {report.source, part.author}:
                return _thinking(part)
            report.meet("thinking_history")
        case Opaque():
            if part.format is _OWN:
                return part.raw
            report.meet_opaque(part.kind, part.kind)
        case _:  # an image among the model's words, where this format takes text alone
            report.meet("media_of_assistant")
    return None


def _thinking(part: Thinking) -> dict[str, Any]:
    summary = [summary_part(part.text)] if part.text else []
    return present(
        type="reasoning",
        summary=summary,
        id=part.id or None,
        encrypted_content=part.encrypted or None,
    )


def _call(call: ToolCall) -> _Called | dict[str, Any]:
    call_id = call.id if len(call.id) <= _MAX_ID else short(call.id, _MAX_ID)
    if not (call.built_in or call.custom or call.namespace):
        return _Called(call_id, plain_name(call.name), call.arguments or "{}")
    if tool := call.built_in:
        return {"type": BUILT_IN[tool].call, "call_id": call_id, **action_of(tool, call.arguments)}
    return present(
        type="custom_tool_call" if call.custom else "function_call",
        call_id=call_id,
        name=plain_name(call.name),
        namespace=call.namespace or None,
        **({"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"}),
    )


def _result(result: Result, report: Report) -> _Returned | dict[str, Any]:
    call_id = result.call_id if len(result.call_id) <= _MAX_ID else short(result.call_id, _MAX_ID)
    if not (result.parts or result.is_error or result.custom or result.local_shell):
        return _Returned(call_id, result.text)
    kind = "custom_tool_call_output" if result.custom else "function_call_output"
    kind = "local_shell_call_output" if result.local_shell else kind
    output = _output(result, report) if result.parts or result.is_error else result.text
    return {"type": kind, "call_id": call_id, "output": output}


def _output(result: Result, report: Report) -> str | list[Any]:
    """Write a result that is an error, or more than one plain text."""
    parts = result.content
    if result.is_error and not report.meet("is_error"):
        parts = _marked(parts)
    written = [content for part in parts if (content := _content(part, report)) is not None]
    texts = [part["text"] for part in written if part["type"] == "input_text"]
    plain = len(texts) == len(written) and len(texts) < 2
    return "".join(texts) if plain else written


def _marked(parts: tuple[Text | Media, ...]) -> tuple[Text | Media, ...]:
    if parts and isinstance(parts[0], Text):
        return Text(f"Error: {parts[0].text}"), *parts[1:]
    return Text("Error: "), *parts


def _content(part: Part, report: Report) -> Any:
    """One part of a user's or developer's message, or of a result; None for nothing."""
    match part:
        case Text():
            if part.cached:
                report.meet("cache_control")
            return {"type": "input_text", "text": part.text} if part.text else None
        case Refusal():
            return {"type": "input_text", "text": part.text} if part.text else None
        case Media():
            return _media(part, report)
        case Opaque() if part.format is _OWN:
            return part.raw
        case Opaque():
            report.meet_opaque(part.kind, part.kind)
    return None


def _media(media: Media, report: Report) -> dict[str, Any] | None:
    if media.kind == "audio" and not (report.source is _OWN or report.meet("audio", "input_audio")):
        return None
    if media.file_id and report.source is not _OWN:
        report.meet("file_id")
    if media.kind == "audio":
        sound = {"data": media.data, "format": media.media_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    own = {"file_id": media.file_id} if media.file_id else {}
    if media.kind == "image":
        url = f"data:{media.media_type};base64,{media.data}" if media.data else media.url
        image = {"type": "input_image", "detail": media.detail or "auto"}
        return image | (own or {"image_url": url})
    return {"type": "input_file"} | (own or _file(media))


def _file(media: Media) -> dict[str, Any]:
    if not media.data:
        return {"file_url": media.url}  # a name beside an address is refused
    data = f"data:{media.media_type or 'application/pdf'};base64,{media.data}"
    return {"filename": media.name or "document.pdf", "file_data": data}


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
    system = "\n\n".join(text.text for text in _uncached(request.system, report) if text.text)
    items = [item for message in request.messages for item in write_items(message, report)]
    body = {
        "model": request.model,
        "instructions": system or None,
        "input": items if report.source is _OWN else _with_ids(items),
        "tools": list(_tools(request, report)) if request.tools else None,
        "tool_choice": request.choice and _choice(request.choice, request.tools, report),
        "parallel_tool_calls": request.parallel,
        "max_output_tokens": request.max_tokens,
        **openai_sampling(request, report),
        "user": user_name(request.user, report) if request.user else None,
        **_settings(request, report),
        "stream": request.stream or None,
    }
    return _encode(present(**body))


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
    """Members for reasoning, for the answer's text, and those that only one format has."""
    report.keep_stops(request.stop)
    found: dict[str, Any] = {}
    inner: dict[str, Any] = {
        "reasoning": present(effort=openai_effort_of(request, report) or None),
        "text": present(format=request.shape and _form(request.shape)),
    }
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
    if report.source is not _OWN and inner["reasoning"]:  # the model goes on from it in its next turn
        inner["include"] = ["reasoning.encrypted_content"]
    return found | {name: members for name, members in inner.items() if members}


def _form(shape: Shape) -> dict[str, Any]:
    if not bytes(shape.schema):
        return {"type": "json_object"}
    form = {"type": "json_schema", "name": shape.name or "answer", "schema": shape.schema}
    return present(**form, strict=shape.strict)


def _choice(choice: ToolChoice, tools: tuple[Tool, ...], report: Report) -> str | dict[str, str]:
    if choice.mode != "named":
        return choice.mode
    kind = next((tool.kind for tool in tools if tool.name == choice.name), "function")
    if kind in {"function", "custom"}:
        return {"type": kind, "name": plain_name(choice.name)}
    return {"type": kind} if report.source is _OWN else {"type": "function", "name": choice.name}


def _tools(request: Conversation, report: Report) -> Iterator[msgspec.Raw | dict[str, Any]]:
    tools = request.tools if report.source is _OWN else portable_tools(request, report)
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
    """A function. ``strict`` is always written, since in this format a function is strict by default."""
    schema = tool.schema if bytes(tool.schema) else _NO_PARAMETERS
    return present(
        type="function",
        name=plain_name(tool.name),
        parameters=schema,
        description=tool.description or None,
        strict=strict,
    )


def _custom(tool: Tool) -> dict[str, Any]:
    """A custom tool of another format; its raw form may hold the grammar as this format has it."""
    whole = msgspec.json.decode(tool.raw) if bytes(tool.raw) else {}
    form = whole.get("format") if isinstance(whole, dict) else None
    return present(
        type="custom",
        name=plain_name(tool.name),
        description=tool.description or None,
        format=form if isinstance(form, dict) else None,
    )
