"""Blocks of the Messages format and answers, read into parts of a conversation; calls and media as blocks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decode_members, decoded
from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire.constructs import YES, Report
from pointsman.wire.conversation import (
    CUT,
    Completion,
    Media,
    Opaque,
    Part,
    Result,
    StopReason,
    Text,
    Thinking,
)
from pointsman.wire.format import ABSENT
from pointsman.wire.items import present
from pointsman.wire.messages import read_usage
from pointsman.wire.tools import call_id, flat_name, plain_name

#: What blocks say beside their meaning (``cache_control``, ``citations``), by name, for the report.
Hints: TypeAlias = dict[str, msgspec.Raw]

#: A block as JSON.
Lazy: TypeAlias = Callable[[], msgspec.Raw]

#: Reads a block: the block, its JSON, and the hints that it may add to.
Reader: TypeAlias = "Callable[[Block, Lazy, Hints], Sequence[Part]]"

#: Why an answer ended. One of another name ended by itself.
STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": StopReason.END,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "stop_sequence": StopReason.SEQUENCE,
    "tool_use": StopReason.TOOLS,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}

#: Content block by block as JSON, decoded only when a block of an unknown type asks for its own.
Raws: TypeAlias = Callable[[], "list[msgspec.Raw]"]


class _Source(msgspec.Struct, gc=False):
    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Block] | None = None


class Block(msgspec.Struct, gc=False):
    """One block of any type."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = ABSENT
    tool_use_id: str | None = None
    content: str | list[Block] | dict[str, msgspec.Raw] | None = None  # an object in a provider's own results
    is_error: bool | None = None
    source: _Source | str | None = None  # a text in a search result
    title: str | None = None
    context: str | None = None
    cache_control: msgspec.Raw = ABSENT
    citations: msgspec.Raw = ABSENT
    caller: msgspec.Raw = ABSENT  # the model itself, where the provider's tools are not in play


class _KnownSource(_Source, gc=False, forbid_unknown_fields=True):
    content: str | list[KnownBlock] | None = None  # type: ignore[assignment]


class KnownBlock(Block, gc=False, forbid_unknown_fields=True):
    """The same without a member that is not known."""

    content: str | list[KnownBlock] | dict[str, msgspec.Raw] | None = None  # type: ignore[assignment]
    source: _KnownSource | str | None = None


#: What a message or a result holds.
Content: TypeAlias = str | list[Block] | None


class _Children(msgspec.Struct, frozen=True, gc=False):
    content: list[msgspec.Raw] = []


class _Nested(msgspec.Struct, gc=False):
    source: _Children = _Children()


_decode_children: Final = msgspec.json.Decoder(_Children).decode
_decode_nested: Final = msgspec.json.Decoder(_Nested).decode


def given(raw: msgspec.Raw) -> bool:
    """Whether a member is there and not null."""
    return raw is not ABSENT and bytes(raw) not in {b"", b"null"}


def read_parts(
    content: Content, raws: Raws, hints: Hints, readers: Mapping[str, Reader] | None = None
) -> tuple[Part, ...]:
    """Read the content of a message.

    Args:
        content: The blocks, or a text.
        raws: Gives the blocks as JSON; asked once for each block of an unknown type.
        hints: Added to.
        readers: By type of block; None: those of a message. A block without a reader is opaque.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: a block cannot be read.
    """
    read = _READERS if readers is None else readers
    if not content:
        return ()
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Part] = []
    for at, block in enumerate(content):
        kind = block.type
        if kind == "text":
            if block.text:
                parts.append(Text(block.text, given(block.cache_control)))
            continue
        if given(block.cache_control):
            hints["cache_control"] = block.cache_control
        if kind == "tool_use" and readers is None:  # most of what an agent sends: without the detour
            parts.append(ToolCall(block.id or "", block.name or "", arguments_of(block.input)))
        elif reader := read.get(kind):
            parts += reader(block, partial(_at, raws, at), hints)
        else:
            parts.append(Opaque(WireFormat.MESSAGES, kind, raws()[at]))
    return tuple(parts)


