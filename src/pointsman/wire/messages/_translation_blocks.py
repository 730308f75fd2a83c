"""Parts of a conversation, written as blocks of the Messages format."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Call, Media, Opaque, Part, Refusal, Result, Text, Thinking
from pointsman.wire.tool_names import call_id, flat_name, joined_name

__all__ = ["Written", "call_block", "write_blocks", "write_texts"]

#: One block: an object to encode, or JSON as it came.
Written: TypeAlias = dict[str, Any] | msgspec.Raw

_MALFORMED: Final = "_malformed_arguments"  # the member that holds arguments which are no object
_CACHED: Final = {"type": "ephemeral"}
_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,")
#: How the base64 of an image begins.
_MAGIC: Final = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lG": "image/gif", "UklGR": "image/webp"}
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write_texts(texts: Iterable[Text]) -> list[Written]:
    """Blocks of text. One of white space alone is left out: the API refuses it."""
    return [_text(text) for text in texts if text.text.strip()]


def write_blocks(parts: Iterable[Part], report: Report, *, of_assistant: bool = False) -> list[Written]:
    """Blocks of one message. Raises ``Untranslatable``."""
    blocks: list[Written] = []
    for part in parts:
        if isinstance(part, Text):
            blocks += write_texts((part,))
        elif isinstance(part, Call):
            blocks.append(call_block(part, report))
        elif isinstance(part, Result):
            blocks.append(_result(part, report))
        elif isinstance(part, Media):
            if not of_assistant or report.meet("media_of_assistant"):
                blocks.append(_media(part, report))
        elif isinstance(part, Thinking):
            blocks += _thinking(part, report)
        else:
            blocks += _rare(part, report)
    return blocks


def call_block(call: Call, report: Report | None = None) -> dict[str, Any]:
    """A call; ``report`` where it stands in a request."""
    return {
        "type": "tool_use",
        "id": call_id(call.id),
        "name": (flat_name if report else joined_name)(call.namespace, call.name),
        "input": {"input": call.arguments} if call.custom else _input(call.arguments, report),
    }


def _input(arguments: str, report: Report | None) -> object:
    """Arguments as an object, byte for byte where they are one."""
    if not arguments.strip():
        return {}
    json = arguments.encode("utf-8", "replace")
    try:
        _decode_object(json)
    except UNREADABLE:
        pass
    else:
        return msgspec.Raw(json)
    if json.strip() == b"null":
        return {}
    if report:
        report.meet("malformed_arguments")
    return {_MALFORMED: arguments}


def _text(text: Text) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text.text}
    if text.cached:
        block["cache_control"] = _CACHED
    return block


def _result(result: Result, report: Report) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id(result.call_id)}
    parts = result.parts
    if result.is_error:
        block["is_error"] = True
        if all(isinstance(part, Text) and not part.text.strip() for part in parts):
            parts = (Text("Error"),)  # the API refuses an error without words
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].cached:
        block["content"] = parts[0].text  # as a string it may be empty
    elif content := write_blocks(parts, report):
        block["content"] = content
    return block


def _thinking(part: Thinking, report: Report) -> list[Written]:
    """Only what this format's provider wrote itself, brought back by the gateway."""
    if part.author is not WireFormat.MESSAGES:
        report.meet("thinking_history")
        return []
    if part.encrypted:
        return [{"type": "redacted_thinking", "data": part.encrypted}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]


def _rare(part: Refusal | Opaque, report: Report) -> list[Written]:
    if isinstance(part, Refusal):
        return write_texts((Text(part.text),))
    if part.format is not WireFormat.MESSAGES:
        report.meet_opaque(part.kind, part.kind)
        return []
    return [part.raw]


def _media(media: Media, report: Report) -> dict[str, Any]:
    if media.kind == "audio":
        report.meet("audio", "input_audio")
    if media.detail not in {"", "auto"}:
        report.meet("image_detail")
    block: dict[str, Any] = {"type": media.kind, "source": _source(media, report)}
    if media.kind == "document" and media.name:
        block["title"] = media.name
    return block


def _source(media: Media, report: Report) -> dict[str, str]:
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
