"""The items of Responses, of a request's ``input`` and of an answer's ``output``, as parts of the form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.conversation import Call, Media, Message, Opaque, Part, Refusal, Result, Text, Thinking
from pointsman.wire.hosted import LOCAL_SHELL
from pointsman.wire.responses._local_shell import shell_arguments

__all__ = ["merged", "read_item", "read_items"]

_ROLES: Final = {"assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
_TEXTS: Final = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_NOTES: Final = frozenset({Role.SYSTEM, Role.USER})
_SHELL_CALL: Final = "local_shell_call"
_SHELL_OUTPUT: Final = "local_shell_call_output"
_CALLS: Final = frozenset({"function_call", "custom_tool_call", _SHELL_CALL})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", _SHELL_OUTPUT})
_READ: Final = _CALLS | _OUTPUTS | {"message", "reasoning"}


class _Undecoded(Exception):
    """Something is to be kept as it was sent, and that has not been kept."""


class _Head(msgspec.Struct, gc=False):
    """What kind of item it is."""

    type: str | None = None
    role: str | None = None


class _Summary(msgspec.Struct, gc=False):
    """A part of a reasoning item."""

    text: str = ""


class _Item(msgspec.Struct, gc=False):
    """A message, a call, a result or reasoning."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    status: str | None = None
    content: str | list[msgspec.Raw] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    action: msgspec.Raw = msgspec.Raw()
    output: str | list[msgspec.Raw] | None = None
    summary: list[_Summary] | None = None
    encrypted_content: str | None = None


class _Url(msgspec.Struct, gc=False):
    url: str = ""


class _Audio(msgspec.Struct, gc=False):
    data: str = ""
    format: str = ""


class _Content(msgspec.Struct, gc=False):
    type: str = "input_text"
    text: str | None = None
    refusal: str | None = None
    image_url: str | _Url | None = None
    file_id: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: _Audio | None = None


class _Whole(_Item, gc=False):
    """The same with the parts of its content decoded: whatever is not so is read again from JSON."""

    content: str | list[_Content] | None = None  # type: ignore[assignment]
    output: str | list[_Content] | None = None  # type: ignore[assignment]


_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_whole: Final = msgspec.json.Decoder(list[_Whole]).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_content: Final = msgspec.json.Decoder(_Content).decode


def merged(items: Iterator[Message]) -> tuple[Message, ...]:
    """Return messages in which what one turn of the assistant wrote is one, and so are results in a row."""
    found: list[tuple[Role, list[Part]]] = []
    last = -1  # position of the last that is no note
    for item in items:
        role = item.role
        if role in _NOTES:
            found.append((role, list(item.parts)))
            continue
        # A result goes before the notes that stand between it and its call: only here they may stand there.
        joins = last >= 0 and found[last][0] is role and (role is Role.TOOL or last == len(found) - 1)
        if joins:
            found[last][1].extend(item.parts)
            continue
        last = last + 1 if role is Role.TOOL and last >= 0 else len(found)
        found.insert(last, (role, list(item.parts)))
    return tuple(Message(role, tuple(parts)) for role, parts in found)


def read_items(raw: msgspec.Raw) -> tuple[Message, ...] | None:
    """Read a list of items in one go; None when one of them is to be kept as it is, or cannot be read."""
    try:
        items = _decode_whole(raw)
        return merged(_message(item) for item in items)
    except (*UNREADABLE, _Undecoded):
        return None


def read_item(raw: msgspec.Raw) -> Message:
    """Read one item as a message of its own. Raises ``UNREADABLE``."""
    head = _decode_head(raw)
    kind = head.type or ("message" if head.role else "item_reference")
    if kind not in _READ:
        results = kind.endswith("_output") or kind == "mcp_approval_response"
        role = Role.TOOL if results else Role.ASSISTANT
        return Message(role, (Opaque(WireFormat.RESPONSES, kind, raw),))
    return _message(_decode_item(raw))