def read_texts(content: Content) -> tuple[Text, ...]:
    """Read content of which only the texts count, as of ``system``."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(Text(block.text, given(block.cache_control)) for block in content or () if block.text)


def _at(raws: Raws, at: int) -> msgspec.Raw:
    return raws()[at]


def arguments_of(raw: msgspec.Raw) -> str:
    """The input of a call as JSON text."""
    return bytes(raw).decode() if given(raw) else "{}"


def _thinking(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:  # noqa: ARG001
    # Without a signature another provider wrote it, and the gateway passed it to the caller.
    author = WireFormat.MESSAGES if block.signature else None
    return (Thinking(block.thinking or "", block.signature or "", author=author),)


def _redacted(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:  # noqa: ARG001
    return (Thinking(encrypted=block.data or "", author=WireFormat.MESSAGES),)


def _result(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:
    content = block.content
    if isinstance(content, dict):
        raise msgspec.ValidationError('"tool_result.content" is an object: not a string or a list')
    if isinstance(content, str):
        return (Result(block.tool_use_id or "", content, block.is_error is True),)
    raws = cache(lambda: _decode_children(raw()).content)
    inside = read_parts(content, raws, hints, _IN_RESULT)
    parts = tuple(_in_result(part, hints) for part in inside)
    return (Result.of(block.tool_use_id or "", parts, block.is_error is True),)


def _in_result(part: Part, hints: Hints) -> Text | Media:
    """A part as a result may hold it: of one that only Messages has, the JSON."""
    if isinstance(part, Text | Media):
        return part
    hints["messages.result"] = YES
    return Text(bytes(part.raw if isinstance(part, Opaque) else msgspec.json.encode(part)).decode())


def _fallback(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:  # noqa: ARG001
    hints["messages.fallback"] = YES
    return ()


def _image(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:  # noqa: ARG001
    return (_media("image", block),)


def _document(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:
    """A file; one of plain text, or put together from blocks, is words that every model can read."""
    if given(block.citations) and b"true" in bytes(block.citations):
        hints["citations"] = block.citations
    source = block.source
    if isinstance(source, _Source) and source.type in {"text", "content"}:
        head = "\n".join(part for part in (block.title, block.context) if part)
        inside = read_parts(
            source.data if source.type == "text" else source.content,
            cache(lambda: _decode_nested(raw()).source.content),
            hints,
            _IN_DOCUMENT,
        )
        return ((Text(head),) if head else ()) + inside
    media = _media("document", block)
    return (Text(block.context), media) if block.context else (media,)


def _found(block: Block, raw: Lazy, hints: Hints) -> Sequence[Part]:
    """A search result that the caller itself supplies: words, with their source."""
    source = block.source if isinstance(block.source, str) else ""
    head = "\n".join(part for part in (block.title, source) if part)
    content = block.content if isinstance(block.content, list) else None
    raws = cache(lambda: _decode_children(raw()).content)
    inside = read_parts(content, raws, hints, _IN_DOCUMENT)
    return ((Text(head),) if head else ()) + inside


def _media(kind: Literal["image", "document"], block: Block) -> Media:
    source = block.source if isinstance(block.source, _Source) else _Source()
    return Media(
        kind,
        media_type=source.media_type or "",
        data=source.data or "",
        url=source.url or "",
        file_id=source.file_id or "",
        name=block.title or "",
    )


def is_server_block(kind: str) -> bool:
    """Whether blocks of a type belong to a tool that the provider runs itself."""
    return kind in _OF_SERVERS or kind.endswith("_tool_result")


def is_read(kind: str) -> bool:
    """Whether blocks of a type are read; others are a server tool's, or not known."""
    return kind in {"text", "tool_use"} or (kind in _READERS and kind != "fallback")


_OF_SERVERS: Final = frozenset({"server_tool_use", "mcp_tool_use", "container_upload"})
#: What a document or a search result may hold beside texts.
_IN_DOCUMENT: Final[Mapping[str, Reader]] = {"image": _image}
#: What a result may hold. No results: each level of them would escape the JSON of the next once more.
_IN_RESULT: Final[Mapping[str, Reader]] = {
    **_IN_DOCUMENT,
    "document": _document,
    "search_result": _found,
}
_READERS: Final[Mapping[str, Reader]] = {
    **_IN_RESULT,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_result": _result,
    "fallback": _fallback,
}


# A whole answer.
class _Answer(msgspec.Struct, gc=False):
    content: Content
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: msgspec.Raw = msgspec.Raw()


