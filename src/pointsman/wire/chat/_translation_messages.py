"""The messages of a chat completions request, read into the form that every format shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.conversation import Media, Message, Opaque, Part, Refusal, Result, Text, Thinking
from pointsman.wire.items import ROLES, as_json, split_data_url


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Any = None  # a text; some servers write the object itself


class _Custom(msgspec.Struct, gc=False):
    name: str | None = None
    input: str | None = None


class WireCall(msgspec.Struct, gc=False):
    """An entry of ``tool_calls``, whole or, in a stream, a fragment."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None

    @property
    def name(self) -> str:
        """Name of the tool; empty in most fragments."""
        named = self.function or self.custom
        return named.name or "" if named else ""

    @property
    def arguments(self) -> str:
        """The arguments, or the text for a custom tool, in this fragment."""
        if self.function is not None:
            return as_json(self.function.arguments)
        return self.custom.input or "" if self.custom else ""


class _KnownFunction(_Function, gc=False, forbid_unknown_fields=True): ...


class _KnownCall(WireCall, gc=False, forbid_unknown_fields=True):
    function: _KnownFunction | None = None


class WireMessage(msgspec.Struct, gc=False):
    """A message of a request."""

    role: str
    content: str | list[msgspec.Raw] | None = None
    name: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: _Function | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    is_error: Any = None
    annotations: msgspec.Raw = msgspec.Raw()  # of an answer that is sent back
    audio: msgspec.Raw = msgspec.Raw()


class KnownMessage(WireMessage, gc=False, forbid_unknown_fields=True):
    """The same without a member that is not known."""

    tool_calls: list[_KnownCall] | None = None  # type: ignore[assignment]
    function_call: _KnownFunction | None = None


class _Image(msgspec.Struct, gc=False):
    url: str
    detail: str | None = None


class _File(msgspec.Struct, gc=False):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _Audio(msgspec.Struct, gc=False):
    data: str
    format: str = "wav"


class _Part(msgspec.Struct, gc=False):
    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    image_url: _Image | str | None = None
    file: _File | None = None
    input_audio: _Audio | None = None
    cache_control: Any = None  # some callers send Anthropic's mark


_decode_part: Final = msgspec.json.Decoder(_Part).decode


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
        role = _role(message.role, at)
        if role is Role.TOOL:
            results.append(_result(message, at, ids))
            continue
        parts = _content(message.content, at)
        if results:
            yield Message(Role.TOOL, tuple(results))
            results = []
        yield Message(role, _assistant(message, parts, ids) if role is Role.ASSISTANT else tuple(parts))
    if results:
        yield Message(Role.TOOL, tuple(results))


def reasoning(*candidates: object) -> str:
    """The reasoning among the members that servers use for it: the first that is a text."""
    for found in candidates:
        if isinstance(found, str) and found:
            return found
    return ""


def read_call(call: WireCall, id_: str = "") -> ToolCall:
    """Read a whole call; ``id_`` replaces a missing id."""
    custom = call.function is None and call.custom is not None
    return ToolCall(call.id or id_, call.name, call.arguments, custom=custom)


def _role(word: str, at: int) -> Role:
    role = ROLES.get(word)
    if role is None:
        place = f"messages[{at}].role"
        raise MalformedRequest(f'"{place}" is "{word}": known are {", ".join(ROLES)}', param=place)
    return role


def _assistant(message: WireMessage, parts: list[Part], ids: _LegacyIds) -> tuple[Part, ...]:
    if thought := reasoning(message.reasoning_content, message.reasoning):
        parts.insert(0, Thinking(thought))
    if message.refusal:
        parts.append(Refusal(message.refusal))
    parts += [read_call(call) for call in message.tool_calls or ()]
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


def _media(part: _Part) -> Media | None:
    if image := part.image_url:
        return _image(_Image(image) if isinstance(image, str) else image)
    if file := part.file:
        media_type, data = split_data_url(file.file_data or "")
        name, file_id = file.filename or "", file.file_id or ""
        return Media("document", media_type, data or file.file_data or "", file_id=file_id, name=name)
    if sound := part.input_audio:
        return Media("audio", f"audio/{sound.format}", sound.data)
    return None


def _image(image: _Image) -> Media:
    media_type, data = split_data_url(image.url)
    url = "" if data else image.url
    return Media("image", media_type, data, url, detail=image.detail or "")
