"""A request in the form that every format shares, written as a chat completions request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.vocabulary import ASSISTANT, SYSTEM, ToolCall, WireFormat
from pointsman.wire.chat._translation_read_request import PARTICIPANT
from pointsman.wire.chat._translation_types import Called
from pointsman.wire.constructs import Report, foreign_members
from pointsman.wire.conversation import (
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
from pointsman.wire.items import present
from pointsman.wire.models import (
    is_openai,
    is_openai_reasoning,
    openai_effort_of,
    openai_sampling,
    user_name,
)
from pointsman.wire.tools import WEB_SEARCH, described, flat_name, plain_name, portable_tools, short, wrapped

# The messages of a request, written for chat completions.
_ERROR: Final = "Error: "
_MAX_ID: Final = 40  # characters of a call's id that OpenAI's chat completions take
_SOUNDS: Final = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}


class _Call(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="function"):
    id: str
    function: Called


class _Said(msgspec.Struct, gc=False, tag_field="role", tag="assistant", omit_defaults=True):
    """An assistant message: structs are made and encoded faster than objects, and most messages are these."""

    content: str | None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Returned(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str


def write_messages(conversation: Conversation, report: Report) -> list[Any]:
    """Write the system text and the messages. Raises ``Untranslatable``."""
    own = report.source is WireFormat.CHAT
    writer = _Writer(report, late_system=own or is_openai(conversation.model))
    if conversation.system:
        writer.system(conversation.system)
    for message in conversation.messages:
        writer.message(message)
    writer.show_media()
    return writer.written


class _Writer:
    """Holds media of results back until the last result of a turn: results must follow their calls."""

    def __init__(self, report: Report, *, late_system: bool) -> None:
        """Begin; ``late_system``: system messages may follow others."""
        self.written: list[Any] = []
        self._report = report
        self._late_system = late_system
        self._media: list[Any] = []

    def system(self, parts: Iterable[Part]) -> None:
        """Write instructions. The role is the older one, which every server knows."""
        texts = [self._text(part) for part in parts if isinstance(part, Text)]
        if text := "\n\n".join(filter(None, texts)):
            self.written.append({"role": "system", "content": text})

    def message(self, message: Message) -> None:
        if message.role is ASSISTANT:
            if self._media:
                self.show_media()
            self._assistant(message.parts)
            return
        parts = self._without_results(message.parts)
        if not parts:
            return
        if message.role is SYSTEM:
            self.show_media()
            self._later(parts)
        else:
            self._user(parts)

    def _later(self, parts: Sequence[Part]) -> None:
        """Write a later instruction in its place: many chat templates refuse the role there."""
        if self._late_system:
            self.system(parts)
            return
        self._report.meet("late_system")
        texts = [self._text(part) for part in parts if isinstance(part, Text)]
        if text := "\n\n".join(filter(None, texts)):
            self.written.append({"role": "user", "content": f"<system>\n{text}\n</system>"})

    def _without_results(self, parts: Iterable[Part]) -> list[Part]:
        """Write the results, which come first, and return the rest."""
        others: list[Part] = []
        for part in parts:
            if type(part) is not Result:
                others.append(part)
                continue
            if not (part.parts or part.is_error) and len(part.call_id) <= _MAX_ID:
                self.written.append(_Returned(part.call_id, part.text))  # as nearly every result
            else:
                self._result(part)
        return others

    def show_media(self) -> None:
        """Write the media of results as the user's: chat refuses them under role ``tool``."""
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
            kind = type(part)
            if kind is ToolCall:
                calls.append(self._call(part))  # type: ignore[arg-type]
            elif kind is Text:
                text += self._text(part)  # type: ignore[arg-type]
            elif type(part) is Refusal:
                refusal += part.text
            else:
                self._unsaid(part)
        if not (text or refusal or calls):
            return  # reasoning alone: an empty message is refused
        self.written.append(_Said(text or None, refusal or None, calls or None))

    def _unsaid(self, part: Part) -> None:
        """Report or refuse what chat has no place for in an assistant message."""
        if isinstance(part, Thinking):
            self._report.meet("thinking_history")
        elif isinstance(part, Opaque):
            self._report.meet_opaque(part.kind, f'{part.format} item "{part.kind}"')
        else:
            self._report.meet("media_of_assistant")

    def _call(self, call: ToolCall) -> _Call:
        if call.custom:
            self._report.meet("custom_tool")
        if call.namespace:
            self._report.meet("namespace")
        name = flat_name(call.namespace, call.name) if call.namespace else plain_name(call.name)
        arguments = wrapped(call.arguments) if call.custom else call.arguments or "{}"
        call_id = call.id if len(call.id) <= _MAX_ID else short(call.id, _MAX_ID)
        return _Call(call_id, Called(name, arguments))

    def _result(self, result: Result) -> None:
        text = self._shown(result.parts) if result.parts else result.text
        if result.is_error and not self._report.meet("is_error"):
            text = text if text.startswith(_ERROR) else _ERROR + text
        call_id = result.call_id if len(result.call_id) <= _MAX_ID else short(result.call_id, _MAX_ID)
        self.written.append(_Returned(call_id, text))

    def _shown(self, parts: Sequence[Text | Media]) -> str:
        """The text of a result of any parts; its media wait for the next message."""
        texts = [self._text(part) for part in parts if type(part) is Text]
        text = "\n".join(texts)
        if len(texts) == len(parts):
            return text
        self._report.meet("image_in_result")
        self._media += [self._medium(part) for part in parts if isinstance(part, Media)]
        return text or "(shown in the next message)"  # an empty result would read as nothing found

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
            url = _data_url(media) if media.data else media.url
            return {"type": "image_url", "image_url": present(url=url, detail=media.detail or None)}
        if media.kind == "audio":
            kind = media.media_type.removeprefix("audio/")
            sound = {"data": media.data, "format": _SOUNDS.get(kind, kind)}
            return {"type": "input_audio", "input_audio": sound}
        if not media.data:
            self._report.meet("document_url")
        name = media.name or "document.pdf"  # OpenAI refuses a file without a name
        return {"type": "file", "file": {"filename": name, "file_data": _data_url(media)}}


