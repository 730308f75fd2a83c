"""A request body as a ``Turn``: the few fields a decision needs, everything else left as bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.errors import MalformedRequest, TooLarge
from pointsman.text.history import JsonHistory
from pointsman.text.items import read_texts
from pointsman.types import Role, Turn, WireFormat

__all__ = ["turn_from_body", "turn_from_text"]

_ABSENT: Final = msgspec.Raw()
_NOTHING: Final[frozenset[str]] = frozenset()
_IMAGE: Final = re.compile(rb'"type"\s*+:\s*+"(?:image|image_url|input_image)"')
#: Chat's ``response_format``, Responses' ``text.format`` and Messages' ``output_format`` agree on these.
_STRUCTURED: Final = re.compile(rb'"type"\s*+:\s*+"json_(?:schema|object)"')


class _Chat(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str = "auto"
    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT  # chat, before tools


class _Responses(msgspec.Struct, gc=False):
    input: list[msgspec.Raw] | str | None = None  # absent where the caller names a stored prompt
    model: str = "auto"
    instructions: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT


class _Messages(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw]
    model: str = "auto"
    system: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT


class _Named(msgspec.Struct, gc=False):
    name: str = ""


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    type: str = ""
    server_label: str = ""
    function: _Named | None = None
    custom: _Named | None = None

    @property
    def label(self) -> str:
        """The name a call of this tool will carry; for a provider's own tool, its type."""
        inner = self.function or self.custom
        return (inner.name if inner else "") or self.name or self.server_label or self.type


_decode_chat: Final = msgspec.json.Decoder(_Chat).decode
_decode_responses: Final = msgspec.json.Decoder(_Responses).decode
_decode_messages: Final = msgspec.json.Decoder(_Messages).decode
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_tool: Final = msgspec.json.Decoder(_Tool).decode


def turn_from_body(
    wire: WireFormat, body: bytes | Mapping[str, Any], *, session: str = "", arrived_at: float = 0.0
) -> Turn:
    """Read a request body of one wire format.

    Args:
        wire: Which format the body is of.
        body: The bytes as they arrived, or the same as a Python mapping.
        session: The session the request belongs to, as the caller named it.
        arrived_at: Seconds since the epoch.

    Raises:
        MalformedRequest: not JSON, or a field that must be a list or a string is not.
        TooLarge: nested deeper than the decoder goes (about 1,000 levels).
    """
    try:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body, enc_hook=str)
        if wire is WireFormat.CHAT:
            model, system, history, tools = _chat(data)
        elif wire is WireFormat.RESPONSES:
            model, system, history, tools = _responses(data)
        else:
            model, system, history, tools = _messages(data)
    except RecursionError:
        raise TooLarge("the request body is nested too deep") from None
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        field = place.strip("`$.").partition("[")[0] or _missing_field(reason)
        raise MalformedRequest(f"{reason} at {place or '`$`'} of the request body", param=field) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedRequest(f"the request body is not valid JSON: {error}") from None
    return Turn(
        format=wire,
        history=history,
        system=system,
        tools=tools,
        model=model,
        session=session,
        arrived_at=arrived_at,
        size=len(data),
        abilities=_abilities(data, tools),
    )


def _abilities(data: bytes, tools: tuple[str, ...]) -> frozenset[str]:
    """What a request needs of a model. Quotes inside a text are escaped, so a text cannot look like these."""
    needed = {"tools"} if tools else set()
    if b"image" in data and _IMAGE.search(data):  # the first test is ten times the faster
        needed.add("vision")
    if b"json_" in data and _STRUCTURED.search(data):
        needed.add("structured")
    return frozenset(needed) if needed else _NOTHING


def turn_from_text(text: str, *, system: str = "", session: str = "", arrived_at: float = 0.0) -> Turn:
    """The turn of somebody who sends one message and nothing else."""
    body = {"messages": [{"role": "user", "content": text}]}
    turn = turn_from_body(WireFormat.CHAT, body, session=session, arrived_at=arrived_at)
    return msgspec.structs.replace(turn, system=system) if system else turn


def _missing_field(reason: str) -> str | None:
    """The field in "Object missing required field `messages`"; None for any other reason."""
    return reason.rpartition("missing required field ")[2].strip("`") if "required field" in reason else None


_Parts: TypeAlias = tuple[str, str, JsonHistory, tuple[str, ...]]


def _chat(data: bytes) -> _Parts:
    body = _decode_chat(data)
    history = JsonHistory(WireFormat.CHAT, body.messages)
    tools = _tool_names(body.tools) + _tool_names(body.functions)
    return body.model, _leading_system(history), history, tools


def _responses(data: bytes) -> _Parts:
    body = _decode_responses(data)
    if isinstance(body.input, list):
        history = JsonHistory(WireFormat.RESPONSES, body.input)
    else:
        words = [{"role": "user", "content": body.input}] if body.input else []
        history = JsonHistory.of(WireFormat.RESPONSES, words)
    system = "\n\n".join(part for part in (_text(body.instructions), _leading_system(history)) if part)
    return body.model, system, history, _tool_names(body.tools)


def _messages(data: bytes) -> _Parts:
    body = _decode_messages(data)
    history = JsonHistory(WireFormat.MESSAGES, body.messages)
    return body.model, _text(body.system), history, _tool_names(body.tools)


def _text(raw: msgspec.Raw) -> str:
    return "\n\n".join(read_texts(msgspec.json.decode(raw))) if memoryview(raw) else ""


def _leading_system(history: JsonHistory) -> str:
    """The system and developer messages before the first other one.

    Later ones are notes to the model along the way; finding them would mean to look at every message.
    """
    texts: list[str] = []
    for index in range(len(history)):
        if history.role(index) is not Role.SYSTEM:
            break
        texts.extend(history[index].texts)
    return "\n\n".join(texts)


def _tool_names(raw: msgspec.Raw) -> tuple[str, ...]:
    """Names of the tools offered; a tool of an unknown shape has none."""
    if memoryview(raw)[:1].tobytes() != b"[":
        return ()
    names: list[str] = []
    for item in _decode_items(raw):
        try:
            names.append(_decode_tool(item).label)
        except msgspec.ValidationError:
            continue
    return tuple(name for name in names if name)
