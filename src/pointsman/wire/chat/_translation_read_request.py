"""A chat completions request, read into the form that every format shares.

Accepted in addition to the members that OpenAI documents today: ``functions`` and ``function_call``, the
tools of 2023; reasoning in assistant messages; ``is_error`` on results, as recorded runs have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import UNREADABLE, decode_members, why_unreadable, without_halves
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import ASSISTANT, SYSTEM, TOOL, ToolCall, WireFormat
from pointsman.wire.chat._translation_types import (
    AnswerFormat,
    KnownRequest,
    KnownTool,
    Named,
    Request,
    WireCall,
    WireCustom,
    WireFunction,
    WireImage,
    WireMessage,
    WirePart,
    WireTool,
)
from pointsman.wire.constructs import unknown_members
from pointsman.wire.conversation import (
    ABSENT,
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
from pointsman.wire.items import ROLES, as_json, present, split_data_url
from pointsman.wire.tools import WEB_SEARCH

_NULL: Final = b"null"


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

_KNOWN: Final = frozenset(Request.__struct_fields__)
_decode: Final = msgspec.json.Decoder(Request).decode
_decode_known: Final = msgspec.json.Decoder(KnownRequest).decode
_decode_known_tool: Final = msgspec.json.Decoder(KnownTool).decode
_decode_tool: Final = msgspec.json.Decoder(WireTool).decode
_decode_part: Final = msgspec.json.Decoder(WirePart).decode


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
    inside = unknown_members(body, Request).items()
    return _conversation(request, members, {place: raw for place, raw in inside if "." in place})


def _conversation(
    request: Request, members: Mapping[str, msgspec.Raw], unknown: dict[str, msgspec.Raw]
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
    stop, streaming = request.stop or (), request.stream_options
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
        stream_usage=not request.stream or bool(streaming and streaming.include_usage),
        shape=_shape(request.response_format),
        effort=request.reasoning_effort or (request.reasoning and request.reasoning.effort) or "",
        thinking_budget=_budget(request),
        user=request.user or request.safety_identifier or "",
        options=_options(members) | _participant(request.messages) | unknown,
    )


def _budget(request: Request) -> int | None:
    thinking = request.thinking
    if thinking is None:
        return request.reasoning.max_tokens if request.reasoning else None
    return 0 if thinking.type == "disabled" else thinking.budget_tokens


def _without_system(messages: Iterable[Message]) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """Take the system and developer texts before the first other message out of the messages."""
    system: list[Text] = []
    rest: list[Message] = []
    for message in messages:
        if rest or message.role is not SYSTEM:
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
        if name not in _KNOWN
        and name != WEB_SEARCH
        and bytes(raw) != _NULL
        and not (name in _DEFAULTS and msgspec.json.decode(raw) == _DEFAULTS[name])
    }


def _tool(raw: msgspec.Raw, unknown: dict[str, msgspec.Raw]) -> Tool:
    """Read a tool; members that are not known are added by their place."""
    try:
        tool: WireTool = _decode_known_tool(raw)
    except msgspec.ValidationError:
        tool = _decode_tool(raw)
        if tool.type == "function":
            unknown |= unknown_members(raw, WireTool, "tools.")
    if tool.function is not None and tool.type == "function":
        return _function(tool.function)
    if tool.custom is not None and tool.type == "custom":
        return _custom(tool.custom)
    return Tool(tool.type, kind=tool.type, raw=raw)


def _function(function: WireFunction) -> Tool:
    schema = ABSENT if bytes(function.parameters) == _NULL else function.parameters
    return Tool(function.name, function.description or "", schema, function.strict)


def _custom(custom: WireCustom) -> Tool:
    """A tool of free text. Its ``raw`` is written as Responses nests it: that format alone takes it over."""
    raw = present(type="custom", name=custom.name, description=custom.description or None)
    if custom.format is not None:
        grammar = msgspec.structs.asdict(custom.format.grammar) if custom.format.grammar else {}
        raw["format"] = {"type": custom.format.type, **grammar}
    return Tool(custom.name, custom.description or "", kind="custom", raw=msgspec.Raw(_encode(raw)))


def _choice(request: Request) -> tuple[ToolChoice | None, frozenset[str] | None]:
    """The demanded choice, and the only tools allowed if they are named: the others are then not offered."""
    asked = request.tool_choice if request.tool_choice is not None else request.function_call
    if asked is None:
        return None, None
    if isinstance(asked, str):
        return ToolChoice(_mode(asked)), None
    if isinstance(asked, Named):
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


def _shape(asked: AnswerFormat | None) -> Shape | None:
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


# The messages of a request.
class _LegacyIds:
    """Ids for calls of the time when a conversation held no ids: a result names its function instead."""

    def __init__(self) -> None:
        self._count = 0
        self._last: dict[str, str] = {}

    def of_call(self, name: str) -> str:
        self._count += 1
        self._last[name] = f"call_{self._count}"
        return self._last[name]

    def of_result(self, name: str) -> str:
        return self._last.get(name) or self.of_call(name)


def read_messages(messages: Iterable[WireMessage]) -> Iterator[Message]:
    """Read messages. The results of one assistant turn become one message.

    Raises:
        MalformedRequest: a message has an unknown role or a part of the wrong shape.
    """
    ids, results = _LegacyIds(), list[Part]()
    for at, message in enumerate(messages):
        role, content = ROLES.get(message.role), message.content
        if role is TOOL:
            results.append(_result(message, at, ids))
            continue
        if role is None:
            raise _unknown_role(message.role, at)
        parts: list[Part] = [Text(content)] if content and type(content) is str else _content(content, at)
        if results:
            yield Message(TOOL, tuple(results))
            results = []
        yield Message(role, _assistant(message, parts, ids) if role is ASSISTANT else tuple(parts))
    if results:
        yield Message(TOOL, tuple(results))


def reasoning(*candidates: object) -> str:
    """The reasoning among the members that servers use for it: the first that is a text."""
    for found in candidates:
        if isinstance(found, str) and found:
            return found
    return ""


def read_call(call: WireCall, id_: str = "") -> ToolCall:
    """Read a call, whole or a fragment of one; ``id_`` replaces a missing id."""
    function, custom = call.function, call.custom
    if function is not None:
        given = function.arguments
        arguments = given if type(given) is str else as_json(given)
        return ToolCall(call.id or id_, function.name or "", arguments)
    if custom is None:
        return ToolCall(call.id or id_, "", "")
    return ToolCall(call.id or id_, custom.name or "", custom.input or "", custom=True)


def _unknown_role(word: str, at: int) -> MalformedRequest:
    place = f"messages[{at}].role"
    return MalformedRequest(f'"{place}" is "{word}": known are {", ".join(ROLES)}', param=place)


def _assistant(message: WireMessage, parts: list[Part], ids: _LegacyIds) -> tuple[Part, ...]:
    thought = message.reasoning_content or message.reasoning
    if thought and (thought := reasoning(message.reasoning_content, message.reasoning)):
        parts.insert(0, Thinking(thought))
    if message.refusal:
        parts.append(Refusal(message.refusal))
    if calls := message.tool_calls:
        parts += map(read_call, calls)
    if old := message.function_call:
        name = old.name or ""
        parts.append(ToolCall(ids.of_call(name), name, as_json(old.arguments)))
    return tuple(parts)


def _result(message: WireMessage, at: int, ids: _LegacyIds) -> Result:
    content = message.content
    call_id = message.tool_call_id or ids.of_result(message.name or "")
    if not isinstance(content, list):
        return Result(call_id, content or "", message.is_error is True)
    parts = tuple(part for part in _content(content, at) if isinstance(part, Text | Media))
    return Result.of(call_id, parts, is_error=message.is_error is True)


def _content(content: str | list[msgspec.Raw] | None, at: int) -> list[Part]:
    """Parts in order; empty texts are left out, because Messages refuses them."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    try:
        return [part for raw in content if (part := _part(raw))]
    except UNREADABLE as error:
        place = f"messages[{at}].content"
        raise MalformedRequest(f'"{place}": {why_unreadable(error)}', param=place) from error


def _part(raw: msgspec.Raw) -> Part | None:
    part = _decode_part(raw)
    if part.type in {"text", "input_text", "output_text"}:
        return Text(part.text, part.cache_control is not None) if part.text else None
    if part.refusal is not None:
        return Refusal(part.refusal) if part.refusal else None
    return _media(part) or Opaque(WireFormat.CHAT, part.type, raw)


def _media(part: WirePart) -> Media | None:
    if image := part.image_url:
        return _image(WireImage(image) if isinstance(image, str) else image)
    if file := part.file:
        media_type, data = split_data_url(file.file_data or "")
        name, file_id = file.filename or "", file.file_id or ""
        return Media("document", media_type, data or file.file_data or "", file_id=file_id, name=name)
    if sound := part.input_audio:
        return Media("audio", f"audio/{sound.format}", sound.data)
    return None


def _image(image: WireImage) -> Media:
    media_type, data = split_data_url(image.url)
    url = "" if data else image.url
    return Media("image", media_type, data, url, detail=image.detail or "")