class _RawAnswer(msgspec.Struct, gc=False):
    content: list[msgspec.Raw]


_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_decode_raw: Final = msgspec.json.Decoder(_RawAnswer).decode


def read_answer(answer: bytes) -> Completion:
    """Read a whole answer. Raises ``decoding.UNREADABLE``."""
    return decoded(_completion, answer)


def _completion(answer: bytes) -> Completion:
    read = _decode_answer(answer)
    parts = read_parts(read.content, cache(lambda: _decode_raw(answer).content), {})
    stop = STOP_REASONS.get(read.stop_reason or "", StopReason.END)
    return Completion(
        id=read.id,
        model=read.model,
        parts=_cut(parts) if stop in CUT else parts,
        stop=stop_beside(stop, calls=any(isinstance(part, ToolCall) for part in parts)),
        sequence=read.stop_sequence or "",
        usage=read_usage(read.usage),
    )


def _cut(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of an answer that was cut off: its last call may be a part of one."""
    last = parts[-1] if parts else None
    return (*parts[:-1], replace(last, is_cut=True)) if isinstance(last, ToolCall) else parts


def stop_beside(reason: StopReason, *, calls: bool) -> StopReason:
    """Why an answer ended that may hold calls: they want results, unless it was cut off."""
    return StopReason.TOOLS if calls and reason not in CUT else reason


# Calls and media, written as blocks of a request or an answer.
#: One block: an object to encode, or JSON as it came.
Written: TypeAlias = dict[str, Any] | msgspec.Raw
_MALFORMED: Final = "_malformed_arguments"  # the member that holds arguments which are no object
_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,")
#: How the base64 of an image begins.
_MAGIC: Final = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lG": "image/gif", "UklGR": "image/webp"}


def call_block(call: ToolCall, report: Report | None = None) -> dict[str, Any]:
    """A call; ``report`` if it is part of a request."""
    if call.namespace:
        name = flat_name(call.namespace, call.name)
    else:
        name = plain_name(call.name) if report else call.name
    return {
        "type": "tool_use",
        "id": call_id(call.id),
        "name": name,
        "input": {"input": call.arguments} if call.custom else _input(call.arguments, report),
    }


def _input(arguments: str, report: Report | None) -> object:
    """Arguments as an object, byte for byte if they are one."""
    if not arguments.strip():
        return {}
    json = arguments.encode("utf-8", "replace")
    try:
        decode_members(json)
    except UNREADABLE:
        pass
    else:
        return msgspec.Raw(json)
    if json.strip() == b"null":
        return {}
    if report:
        report.meet("malformed_arguments")
    return {_MALFORMED: arguments}


def media_block(media: Media, report: Report) -> dict[str, Any]:
    if media.kind == "audio":
        report.meet("audio", "input_audio")
    if media.detail not in {"", "auto"}:
        report.meet("image_detail")
    title = media.name if media.kind == "document" else ""
    source = _written_source(media, report)
    return present(type=media.kind, source=source, title=title or None)


def _written_source(media: Media, report: Report) -> dict[str, str]:
    if media.file_id:
        if report.source is not WireFormat.MESSAGES:
            report.meet("file_id")
        return {"type": "file", "file_id": media.file_id}
    found = _DATA_URL.match(media.url)
    if media.url and not found:
        return {"type": "url", "url": media.url}
    data = media.url[found.end() :] if found else media.data
    kind = _media_type(media.media_type or (found[1] if found else ""), data, media.kind)
    if media.kind == "document" and kind != "application/pdf":
        return _plain(kind, data, report)
    return {"type": "base64", "media_type": kind, "data": data}


def _media_type(named: str, data: str, kind: str) -> str:
    if named and named != "application/octet-stream":
        return "image/jpeg" if named == "image/jpg" else named
    if kind == "document":
        return "application/pdf"
    return next((name for magic, name in _MAGIC.items() if data.startswith(magic)), "image/png")


def _plain(kind: str, data: str, report: Report) -> dict[str, str]:
    """A document of text, decoded; any other kind is refused."""
    if kind.startswith("text/") or kind == "application/json":
        try:
            return {"type": "text", "media_type": "text/plain", "data": base64.b64decode(data).decode()}
        except (binascii.Error, ValueError):
            pass
    report.meet("document_type")
    return {"type": "base64", "media_type": kind, "data": data}
