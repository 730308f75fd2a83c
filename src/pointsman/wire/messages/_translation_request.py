"""A Messages request, read into a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.decoding import UNREADABLE, decode_members, decoded, why_unreadable
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import TOOL, USER, Role, ToolCall
from pointsman.wire.constructs import YES, Known, unknown_members
from pointsman.wire.conversation import (
    SPEAKERS,
    Conversation,
    Message,
    Opaque,
    Part,
    Result,
    Shape,
    Text,
    Tool,
    ToolChoice,
)
from pointsman.wire.format import ABSENT
from pointsman.wire.messages._translation_parts import (
    Block,
    Content,
    Hints,
    KnownBlock,
    given,
    is_read,
    is_server_block,
    read_parts,
    read_texts,
)

_MODES: Final = {"auto": "auto", "none": "none", "any": "required", "tool": "named"}


class _Format(msgspec.Struct, gc=False):
    type: str
    schema: msgspec.Raw = ABSENT
    name: str | None = None


class _OutputConfig(msgspec.Struct, gc=False):
    effort: str | None = None
    format: _Format | None = None
    task_budget: msgspec.Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    role: str
    content: Content = None
    output_config: _OutputConfig | None = None  # from this message on; Claude Code 2.1.330 sends an effort


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw = ABSENT
    strict: bool | None = None
    cache_control: msgspec.Raw = ABSENT
    allowed_callers: msgspec.Raw = ABSENT
    eager_input_streaming: bool | None = None
    defer_loading: bool | None = None
    input_examples: msgspec.Raw = ABSENT


class _Choice(msgspec.Struct, gc=False):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct, gc=False):
    type: str
    budget_tokens: int | None = None
    display: msgspec.Raw = ABSENT
    block_binding: msgspec.Raw = ABSENT


class _Metadata(msgspec.Struct, gc=False):
    user_id: str | None = None


class _Request(msgspec.Struct, gc=False):
    messages: list[_Message]
    model: str = ""
    system: Content = None
    max_tokens: int | None = None
    metadata: _Metadata | None = None
    output_config: _OutputConfig | None = None
    output_format: _Format | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    thinking: _Thinking | None = None
    tool_choice: _Choice | None = None
    tools: list[_Tool] | None = None
    top_p: float | None = None


class _KnownFormat(_Format, gc=False, forbid_unknown_fields=True): ...


class _KnownConfig(_OutputConfig, gc=False, forbid_unknown_fields=True):
    format: _KnownFormat | None = None


class _KnownMessage(_Message, gc=False, forbid_unknown_fields=True):
    content: str | list[KnownBlock] | None = None  # type: ignore[assignment]
    output_config: _KnownConfig | None = None


class _KnownTool(_Tool, gc=False, forbid_unknown_fields=True): ...


class _KnownChoice(_Choice, gc=False, forbid_unknown_fields=True): ...


class _KnownThinking(_Thinking, gc=False, forbid_unknown_fields=True): ...


class _KnownMetadata(_Metadata, gc=False, forbid_unknown_fields=True): ...


class _Plain(_Request, gc=False, forbid_unknown_fields=True):
    """The same with all members that are documented and that the form has no place for: read once."""

    messages: list[_KnownMessage]  # type: ignore[assignment]
    metadata: _KnownMetadata | None = None
    output_config: _KnownConfig | None = None
    output_format: _KnownFormat | None = None
    system: str | list[KnownBlock] | None = None  # type: ignore[assignment]
    thinking: _KnownThinking | None = None
    tool_choice: _KnownChoice | None = None
    tools: list[_KnownTool] | None = None  # type: ignore[assignment]
    anthropic_version: msgspec.Raw = ABSENT
    betas: msgspec.Raw = ABSENT
    cache_control: msgspec.Raw = ABSENT
    container: msgspec.Raw = ABSENT
    context_management: msgspec.Raw = ABSENT
    mcp_servers: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    speed: msgspec.Raw = ABSENT
    top_k: msgspec.Raw = ABSENT


class _Compaction(msgspec.Struct, gc=False):
    content: str | None = None


class _RawMessage(msgspec.Struct, gc=False):
    content: str | list[msgspec.Raw] | None = None


class _RawRequest(msgspec.Struct, gc=False):
    messages: list[_RawMessage] = []
    tools: list[msgspec.Raw] = []


_KNOWN: Final = frozenset(_Request.__struct_fields__)
_OTHERS: Final = tuple(sorted(set(_Plain.__struct_fields__) - _KNOWN))
_decode: Final = msgspec.json.Decoder(_Request).decode
_decode_plain: Final = msgspec.json.Decoder(_Plain).decode
_decode_compaction: Final = msgspec.json.Decoder(_Compaction).decode
_decode_raw: Final = msgspec.json.Decoder(_RawRequest).decode


#: The blocks and tools of a request as JSON, decoded once when the first is asked for.
_Raws: TypeAlias = Callable[[], _RawRequest]


def _blocks(raws: _Raws, at: int) -> list[msgspec.Raw]:
    """The blocks of one message."""
    content = raws().messages[at].content
    return content if isinstance(content, list) else []


def read_request(body: bytes) -> Conversation:
    """Read a request.

    Raises:
        MalformedRequest: not JSON, or a member of another shape than the format's.
    """
    try:
        return decoded(_read, body)
    except UNREADABLE as error:
        raise MalformedRequest(
            f"the request is not of the Messages format: {why_unreadable(error)}"
        ) from None


def _read(body: bytes) -> Conversation:
    request, hints = _members(body)
    raws = cache(lambda: _decode_raw(body))
    choice, config, thinking = request.tool_choice, request.output_config, request.thinking
    _add_settings(config, thinking, hints)
    efforts = (each.output_config.effort for each in reversed(request.messages) if each.output_config)
    disabled = choice.disable_parallel_tool_use if choice else None
    return Conversation(
        model=request.model,
        system=read_texts(request.system),
        messages=_messages(request.messages, raws, hints),
        tools=tuple(_tool(tool, raws, at, hints) for at, tool in enumerate(request.tools or ())),
        choice=_choice(choice),
        parallel=None if disabled is None else not disabled,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=tuple(request.stop_sequences or ()),
        stream=bool(request.stream),
        shape=_shape((config and config.format) or request.output_format),
        effort=next(filter(None, efforts), None) or (config and config.effort) or "",
        thinking_budget=_budget(thinking),
        user=(request.metadata and request.metadata.user_id) or "",
        options=hints,
    )


def _members(body: bytes) -> tuple[_Request, Hints]:
    """The members of a request, and those that the form has no place for."""
    try:
        plain = _decode_plain(body)
        return plain, {name: raw for name in _OTHERS if given(raw := getattr(plain, name))}
    except msgspec.ValidationError:  # a further member, or another shape
        request = _decode(body)
    members = decode_members(body).items()
    hints = {name: raw for name, raw in members if name not in _KNOWN and given(raw)}
    inside = unknown_members(body, _Request, skips=_skips).items()
    return request, hints | {place: raw for place, raw in inside if "." in place}


def _skips(known: Known, members: Mapping[str, Any]) -> bool:
    """Whether an object is not read: a server tool, or a block that is preserved or refused whole."""
    kind = members.get("type")
    if known is _Tool:
        return kind not in {None, "custom"}
    return known is Block and not is_read(str(kind))


def _add_settings(config: _OutputConfig | None, thinking: _Thinking | None, hints: Hints) -> None:
    """Add what settings say that the form has no place for."""
    if config is not None and given(config.task_budget):
        hints["output_config.task_budget"] = config.task_budget
    if thinking is not None and given(thinking.display):
        hints["thinking.display"] = thinking.display
    if thinking is not None and given(thinking.block_binding):
        hints["thinking.block_binding"] = thinking.block_binding


def _messages(sent: list[_Message], raws: _Raws, hints: Hints) -> tuple[Message, ...]:
    """Read the messages, the short way where their blocks are of the usual kinds."""
    messages: list[Message] = []
    for at, message in enumerate(sent):
        content = message.content
        parts = _quick_parts(content) if type(content) is list else None
        if parts is None:
            read = read_parts(content, partial(_blocks, raws, at), hints)
            _add(messages, _message(message.role, read), hints)
        else:
            messages.append(_message(message.role, parts))
    return tuple(messages)


def _add(messages: list[Message], message: Message, hints: Hints) -> None:
    """Add a message. A compaction takes the place of all before it: the API ignores all of that.

    Its summary is a user's text, as many chat templates let no conversation begin with the assistant.
    """
    parts: list[Part] = []
    for part in message.parts:
        if type(part) is not Opaque:
            parts.append(part)
        elif part.kind != "compaction":
            if message.role is Role.ASSISTANT and not is_server_block(part.kind):
                hints[f"messages.{part.kind}"] = YES  # of a newer model: the rest of its turn is kept
            else:
                parts.append(part)
        elif summary := _decode_compaction(part.raw).content:  # without one the compaction had failed
            hints["messages.compaction"] = YES
            messages[:] = [Message(USER, (Text(summary),))]
            parts = []
    if parts or not message.parts:
        messages.append(Message(message.role, tuple(parts)))


def _quick_parts(content: list[Block]) -> tuple[Part, ...] | None:
    """Read texts, calls, and results of text; None if there is any other part, or no part."""
    parts: list[Part] = []
    for block in content:
        kind = block.type
        if block.cache_control is not ABSENT:
            return None
        if kind == "tool_use":
            arguments = str(block.input, "utf-8")
            if arguments == "null" or not arguments:
                return None
            parts.append(ToolCall(block.id or "", block.name or "", arguments))
        elif kind == "tool_result" and type(block.content) is str:
            parts.append(Result(block.tool_use_id or "", block.content, block.is_error is True))
        elif kind == "text" and block.text:
            parts.append(Text(block.text))
        else:
            return None
    return tuple(parts) or None


def _message(word: str, parts: tuple[Part, ...]) -> Message:
    role = SPEAKERS.get(word)
    if role is None:
        is_tools = parts and type(parts[0]) is Result
        role = TOOL if is_tools and all(isinstance(part, Result) for part in parts[1:]) else USER
    return Message(role, parts)


def _tool(tool: _Tool, raws: _Raws, at: int, hints: Hints) -> Tool:
    if given(tool.cache_control):
        hints["cache_control"] = tool.cache_control
    if tool.type and tool.type != "custom":  # Messages calls an ordinary tool custom
        return Tool(tool.name or tool.type, kind=tool.type, raw=raws().tools[at])
    waits = tool.defer_loading or tool.eager_input_streaming
    if waits or given(tool.allowed_callers) or given(tool.input_examples):
        hints["tools.input_examples"] = tool.input_examples if given(tool.input_examples) else YES
    schema = tool.input_schema if given(tool.input_schema) else ABSENT
    return Tool(tool.name, tool.description or "", schema, tool.strict)


def _choice(choice: _Choice | None) -> ToolChoice | None:
    if choice is None:
        return None
    mode = _MODES.get(choice.type)
    if mode is None:
        raise msgspec.ValidationError(f'"tool_choice.type" is "{choice.type}": not auto, any, tool or none')
    return ToolChoice(mode, choice.name or "")  # type: ignore[arg-type]


def _shape(demanded: _Format | None) -> Shape | None:
    if demanded is None or demanded.type != "json_schema":
        return None
    return Shape(demanded.schema, demanded.name or "")


def _budget(thinking: _Thinking | None) -> int | None:
    """Adaptive thinking has no budget: the effort sets the amount."""
    if thinking is None or thinking.type == "adaptive":
        return None
    return 0 if thinking.type == "disabled" else thinking.budget_tokens
