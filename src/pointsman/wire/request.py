"""A request body as a ``AgentRequest``: the few fields a decision needs, everything else left as bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import AgentRequest, Role, WireFormat
from pointsman.wire.history import JsonHistory
from pointsman.wire.items import read_texts
from pointsman.wire.stored_conversation import StoredConversation
from pointsman.wire.tools import tool_names

__all__ = ["MAX_ITEMS", "MAX_TOOLS", "read_request", "request_from_text"]

_ABSENT: Final = msgspec.Raw()
_SYSTEM: Final = Role.SYSTEM
#: Items of ``messages`` or ``input``: at twenty tokens each, a context of a million.
MAX_ITEMS: Final = 50_000
#: Tools offered. At twenty tokens each they take a fifth of such a context.
MAX_TOOLS: Final = 10_000
#: Messages among which those of the system are looked for; agents send one to three.
_LEADING: Final = 100
_NOTHING: Final[frozenset[str]] = frozenset()
_IMAGE: Final = re.compile(rb'"type"\s*+:\s*+"(?:image|image_url|input_image)"')
#: What ``response_format``, ``text.format`` and ``output_config.format`` agree on.
_STRUCTURED: Final = re.compile(rb'"type"\s*+:\s*+"json_(?:schema|object)"')


class _Chat(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str = "auto"
    tools: msgspec.Raw = _ABSENT
    tool_choice: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT  # chat, before tools
    shape: msgspec.Raw = msgspec.field(default=_ABSENT, name="response_format")


class _Responses(msgspec.Struct, gc=False):
    input: list[msgspec.Raw] | str | None = None  # absent where the caller names a stored prompt
    model: str = "auto"
    instructions: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    tool_choice: msgspec.Raw = _ABSENT
    shape: msgspec.Raw = msgspec.field(default=_ABSENT, name="text")


class _Messages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str = "auto"
    system: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    tool_choice: msgspec.Raw = _ABSENT
    shape: msgspec.Raw = msgspec.field(default=_ABSENT, name="output_config")
    beta_shape: msgspec.Raw = msgspec.field(default=_ABSENT, name="output_format")


_decode_chat: Final = msgspec.json.Decoder(_Chat).decode
_decode_responses: Final = msgspec.json.Decoder(_Responses).decode
_decode_messages: Final = msgspec.json.Decoder(_Messages).decode


def read_request(
    wire: WireFormat,
    body: bytes | Mapping[str, Any],
    *,
    session: str = "",
    arrived_at: float = 0.0,
    earlier: StoredConversation | None = None,
) -> AgentRequest:
    """Read a request body of one wire format.

    Args:
        wire: Which format the body is of.
        body: The bytes as they arrived, or the same as a Python mapping.
        session: The session the request belongs to, as the caller named it.
        arrived_at: Seconds since the epoch.
        earlier: What a Responses request continues, where the provider keeps that and it is not sent again.

    Raises:
        MalformedRequest: not JSON, or a field that must be a list or a string is not.
        TooLarge: nested deeper than the decoder goes (about 1,000 levels), more than ``MAX_ITEMS`` messages,
            or more than ``MAX_TOOLS`` tools.
    """
    try:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body, enc_hook=str)
        if wire is WireFormat.CHAT:
            read = _chat(data)
        elif wire is WireFormat.RESPONSES:
            read = _responses(data, earlier)
        else:
            read = _messages(data)
    except RecursionError:
        raise TooLarge("the request body is nested too deep") from None
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        field = place.strip("`$.").partition("[")[0] or _missing_field(reason)
        raise MalformedRequest(f"{reason} at {place or '`$`'} of the request body", param=field) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedRequest(f"the request body is not valid JSON: {error}") from None
    parsed, system, history = read
    if len(history) > MAX_ITEMS:
        raise TooLarge(f"the request holds more than {MAX_ITEMS} messages", hint="send fewer")
    tools = tool_names(parsed.tools) if parsed.tools is not _ABSENT else ()
    if isinstance(parsed, _Chat) and parsed.functions is not _ABSENT:
        tools += tool_names(parsed.functions)
    if len(tools) > MAX_TOOLS:
        raise TooLarge(f"the request offers more than {MAX_TOOLS} tools", hint="offer fewer", param="tools")
    size, features = len(data), _features(data, parsed, tools)
    if earlier is not None:
        size, features = size + earlier.size, features | earlier.features
    return AgentRequest(
        format=wire,
        history=history,
        system=system,
        tools=tools,
        model=parsed.model,
        session=session,
        arrived_at=arrived_at,
        size=size,
        features=features,
        may_call=earlier is not None or b"tool_" in data or b"_call" in data,
        tool_list=parsed.tools,
        tool_choice=parsed.tool_choice,
    )


def _features(data: bytes, parsed: _Chat | _Responses | _Messages, tools: tuple[str, ...]) -> frozenset[str]:
    """What a request needs of a model. Quotes inside a text are escaped, so a text cannot look like these."""
    needed = {"tools"} if tools else set()
    if b"image" in data and _IMAGE.search(data):  # the first test is ten times the faster
        needed.add("vision")
    if _is_structured(parsed.shape) or (isinstance(parsed, _Messages) and _is_structured(parsed.beta_shape)):
        needed.add("structured")
    return frozenset(needed) if needed else _NOTHING


def _is_structured(shape: msgspec.Raw) -> bool:
    return shape is not _ABSENT and _STRUCTURED.search(memoryview(shape)) is not None


def request_from_text(
    text: str, *, system: str = "", session: str = "", arrived_at: float = 0.0
) -> AgentRequest:
    """The turn of someone who sends one message and nothing else."""
    whole = text.encode("utf-8", "replace").decode()  # bytes that were not UTF-8 arrive as half surrogates
    body = {"messages": [{"role": "user", "content": whole}]}
    request = read_request(WireFormat.CHAT, body, session=session, arrived_at=arrived_at)
    return msgspec.structs.replace(request, system=system) if system else request


def _missing_field(reason: str) -> str | None:
    """The field in "Object missing required field `messages`"; None for any other reason."""
    return reason.rpartition("missing required field ")[2].strip("`") if "required field" in reason else None


_Parts: TypeAlias = tuple[_Chat | _Responses | _Messages, str, JsonHistory]


def _chat(data: bytes) -> _Parts:
    body = _decode_chat(data)
    history = JsonHistory(WireFormat.CHAT, body.messages)
    return body, _leading_system(history), history


def _responses(data: bytes, earlier: StoredConversation | None) -> _Parts:
    body = _decode_responses(data)
    items: Sequence[bytes]
    if isinstance(body.input, list):
        items = body.input
    else:
        items = [msgspec.json.encode({"role": "user", "content": body.input})] if body.input else []
    if earlier is not None:
        items = [*earlier.items(), *items]
    history = JsonHistory(WireFormat.RESPONSES, items)
    system = "\n\n".join(part for part in (_text(body.instructions), _leading_system(history)) if part)
    return body, system, history


def _messages(data: bytes) -> _Parts:
    body = _decode_messages(data)
    history = JsonHistory(WireFormat.MESSAGES, body.messages)
    return body, _text(body.system), history


def _text(raw: msgspec.Raw) -> str:
    return "\n\n".join(read_texts(msgspec.json.decode(raw))) if memoryview(raw) else ""


def _leading_system(history: JsonHistory) -> str:
    """The system and developer messages before the first other one.

    Later ones are notes to the model along the way; finding them would mean to look at every message.
    """
    texts: list[str] = []
    for message in islice(history, _LEADING):
        if message.role is not _SYSTEM:
            break
        texts.extend(message.texts)
    return "\n\n".join(texts)
