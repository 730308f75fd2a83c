"""A conversation, written as a Messages request."""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode
from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decode_members
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import (
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Text,
    Thinking,
)
from pointsman.wire.messages import _translation_settings as settings
from pointsman.wire.messages._translation_settings import Written
from pointsman.wire.tools import call_id, flat_name, joined_name

# Parts of a conversation, written as blocks of the Messages format.
_MALFORMED: Final = "_malformed_arguments"  # the member that holds arguments which are no object
_CACHED: Final = {"type": "ephemeral"}
_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,")
#: How the base64 of an image begins.
_MAGIC: Final = {"/9j/": "image/jpeg", "iVBOR": "image/png", "R0lG": "image/gif", "UklGR": "image/webp"}


def write_texts(texts: Iterable[Text]) -> list[Written]:
    """Blocks of text. One of white space alone is left out: the API refuses it."""
    return [_text(text) for text in texts if text.text.strip()]


def write_blocks(parts: Iterable[Part], report: Report, *, of_assistant: bool = False) -> list[Written]:
    """Blocks of one message. Raises ``Untranslatable``."""
    blocks: list[Written] = []
    for part in parts:
        if isinstance(part, Text):
            blocks += write_texts((part,))
        elif isinstance(part, ToolCall):
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


def call_block(call: ToolCall, report: Report | None = None) -> dict[str, Any]:
    """A call; ``report`` if it is part of a request."""
    return {
        "type": "tool_use",
        "id": call_id(call.id),
        "name": (flat_name if report else joined_name)(call.namespace, call.name),
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


def _text(text: Text) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text.text}
    if text.cached:
        block["cache_control"] = _CACHED
    return block


def _result(result: Result, report: Report) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id(result.call_id)}
    if not (result.parts or result.is_error):
        if result.text:
            block["content"] = result.text
        return block
    parts = result.content
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
    """Only reasoning by this format's provider, brought back by the gateway."""
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


# Ids of calls, told apart: Messages refuses a request in which two calls have one id.
def with_unique_ids(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with a unique id for every call, and its result under the same id."""
    ids = [
        part.id
        for message in messages
        if message.role is Role.ASSISTANT
        for part in message.parts
        if type(part) is ToolCall
    ]
    return messages if len(set(ids)) == len(ids) else tuple(map(_Renaming(set(ids)).message, messages))


class _Renaming:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._seen: set[str] = set()
        self._last: dict[str, int] = {}  # number given last, by the id that it was added to
        self._awaited: dict[str, deque[str]] = defaultdict(deque)  # new ids of calls without a result

    def message(self, message: Message) -> Message:
        if message.role is Role.ASSISTANT:
            self._awaited.clear()  # a result that has not come belongs to no later call
        return Message(message.role, tuple(map(self._part, message.parts)))

    def _part(self, part: Part) -> Part:
        if isinstance(part, ToolCall):
            new = self._new(part.id)
            self._awaited[part.id].append(new)
            return replace(part, id=new)
        if isinstance(part, Result) and self._awaited.get(part.call_id):
            return replace(part, call_id=self._awaited[part.call_id].popleft())
        return part

    def _new(self, identifier: str) -> str:
        new, number = identifier, self._last.get(identifier, 1)
        while new in self._seen or (number > 1 and new in self._taken):
            number += 1
            new = f"{identifier}_{number}"
        self._last[identifier] = number
        self._seen.add(new)
        return new


_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


def write_request(asked: Conversation, report: Report) -> bytes:
    """Write a request. Changes are added to the report.

    Raises:
        Untranslatable: the format cannot express something of it, or it holds no message.
    """
    extra = settings.options(asked, report)
    messages = _messages(with_unique_ids(asked.messages), report)
    if not messages:
        report.meet("no_messages")
    body: dict[str, Any] = {"model": asked.model}
    body |= settings.limits(asked, report, resumes=_resumes(messages, is_own=asked.is_own_turn))
    if system := write_texts(asked.system):
        body["system"] = system
    body["messages"] = messages
    body |= settings.tools(asked, report)
    body |= settings.tool_choice(asked)
    thinks = body.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    body |= settings.sampling(asked, report, thinks=thinks)
    body |= settings.output_config(asked, report)
    if asked.stop:
        body |= _stop(asked.stop, report)
    body |= settings.user(asked, report)
    if asked.stream:
        body["stream"] = True
    return _encode(body | extra)


def _messages(messages: tuple[Message, ...], report: Report) -> list[dict[str, Any]]:
    """Messages of one role in a row are one, which begins with the results."""
    written: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if message.role is Role.SYSTEM:
            blocks = _system(message, report)
        else:
            blocks = write_blocks(message.parts, report, of_assistant=role == "assistant")
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    for message_ in written:
        if message_["role"] == "user":
            message_["content"].sort(key=lambda block: _type(block) != "tool_result")
    if written and written[-1]["role"] == "assistant":
        _trim(written[-1]["content"])
    return written


def _system(message: Message, report: Report) -> list[Written]:
    """A later instruction, in its place: moving it up would change the context before it."""
    report.meet("late_system")
    texts = (part for part in message.parts if isinstance(part, Text) and part.text.strip())
    return write_texts(Text(f"<system>\n{part.text}\n</system>", part.cached) for part in texts)


def _type(block: Written) -> str:
    return block["type"] if isinstance(block, dict) else ""


def _trim(content: list[Written]) -> None:
    """The API refuses a beginning of the answer that ends with white space."""
    last = content[-1]
    if isinstance(last, dict) and last["type"] == "text":
        content[-1] = {**last, "text": last["text"].rstrip()}


def _resumes(messages: list[dict[str, Any]], *, is_own: bool) -> bool:
    """Whether a turn continues after its calls without its first thinking: the API refuses to think then.

    A model need not think before each call: a message of the same upstream may lack thinking if the turn
    began with some.
    """
    if len(messages) < 2 or _type(messages[-1]["content"][0]) != "tool_result":
        return False
    if _type(messages[-2]["content"][0]) in _THOUGHTS:
        return False
    return not (is_own and _has_thought(messages))


def _has_thought(messages: list[dict[str, Any]]) -> bool:
    """Whether an answer since the person spoke begins with thinking."""
    for message in reversed(messages):
        first = _type(message["content"][0])
        if message["role"] == "user" and first != "tool_result":
            return False
        if first in _THOUGHTS:
            return True
    return False


def _stop(stop: tuple[str, ...], report: Report) -> dict[str, list[str]]:
    """The sequences that the API takes; one of white space alone is left to the gateway."""
    taken = [sequence for sequence in stop if sequence.strip()]
    if len(taken) < len(stop):
        report.keep_stops(tuple(sequence for sequence in stop if not sequence.strip()))
    return {"stop_sequences": taken} if taken else {}
