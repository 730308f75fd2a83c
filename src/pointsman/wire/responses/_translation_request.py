"""A Responses request as a ``Conversation``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, decode_members, why_unreadable
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role
from pointsman.wire.constructs import unknown_members
from pointsman.wire.conversation import Conversation, Message, Shape, Text, Tool, ToolChoice
from pointsman.wire.responses import (
    NO_SETTINGS,
    Settings,
    begins_with_settings,
    holds_settings,
    take_settings,
)
from pointsman.wire.responses._translation_items import (
    is_unknown,
    item_type,
    merged,
    read_item,
    read_items,
    unknown_in,
)

_Members = dict[str, msgspec.Raw]

#: Members that say what would be so without them.
_DEFAULTS: Final = {
    "background": b"false",
    "truncation": b'"disabled"',
    "top_logprobs": b"0",
    "include": b"[]",
    "metadata": b"{}",
}


class _Tool(msgspec.Struct, gc=False):
    type: str = "function"
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()
    strict: bool | None = None
    tools: list[msgspec.Raw] = []  # of a namespace
    format: msgspec.Raw = msgspec.Raw()  # of a custom tool


class _KnownTool(_Tool, gc=False, forbid_unknown_fields=True): ...


class _ToolHead(msgspec.Struct, gc=False):
    type: str = "function"


class _Allowed(msgspec.Struct, gc=False):
    type: str = "function"
    name: str = ""


class _Choice(msgspec.Struct, gc=False):
    type: str
    name: str = ""
    mode: str = "auto"
    tools: list[_Allowed] = []


class _Format(msgspec.Struct, gc=False):
    type: str = "text"
    name: str = ""
    strict: bool | None = None
    schema: msgspec.Raw = msgspec.Raw()


_NONE: Final = msgspec.Raw(b"[]")


def read_request(body: bytes) -> Conversation:
    """Read a request. Raises ``MalformedRequest`` with the member at fault."""
    try:
        return _read(decode_members(body))
    except UNREADABLE as error:
        raise MalformedRequest(f"the request body cannot be read: {why_unreadable(error)}") from None


def _read(members: _Members) -> Conversation:
    found = {name: raw for name, raw in members.items() if bytes(raw) != b"null"}
    unknown: _Members = {}
    system, messages, settings = _conversation(found, unknown)
    tools = tuple(_tools(found, settings.tools, unknown))
    choice, tools = _choice(found, tools)
    if settings.compacts and tools:
        choice = ToolChoice("none")
    reasoning = _take(found, "reasoning", _Members | None) or {}
    text = _take(found, "text", _Members | None) or {}
    shape = _shape(text)
    return Conversation(
        model=_take(found, "model", str | None) or "",
        system=system,
        messages=messages,
        tools=tools,
        choice=choice,
        parallel=_take(found, "parallel_tool_calls", bool | None),
        max_tokens=_take(found, "max_output_tokens", int | None),
        temperature=_take(found, "temperature", float | None),
        top_p=_take(found, "top_p", float | None),
        stream=bool(_take(found, "stream", bool | None)),
        shape=shape,
        effort=_take(reasoning, "effort", str | None, "reasoning.effort") or settings.effort,
        compacts=settings.compacts,
        user=_take(found, "user", str | None) or "",
        options=_options(found, reasoning, text) | unknown,
    )


def _take(members: _Members, name: str, shape: Any, field: str = "") -> Any:
    """Decode a member and take it out; None when there is none."""
    raw = members.pop(name, None)
    return None if raw is None else _decoded(raw, shape, field or name)


def _decoded(raw: msgspec.Raw, shape: Any, field: str) -> Any:
    try:
        return msgspec.json.decode(raw, type=shape)
    except UNREADABLE as error:
        raise _malformed(field, error) from None


def _malformed(field: str, error: Exception) -> MalformedRequest:
    return MalformedRequest(f'"{field}" is malformed: {why_unreadable(error)}', param=field)


def _options(found: _Members, reasoning: _Members, text: _Members) -> _Members:
    """Every member that the form has no place for, those inside ``reasoning`` and ``text`` by their path."""
    options = {name: raw for name, raw in found.items() if _DEFAULTS.get(name) != bytes(raw)}
    options |= {f"reasoning.{name}": raw for name, raw in reasoning.items() if bytes(raw) != b"null"}
    options |= {f"text.{name}": raw for name, raw in text.items() if bytes(raw) != b"null"}
    return options


def _conversation(
    found: _Members, unknown: _Members
) -> tuple[tuple[Text, ...], tuple[Message, ...], Settings]:
    """Take ``instructions`` and ``input``: the system text first, the messages, and settings among them.

    Unknown members of the items are added to ``unknown`` by their place.
    """
    system = _instructions(_take(found, "instructions", str | list[msgspec.Raw] | None))
    settings, quick = _quick(found)
    if quick is None:
        raw = found.get("input", _NONE)
        given = _take(found, "input", list[msgspec.Raw] | str | None)
        if isinstance(given, str):
            return tuple(system), (Message(Role.USER, (Text(given),)),), settings
        messages = merged(_items(given or []))
        unknown |= unknown_in(raw)
    else:
        found.pop("input", None)
        messages = quick
    first = next(
        (at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages)
    )
    system += _texts(messages[:first])
    return tuple(system), messages[first:], settings


def _quick(found: _Members) -> tuple[Settings, tuple[Message, ...] | None]:
    """Read ``input`` in one go, without the settings in it; None for items that must be read one by one."""
    given = found.get("input")
    if given is None:
        return NO_SETTINGS, ()
    quick = None if begins_with_settings(given) else read_items(given)
    if quick is not None or not holds_settings(bytes(given)):
        return NO_SETTINGS, quick
    settings = take_settings(given)
    found["input"] = settings.rest
    return settings, read_items(settings.rest)


def _instructions(given: str | list[msgspec.Raw] | None) -> list[Text]:
    if isinstance(given, str):
        return [Text(given)] if given else []
    return _texts(tuple(_items(given or [], "instructions")))


def _texts(messages: tuple[Message, ...]) -> list[Text]:
    return [part for message in messages for part in message.parts if isinstance(part, Text)]


def _items(raws: list[msgspec.Raw], member: str = "input") -> Iterator[Message]:
    for at, raw in enumerate(raws):
        try:
            if not is_unknown(item_type(raw)):
                yield read_item(raw)
        except UNREADABLE as error:
            raise _malformed(f"{member}[{at}]", error) from None


def _tools(found: _Members, additional: Iterable[msgspec.Raw], unknown: _Members) -> Iterator[Tool]:
    """Take the tools; their members that are not known are added to ``unknown`` by their place."""
    for at, raw in enumerate(_take(found, "tools", list[msgspec.Raw] | None) or ()):
        yield from _tool(raw, f"tools[{at}]", "", unknown)
    for at, raw in enumerate(additional):
        yield from _tool(raw, f"additional_tools[{at}]", "", unknown)


def _tool(raw: msgspec.Raw, field: str, namespace: str, unknown: _Members) -> Iterator[Tool]:
    kind = _decoded(raw, _ToolHead, field).type
    if kind not in {"function", "custom", "namespace"}:
        yield Tool(kind, kind=kind, namespace=namespace, raw=raw)
        return
    try:
        tool: _Tool = msgspec.json.decode(raw, type=_KnownTool)
    except UNREADABLE:
        tool = _decoded(raw, _Tool, field)
        unknown |= unknown_members(raw, _Tool, "tools.")
    if kind == "namespace":
        for at, inner in enumerate(tool.tools):
            yield from _tool(inner, f"{field}.tools[{at}]", tool.name, unknown)
        return
    schema = tool.parameters if bytes(tool.parameters) != b"null" else msgspec.Raw()
    yield Tool(
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        strict=tool.strict,
        kind=kind,
        namespace=namespace,
        raw=raw if kind == "custom" else msgspec.Raw(),
    )


def _choice(found: _Members, tools: tuple[Tool, ...]) -> tuple[ToolChoice | None, tuple[Tool, ...]]:
    """Take ``tool_choice``. Of the tools only the allowed ones stay, where the choice names such."""
    choice: _Choice | str | None = _take(found, "tool_choice", _Choice | str | None)
    if choice is None:
        return None, tools
    if isinstance(choice, str):
        return _mode(choice), tools
    if choice.type != "allowed_tools":
        return ToolChoice("named", choice.name or choice.type), tools
    allowed = {tool.name or tool.type for tool in choice.tools}
    return _mode(choice.mode), tuple(tool for tool in tools if tool.name in allowed)


def _mode(mode: str) -> ToolChoice:
    if mode == "auto":
        return ToolChoice("auto")
    if mode == "none":
        return ToolChoice("none")
    if mode == "required":
        return ToolChoice("required")
    raise MalformedRequest(
        f'"tool_choice" must be auto, none, required or an object, not {mode[:40]!r}', param="tool_choice"
    )


def _shape(text: _Members) -> Shape | None:
    """Take the demanded shape out of ``text``; its description stays, for whoever can say it."""
    raw = text.pop("format", None)
    if raw is None:
        return None
    form: _Format = _decoded(raw, _Format, "text.format")
    if form.type == "json_schema":
        return Shape(form.schema, form.name, form.strict)
    if form.type == "json_object":
        return Shape()
    if form.type != "text":
        text["format"] = raw
    return None