def _message(item: _Item) -> Message:
    kind = item.type or "message"
    if kind not in _READ or not (item.type or item.role):
        raise _Undecoded
    if kind == "message":
        return Message(_ROLES.get(item.role or "", Role.USER), tuple(_parts(item.content)))
    if kind == "reasoning":
        return Message(Role.ASSISTANT, (_thinking(item),))
    return Message(Role.ASSISTANT, (_call(item),)) if kind in _CALLS else Message(Role.TOOL, (_result(item),))


def _call(item: _Item) -> Call:
    if item.type == _SHELL_CALL:
        arguments = shell_arguments(item.action)
        return Call(item.call_id or item.id or "", LOCAL_SHELL, arguments, local_shell=True)
    custom = item.type == "custom_tool_call"
    arguments = (item.input if custom else item.arguments) or ""
    call_id = item.call_id or item.id or ""
    return Call(call_id, item.name or "", arguments, custom=custom, namespace=item.namespace or "")


def _result(item: _Item) -> Result:
    parts = tuple(_plain(part) for part in _parts(item.output))
    call_id = item.call_id or item.id or ""  # the shell's results are documented with "id" alone
    shell = item.type == _SHELL_OUTPUT
    return Result(call_id, parts, custom=item.type == "custom_tool_call_output", local_shell=shell)


def _plain(part: Part) -> Text | Media:
    """A part of a result: what it is not known how to show is shown as it was sent."""
    if isinstance(part, Text | Media):
        return part
    return Text(bytes(part.raw).decode() if isinstance(part, Opaque) else getattr(part, "text", ""))


def _thinking(item: _Item) -> Thinking:
    encrypted = item.encrypted_content or ""
    author = WireFormat.RESPONSES if encrypted else None
    return Thinking(_thinking_text(item), encrypted=encrypted, id=item.id or "", author=author)


def _thinking_text(item: _Item) -> str:
    """The summary of a reasoning item, or its whole text where there is no summary."""
    texts = [part.text for part in item.summary or ()]
    if not texts:
        texts = [part.text for part in _parts(item.content) if isinstance(part, Text)]
    return "\n\n".join(texts)


def _parts(content: str | Sequence[msgspec.Raw | _Content] | None) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for raw in content or ():
        part = _part(raw)
        if not isinstance(part, Text) or part.text:
            yield part


def _part(raw: msgspec.Raw | _Content) -> Part:
    part = raw if isinstance(raw, _Content) else _decode_content(raw)
    if part.type in _TEXTS:
        return Text(part.text or "")
    if part.type == "refusal":
        return Refusal(part.refusal or "")
    if part.type == "input_image":
        return _image(part)
    if part.type == "input_file":
        return _file(part)
    if part.type == "input_audio" and part.input_audio:
        return Media("audio", media_type=f"audio/{part.input_audio.format}", data=part.input_audio.data)
    if isinstance(raw, _Content):
        raise _Undecoded
    return Opaque(WireFormat.RESPONSES, part.type, raw)


def _image(part: _Content) -> Media:
    url = part.image_url.url if isinstance(part.image_url, _Url) else part.image_url or ""
    detail = "" if part.detail in {None, "auto"} else part.detail or ""
    media_type, data = _split_data_url(url)
    address = "" if data else url
    return Media(
        "image", media_type=media_type, data=data, url=address, file_id=part.file_id or "", detail=detail
    )


def _file(part: _Content) -> Media:
    media_type, data = _split_data_url(part.file_data or "")
    if part.file_data and not data:  # base64 alone: OpenAI takes it so, and says nothing of its type
        media_type, data = "application/pdf", part.file_data
    return Media(
        "document",
        media_type=media_type,
        data=data,
        url=part.file_url or "",
        file_id=part.file_id or "",
        name=part.filename or "",
    )


def _split_data_url(url: str) -> tuple[str, str]:
    """Return media type and base64 data of a ``data:`` URL; two empty texts for any other."""
    head, found, data = url.partition(";base64,")
    if not found or not head.startswith("data:"):
        return "", ""
    return head.removeprefix("data:").partition(";")[0], data