def _data_url(media: Media) -> str:
    kind = media.media_type or ("application/pdf" if media.kind == "document" else "image/png")
    return f"data:{kind};base64,{media.data}"


_MAX_STOPS: Final = 4
_INPUT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def write_request(conversation: Conversation, report: Report) -> bytes:
    """Write a request.

    Raises:
        Untranslatable: it holds something that chat completions cannot express.
    """
    body = {
        "model": conversation.model,
        "messages": write_messages(conversation, report),
        **_tools(conversation, report),
        **_limits(conversation, report),
        "response_format": conversation.shape and _response_format(conversation.shape),
        "user": user_name(conversation.user, report) if conversation.user else None,
        "stream": conversation.stream or None,
        # Every other format reports the usage of a stream: it has to be known.
        "stream_options": {"include_usage": True} if conversation.stream else None,
    }
    return _encode(present(**body) | _options(conversation, report))


def _limits(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Output limit, effort and sampling.

    ``max_tokens`` is the one name every server knows. OpenAI's reasoning models refuse it and take
    ``max_completion_tokens``; they are known by their names, and only models that reason are sent an effort.
    """
    effort = openai_effort_of(conversation, report)
    limit = "max_completion_tokens" if effort or is_openai_reasoning(conversation.model) else "max_tokens"
    return present(
        **{limit: conversation.max_tokens},
        reasoning_effort=effort or None,
        **openai_sampling(conversation, report),
        stop=_stop(conversation, report) or None,
    )


def _stop(conversation: Conversation, report: Report) -> tuple[str, ...]:
    """The sequences that chat completions take; OpenAI's reasoning models take none."""
    most = 0 if is_openai_reasoning(conversation.model) else _MAX_STOPS
    if report.source is WireFormat.CHAT or len(conversation.stop) <= most:
        return conversation.stop
    report.keep_stops(conversation.stop[most:])
    return conversation.stop[:most]


def _tools(conversation: Conversation, report: Report) -> dict[str, Any]:
    """Tools and their choice: without tools OpenAI refuses the choice."""
    found: dict[str, Any] = {}
    written = []
    own = report.source is WireFormat.CHAT
    for tool in conversation.tools if own else portable_tools(conversation, report):
        if tool.kind == WEB_SEARCH and own:
            found[WEB_SEARCH] = tool.raw
        else:
            written.append(_tool(tool, report))
    if not written:
        return found
    return present(
        **found,
        tools=written,
        tool_choice=conversation.choice and _choice(conversation.choice, conversation.tools),
        parallel_tool_calls=conversation.parallel,
    )


class _Function(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: str
    description: str = ""
    parameters: msgspec.Raw | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    strict: bool | None = None


class _Offered(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="function"):
    """A function: structs are made and encoded faster than objects, and an agent offers dozens."""

    function: _Function


def _tool(tool: Tool, report: Report) -> _Offered | msgspec.Raw:
    if tool.kind == "function":
        if tool.namespace:
            report.meet("namespace")
        schema = tool.schema if memoryview(tool.schema).nbytes else msgspec.UNSET
        return _Offered(
            _Function(flat_name(tool.namespace, tool.name), tool.description, schema, tool.strict)
        )
    if tool.kind != "custom":
        return tool.raw
    if tool.namespace:
        report.meet("namespace")
    report.meet("custom_tool")
    name = flat_name(tool.namespace, tool.name)
    return _Offered(_Function(name, described(tool), _INPUT, tool.strict))


def _choice(choice: ToolChoice, tools: tuple[Tool, ...]) -> str | dict[str, Any]:
    if choice.mode != "named":
        return choice.mode
    namespace = next((tool.namespace for tool in tools if tool.name == choice.name), "")
    return {"type": "function", "function": {"name": flat_name(namespace, choice.name)}}


def _response_format(shape: Shape) -> dict[str, Any]:
    if not bytes(shape.schema):
        return {"type": "json_object"}
    schema = {"name": shape.name or "answer", "schema": shape.schema, "strict": shape.strict}
    return {"type": "json_schema", "json_schema": present(**schema)}


def _options(conversation: Conversation, report: Report) -> dict[str, Any]:
    """The other members of the request: those of chat itself; another format's members have no name here."""
    if report.source is WireFormat.CHAT:
        return {name: raw for name, raw in conversation.options.items() if name != PARTICIPANT}
    return dict(foreign_members(conversation, report))
