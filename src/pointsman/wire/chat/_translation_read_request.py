"""A chat completions request, read into the form that every format shares.

Accepted in addition to the members that OpenAI documents today: ``functions`` and ``function_call``, the
tools of 2023; reasoning in assistant messages; ``is_error`` on results, as recorded runs have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import UNREADABLE, decode_members, why_unreadable, without_halves
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role
from pointsman.wire.chat._translation_messages import KnownMessage, WireMessage, read_messages
from pointsman.wire.constructs import unknown_members
from pointsman.wire.conversation import Conversation, Message, Shape, Text, Tool, ToolChoice

_ABSENT: Final = msgspec.Raw()
_NULL: Final = b"null"

#: The member by which a caller asks OpenAI to search the web: a server tool that is no entry of ``tools``.
WEB_SEARCH: Final = "web_search_options"

#: What is reported of names in messages; no member of a request has this name.
PARTICIPANT: Final = "messages.name"

#: Options that say what holds without them: not handed on, so that no target refuses them.
_DEFAULTS: Final[Mapping[str, object]] = {
    "n": 1,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "store": False,
    "modalities": ["text"],
    "service_tier": "auto",
}


_Mode: TypeAlias = Literal["auto", "none", "required"]
_MODES: Final[Mapping[str, _Mode]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral's word
}


class _Named(msgspec.Struct, gc=False):
    name: str = ""


class _Function(msgspec.Struct, gc=False):
    name: str
    description: str | None = None
    parameters: msgspec.Raw = _ABSENT
    strict: bool | None = None


class _Grammar(msgspec.Struct, gc=False):
    definition: str
    syntax: str


class _InputFormat(msgspec.Struct, gc=False):
    type: str
    grammar: _Grammar | None = None


class _Custom(msgspec.Struct, gc=False):
    name: str
    description: str | None = None
    format: _InputFormat | None = None


class _Tool(msgspec.Struct, gc=False):
    type: str = "function"
    function: _Function | None = None
    custom: _Custom | None = None


class _AllowedTool(msgspec.Struct, gc=False):
    function: _Named | None = None
    custom: _Named | None = None


class _AllowedTools(msgspec.Struct, gc=False):
    mode: str = "auto"
    tools: list[_AllowedTool] = []


class _Choice(msgspec.Struct, gc=False):
    type: str = ""
    function: _Named | None = None
    custom: _Named | None = None
    allowed_tools: _AllowedTools | None = None


class _Schema(msgspec.Struct, gc=False):
    name: str = ""
    description: str | None = None
    schema: msgspec.Raw = _ABSENT
    strict: bool | None = None


class _Format(msgspec.Struct, gc=False):
    type: str
    json_schema: _Schema | None = None


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class _KnownChoice(_Choice, gc=False, forbid_unknown_fields=True): ...


class _KnownSchema(_Schema, gc=False, forbid_unknown_fields=True): ...


class _KnownFormat(_Format, gc=False, forbid_unknown_fields=True):
    json_schema: _KnownSchema | None = None


class _KnownStreamOptions(_StreamOptions, gc=False, forbid_unknown_fields=True): ...


class _KnownFunction(_Function, gc=False, forbid_unknown_fields=True): ...


class _KnownTool(_Tool, gc=False, forbid_unknown_fields=True):
    function: _KnownFunction | None = None


class _Reasoning(msgspec.Struct, gc=False):
    effort: str | None = None
    max_tokens: int | None = None


class _Thinking(msgspec.Struct, gc=False):
    type: str = ""
    budget_tokens: int | None = None


class _Request(msgspec.Struct, gc=False):
    model: str
    messages: list[WireMessage]
    tools: list[msgspec.Raw] | None = None
    functions: list[_Function] | None = None
    tool_choice: str | _Choice | None = None
    function_call: str | _Named | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    response_format: _Format | None = None
    reasoning_effort: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    reasoning: _Reasoning | None = None  # OpenRouter
    thinking: _Thinking | None = None  # servers that speak chat for models of Messages


class _KnownRequest(_Request, gc=False):
    """The same without members that are not known inside its messages and settings."""

    messages: list[KnownMessage]  # type: ignore[assignment]
    tool_choice: str | _KnownChoice | None = None
    stream_options: _KnownStreamOptions | None = None
    response_format: _KnownFormat | None = None


_KNOWN: Final = frozenset(_Request.__struct_fields__)
_decode: Final = msgspec.json.Decoder(_Request).decode
_decode_known: Final = msgspec.json.Decoder(_KnownRequest).decode
_decode_known_tool: Final = msgspec.json.Decoder(_KnownTool).decode
_decode_tool: Final = msgspec.json.Decoder(_Tool).decode


def read_request(body: bytes) -> Conversation:
    """Read a request.

    Raises:
        MalformedRequest: it is not JSON or not of this format's shape; the message names the place.
    """
    try:
        return _read(body)
    except (*UNREADABLE, MalformedRequest):  # perhaps for half of an emoji: looking for one takes longer
        try:
            return _read(without_halves(body))
        except UNREADABLE as error:
            raise MalformedRequest(f"not a chat completions request: {why_unreadable(error)}") from error


def _read(body: bytes) -> Conversation:
    members = decode_members(body)
    try:
        return _conversation(_decode_known(body), members, {})
    except msgspec.ValidationError:  # a further member, or another shape
        request = _decode(body)
    inside = unknown_members(body, _Request).items()
    return _conversation(request, members, {place: raw for place, raw in inside if "." in place})


def _conversation(
    request: _Request, members: Mapping[str, msgspec.Raw], unknown: dict[str, msgspec.Raw]
) -> Conversation:
    """Put a request together; ``unknown``: members inside it that have no field, by place."""
    system, messages = _without_system(read_messages(request.messages))
    tools = [_tool(raw, unknown) for raw in request.tools or ()] + [
        _function(tool) for tool in request.functions or ()
    ]
    if WEB_SEARCH in members:
        tools.append(Tool("web_search", kind=WEB_SEARCH, raw=members[WEB_SEARCH]))
    choice, allowed = _choice(request)
    if allowed is not None:
        tools = [tool for tool in tools if tool.name in allowed]
    limit = request.max_completion_tokens
    stop = request.stop or ()
    return Conversation(
        model=request.model,
        system=system,
        messages=messages,
        tools=tuple(tools),
        choice=choice,
        parallel=request.parallel_tool_calls,
        max_tokens=request.max_tokens if limit is None else limit,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stream=bool(request.stream),
        stream_usage=not request.stream or _wants_usage(request.stream_options),
        shape=_shape(request.response_format),
        effort=request.reasoning_effort or (request.reasoning and request.reasoning.effort) or "",
        thinking_budget=_budget(request),
        user=request.user or request.safety_identifier or "",
        options=_options(members) | _participant(request.messages) | unknown,
    )


def _budget(request: _Request) -> int | None:
    thinking = request.thinking
    if thinking is None:
        return request.reasoning.max_tokens if request.reasoning else None
    return 0 if thinking.type == "disabled" else thinking.budget_tokens


def _wants_usage(options: _StreamOptions | None) -> bool:
    return options is not None and bool(options.include_usage)


def _without_system(messages: Iterable[Message]) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """Take the system and developer texts before the first other message out of the messages."""
    system: list[Text] = []
    rest: list[Message] = []
    for message in messages:
        if rest or message.role is not Role.SYSTEM:
            rest.append(message)
        else:
            system += [part for part in message.parts if isinstance(part, Text)]
    return tuple(system), tuple(rest)


def _participant(messages: Iterable[WireMessage]) -> dict[str, msgspec.Raw]:
    """The name of a message's author, if any has one; a result has its function's."""
    for message in messages:
        if message.name and message.role not in {"tool", "function"}:
            return {PARTICIPANT: msgspec.Raw(_encode(message.name))}
    return {}


def _options(members: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return {
        name: raw
        for name, raw in members.items()
        if name not in _KNOWN and name != WEB_SEARCH and bytes(raw) != _NULL and not _is_default(name, raw)
    }


def _is_default(name: str, raw: msgspec.Raw) -> bool:
    return name in _DEFAULTS and bool(msgspec.json.decode(raw) == _DEFAULTS[name])


def _tool(raw: msgspec.Raw, unknown: dict[str, msgspec.Raw]) -> Tool:
    """Read a tool; members that are not known are added by their place."""
    try:
        tool: _Tool = _decode_known_tool(raw)
    except msgspec.ValidationError:
        tool = _decode_tool(raw)
        if tool.type == "function":
            unknown |= unknown_members(raw, _Tool, "tools.")
    if tool.function is not None and tool.type == "function":
        return _function(tool.function)
    if tool.custom is not None and tool.type == "custom":
        return _custom(tool.custom)
    return Tool(tool.type, kind=tool.type, raw=raw)


def _function(function: _Function) -> Tool:
    schema = _ABSENT if bytes(function.parameters) == _NULL else function.parameters
    return Tool(function.name, function.description or "", schema, function.strict)


def _custom(custom: _Custom) -> Tool:
    """A tool of free text. Its ``raw`` is written as Responses nests it: that format alone takes it over."""
    raw: dict[str, Any] = {"type": "custom", "name": custom.name}
    if custom.description:
        raw["description"] = custom.description
    if custom.format is not None:
        grammar = msgspec.structs.asdict(custom.format.grammar) if custom.format.grammar else {}
        raw["format"] = {"type": custom.format.type, **grammar}
    return Tool(custom.name, custom.description or "", kind="custom", raw=msgspec.Raw(_encode(raw)))


def _choice(request: _Request) -> tuple[ToolChoice | None, frozenset[str] | None]:
    """The demanded choice, and the only tools allowed if they are named: the others are then not offered."""
    asked = request.tool_choice if request.tool_choice is not None else request.function_call
    if asked is None:
        return None, None
    if isinstance(asked, str):
        return ToolChoice(_mode(asked)), None
    if isinstance(asked, _Named):
        return ToolChoice("named", asked.name), None
    if allowed := asked.allowed_tools:
        named = [tool.function or tool.custom for tool in allowed.tools]
        return ToolChoice(_mode(allowed.mode)), frozenset(found.name for found in named if found)
    if found := asked.function or asked.custom:
        return ToolChoice("named", found.name), None
    return ToolChoice(_mode(asked.type)), None


def _mode(word: str) -> _Mode:
    mode = _MODES.get(word)
    if mode is None:
        raise MalformedRequest(
            f'"tool_choice" is "{word}": it is "auto", "none", "required" or names a tool',
            param="tool_choice",
        )
    return mode


def _shape(asked: _Format | None) -> Shape | None:
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return Shape()
    if asked.type == "json_schema" and asked.json_schema:
        found = asked.json_schema
        return Shape(found.schema, found.name, found.strict)
    raise MalformedRequest(
        '"response_format" is of type "text", "json_object", or "json_schema" with a member "json_schema"',
        param="response_format",
    )
