"""The messages of a request, written for chat completions.

Contents are one string wherever they are text alone: several servers refuse parts under the roles system,
assistant and tool. What a user says keeps its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import (
    Call,
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
from pointsman.wire.tool_names import flat_name, short, wrapped

__all__ = ["write_call", "write_messages"]

_ERROR: Final = "Error: "
_MAX_ID: Final = 40  # characters of a call's id that OpenAI's chat completions take
_SOUNDS: Final = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}


def write_messages(conversation: Conversation, report: Report) -> list[dict[str, Any]]:
    """Write the system text and the messages. Raises ``Untranslatable``."""
    writer = _Writer(report)
    if conversation.system:
        writer.system(conversation.system)
    for message in conversation.messages:
        writer.message(message)
    writer.show_media()
    return writer.written


class _Writer:
    """Holds media of results back until the last result of a turn: results must stand behind their calls."""

    def __init__(self, report: Report) -> None:
        self.written: list[dict[str, Any]] = []
        self._report = report
        self._media: list[Any] = []

    def system(self, parts: Iterable[Part]) -> None:
        """Write instructions. The role is the older one, which every server knows."""
        texts = [self._text(part) for part in parts if isinstance(part, Text)]
        if text := "\n\n".join(filter(None, texts)):
            self.written.append({"role": "system", "content": text})

    def message(self, message: Message) -> None:
        others: list[Part] = []
        for part in message.parts:
            if type(part) is Result:
                self._result(part)
            else:
                others.append(part)
        if not others:
            return
        if message.role is Role.ASSISTANT:
            self.show_media()
            self._assistant(others)
        elif message.role is Role.SYSTEM:
            self.show_media()
            self.system(others)
        else:
            self._user(others)

    def show_media(self) -> None:
        """Write what results held beside text, as the user's: chat refuses it under role ``tool``."""
        if self._media:
            self.written.append({"role": "user", "content": self._media})
            self._media = []

    def _user(self, parts: Sequence[Part]) -> None:
        content: Any = self._media + [written for part in parts if (written := self._part(part)) is not None]
        self._media = []
        if len(content) == 1 and type(content[0]) is dict and content[0]["type"] == "text":
            content = content[0]["text"]
        if content:
            self.written.append({"role": "user", "content": content})

    def _assistant(self, parts: Sequence[Part]) -> None:
        text = refusal = ""
        calls = []
        for part in parts:
            if type(part) is Text:
                text += self._text(part)
            elif type(part) is Call:
                calls.append(self._call(part))
            elif type(part) is Refusal:
                refusal += part.text
            else:
                self._unsaid(part)
        if not (text or refusal or calls):
            return  # reasoning alone: an empty message is refused
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if refusal:
            message["refusal"] = refusal
        if calls:
            message["tool_calls"] = calls
        self.written.append(message)

    def _unsaid(self, part: Part) -> None:
        """Report or refuse what chat has no place for in an assistant message."""
        if isinstance(part, Thinking):
            self._report.meet("thinking_history")
        elif isinstance(part, Opaque):
            self._report.meet_opaque(part.kind, f'{part.format} item "{part.kind}"')
        else:
            self._report.meet("media_of_assistant")

    def _call(self, call: Call) -> dict[str, Any]:
        if call.custom:
            self._report.meet("custom_tool")
        if call.namespace:
            self._report.meet("namespace")
        return write_call(call)

    def _result(self, result: Result) -> None:
        texts = [self._text(part) for part in result.parts if type(part) is Text]
        text = texts[0] if len(texts) == 1 else "\n".join(texts)
        if len(texts) < len(result.parts):
            self._report.meet("image_in_result")
            self._media += [self._medium(part) for part in result.parts if isinstance(part, Media)]
            text = text or "(shown in the next message)"  # an empty result would read as nothing found
        if result.is_error and not self._report.meet("is_error"):
            text = text if text.startswith(_ERROR) else _ERROR + text
        self.written.append({"role": "tool", "tool_call_id": short(result.call_id, _MAX_ID), "content": text})

    def _part(self, part: Part) -> Any | None:
        if type(part) is Text:
            text = self._text(part)
            return {"type": "text", "text": text} if text else None
        if isinstance(part, Media):
            return self._medium(part)
        if isinstance(part, Opaque) and part.format is WireFormat.CHAT:
            return part.raw
        self._unsaid(part)
        return None

    def _text(self, part: Text) -> str:
        if part.cached:
            self._report.meet("cache_control")
        return part.text

    def _medium(self, media: Media) -> dict[str, Any]:
        if media.file_id:
            self._report.meet("file_id")
        if media.kind == "image":
            image = {"url": _data_url(media) if media.data else media.url}
            if media.detail:
                image["detail"] = media.detail
            return {"type": "image_url", "image_url": image}
        if media.kind == "audio":
            kind = media.media_type.removeprefix("audio/")
            sound = {"data": media.data, "format": _SOUNDS.get(kind, kind)}
            return {"type": "input_audio", "input_audio": sound}
        if not media.data:
            self._report.meet("document_url")
        name = media.name or "document.pdf"  # OpenAI refuses a file without a name
        return {"type": "file", "file": {"filename": name, "file_data": _data_url(media)}}


def write_call(call: Call) -> dict[str, Any]:
    """Write a call as a call of a function."""
    name = flat_name(call.namespace, call.name)
    arguments = wrapped(call.arguments) if call.custom else call.arguments or "{}"
    function = {"name": name, "arguments": arguments}
    return {"id": short(call.id, _MAX_ID), "type": "function", "function": function}


def _data_url(media: Media) -> str:
    kind = media.media_type or ("application/pdf" if media.kind == "document" else "image/png")
    return f"data:{kind};base64,{media.data}"
