"""Gemini CLI and Qwen Code: chats in Google's format of parts; Qwen Code is a fork with later differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from pointsman.audit.session import Request, Session, ToolUse, Usage, cut
from pointsman.audit.sources.base import Chat, Home, Lines, Log, answered, raw_text, seconds
from pointsman.remembering import grouped

__all__ = ["GeminiCli", "QwenCode"]


_CUT: Final = "answers that loop detection cut off"


class _Call(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Response(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    response: dict[str, Any] = {}

    def result(self, at: float, *, failed: bool | None) -> ToolUse:
        """The result. A success has no exit status, which is then read from the text."""
        error, output = self.response.get("error"), self.response.get("output")
        text = str(error if error is not None else "" if output is None else output)
        return ToolUse("", "", "", cut(text), failed or error is not None or None, len(text), at)


class _Part(msgspec.Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None


def _ask(chat: Chat, parts: list[_Part]) -> None:
    """Take a user's message: the client's context is in tags."""
    chat.ask([each.text for each in parts if each.text], "<session_context>")


def _visible(parts: list[_Part]) -> str:
    return "\n".join(each.text for each in parts if each.text and not each.thought)


class _Chats:
    """A client that writes one file per chat."""

    name: ClassVar[str]
    #: Folder under the home directory, and the files below it.
    folder: ClassVar[str]
    pattern: ClassVar[str]

    def places(self, home: Home) -> tuple[Path, ...]:
        """The client's folder in the home directory."""
        return (home.path / self.folder,)

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per chat."""
        for place in self.places(home):
            for file in home.regular(place.glob(self.pattern)):
                yield Log(self.name, (file,))


# --- Gemini CLI


class _Tokens(msgspec.Struct, gc=False):
    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0
    tool: int = 0

    def usage(self) -> Usage:
        """Thoughts are no part of the output, and results of the provider's tools no part of the input."""
        output = self.output + self.thoughts
        return Usage(
            input_tokens=self.input + self.tool,
            cached_tokens=self.cached,
            output_tokens=output,
            output_at_most=output,
        )


class _DoneCall(msgspec.Struct, gc=False):
    id: str = ""
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    status: str = ""
    timestamp: str = ""
    result: list[_Part] | None = None

    def use(self) -> ToolUse:
        """The call with its result."""
        responses = [each.function_response for each in self.result or () if each.function_response]
        arguments = raw_text(self.args)
        if not responses:
            return ToolUse(self.id, self.name, arguments)
        found = responses[0].result(seconds(self.timestamp), failed=self.status == "error" or None)
        return msgspec.structs.replace(found, id=self.id, name=self.name, arguments=arguments)


class _GeminiMessage(msgspec.Struct, rename="camel", gc=False):
    id: str = ""
    timestamp: str = ""
    type: str = ""
    content: str | list[_Part] | None = None
    tokens: _Tokens | None = None
    model: str = ""
    tool_calls: list[_DoneCall] | None = None


class _Set(msgspec.Struct, gc=False):
    messages: list[_GeminiMessage] | None = None


class _GeminiLine(_GeminiMessage, rename="camel", gc=False):
    session_id: str = ""
    messages: list[_GeminiMessage] | None = None
    set: _Set | None = msgspec.field(default=None, name="$set")


_gemini: Final = msgspec.json.Decoder(_GeminiLine).decode
#: Characters of a session's id in the name of its file.
_NAMED: Final = 8


class GeminiCli(_Chats):
    """Reads ``tmp/<project>/chats/session-*``: JSON lines, or one JSON document in earlier versions.

    Each sub-agent has a file, in a folder with the id of the session that started it.
    """

    name = "gemini-cli"
    versions: Final = "0.61.0"
    folder = ".gemini/tmp"
    pattern = "*/chats/**/*.json*"

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per session: the file of its chat, then those of its sub-agents."""
        files = [file for log in super().find(home) for file in log.files]
        nested = (file for file in files if _is_nested(file))
        agents = grouped(((file.parent.parent, file.parent.name[:_NAMED]), file) for file in nested)
        for file in files:
            if not _is_nested(file):
                begin = file.stem.rpartition("-")[2]
                yield Log(self.name, (file, *agents.pop((file.parent, begin), ())))
        yield from (Log(self.name, tuple(each)) for each in agents.values())

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the session of a chat. A message is written again when its calls are done."""
        lines, requests, first = Lines(), list[Request](), log.files[0]
        session = first.parent.name if _is_nested(first) else first.stem
        for file in log.files:
            messages: dict[str, _GeminiMessage] = {}
            for line in _documents(lines, file):
                session = session if _is_nested(file) else line.session_id or session
                more = (line.set.messages if line.set else None) or line.messages or ()
                for message in (*more, line) if line.type else more:
                    messages[message.id] = message
            requests += _gemini_requests(messages.values(), file.stem if _is_nested(file) else "")
        if len(log.files) > 1:
            requests.sort(key=lambda each: each.at)
        if requests or lines.notes:
            yield Session(
                id=session,
                client=self.name,
                project=_project(first),
                files=tuple(map(str, log.files)),
                requests=tuple(requests),
                not_logged=(_CUT, "loop checks", "routing", "compactions"),
                notes=lines.notes,
            )


def _documents(lines: Lines, file: Path) -> Iterator[_GeminiLine]:
    if file.suffix == ".json":
        yield from lines.whole(file, _gemini)
    else:
        yield from lines.read(file, _gemini)


def _is_nested(file: Path) -> bool:
    """Whether a file of chats is a sub-agent's."""
    return file.parent.name != "chats"


def _project(file: Path) -> str:
    folder = file.parents[2 if _is_nested(file) else 1]
    root = folder / ".project_root"
    if root.is_file():
        return root.read_text(errors="replace").strip()
    return folder.name


def _gemini_requests(messages: Iterable[_GeminiMessage], agent: str) -> list[Request]:
    chat = Chat()
    for message in messages:
        content = message.content
        parts = content if isinstance(content, list) else [_Part(text=content)]
        if message.type == "user":
            _ask(chat, parts)
        elif message.type == "gemini" and message.tokens is not None:
            chat.texts = [_visible(parts)]
            chat.calls = [call.use() for call in message.tool_calls or ()]
            at, model = seconds(message.timestamp), message.model
            chat.answer(
                message.id, message.tokens.usage(), at=at, model=model, provider="google", agent=agent
            )
    return chat.requests


# --- Qwen Code


class _QwenUsage(msgspec.Struct, rename="camel", gc=False):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    cached_content_token_count: int = 0
    total_token_count: int = 0

    def usage(self) -> Usage:
        """Whether thoughts are part of the output depends on the provider: the total decides."""
        output = max(self.candidates_token_count, self.total_token_count - self.prompt_token_count)
        return Usage(
            input_tokens=self.prompt_token_count,
            cached_tokens=self.cached_content_token_count,
            output_tokens=output,
            output_at_most=output,
        )


class _Event(msgspec.Struct, gc=False):
    name: str = msgspec.field(default="", name="event.name")
    response_id: str = ""
    model: str = ""
    input_token_count: int = 0
    output_token_count: int = 0
    cached_content_token_count: int = 0
    total_token_count: int = 0
    subagent_name: str | None = None
    call_id: str = ""
    success: bool | None = None

    def usage(self) -> Usage:
        """The counts of one answer."""
        counts = (self.input_token_count, self.output_token_count, self.cached_content_token_count)
        return _QwenUsage(*counts, self.total_token_count).usage()


class _Payload(msgspec.Struct, rename="camel", gc=False):
    ui_event: _Event | None = None


class _QwenMessage(msgspec.Struct, gc=False):
    parts: list[_Part] = []


class _QwenLine(msgspec.Struct, rename="camel", gc=False):
    uuid: str = ""
    session_id: str = ""
    timestamp: str = ""
    type: str = ""
    cwd: str = ""
    version: str = ""
    model: str = ""
    message: _QwenMessage | None = None
    usage_metadata: _QwenUsage | None = None
    system_payload: _Payload | None = None


_qwen: Final = msgspec.json.Decoder(_QwenLine).decode


class QwenCode(_Chats):
    """Reads ``projects/<folder>/chats/<session>.jsonl``."""

    name = "qwen-code"
    versions: Final = "0.24.4"
    folder = ".qwen/projects"
    pattern = "*/chats/*.jsonl"

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the session of a chat."""
        (file,) = log.files
        lines, chat = Lines(), _QwenChat()
        for line in lines.read(file, _qwen):
            chat.take(line)
        requests = tuple(chat.chat.joined())
        if requests or lines.notes:
            yield Session(
                id=chat.session or file.stem,
                client=self.name,
                version=chat.version,
                project=chat.project,
                files=(str(file),),
                requests=requests,
                not_logged=(_CUT,),
                notes=lines.notes,
            )


class _QwenChat:
    """Collects requests: counts are in an event of telemetry, the answer follows it."""

    def __init__(self) -> None:
        self.session = self.project = self.version = ""
        self.chat = Chat()
        self._open = False  # the latest request has counts and no answer yet

    def take(self, line: _QwenLine) -> None:
        """Take the next line."""
        self.session = self.session or line.session_id
        self.project = self.project or line.cwd
        self.version = line.version or self.version
        parts = line.message.parts if line.message else []
        event = line.system_payload.ui_event if line.system_payload else None
        if event is not None:
            self._event(event, line)
        elif line.type == "user":
            _ask(self.chat, parts)
        elif line.type == "assistant":
            self._answer(line, parts)
        elif line.type == "tool_result":
            for response in (each.function_response for each in parts if each.function_response):
                self.chat.results[response.id] = response.result(seconds(line.timestamp), failed=None)

    def _event(self, event: _Event, line: _QwenLine) -> None:
        if event.name == "qwen-code.api_response":
            self._add(event.response_id or line.uuid, line, event.model, event.usage(), event.subagent_name)
            self._open = True
        elif event.name == "qwen-code.tool_call" and event.success is not None:
            self.chat.failed[event.call_id] = not event.success

    def _answer(self, line: _QwenLine, parts: list[_Part]) -> None:
        if not self._open:
            if line.usage_metadata is None:
                return
            self._add(line.uuid, line, line.model, line.usage_metadata.usage(), None)
        self._open = False
        text = _visible(parts)
        calls = tuple(
            ToolUse(call.id, call.name, raw_text(call.args))
            for call in (each.function_call for each in parts)
            if call
        )
        self.chat.requests[-1] = msgspec.structs.replace(
            self.chat.requests[-1], text=cut(text), text_length=len(text), calls=calls
        )

    def _add(self, id_: str, line: _QwenLine, model: str, usage: Usage, agent: str | None) -> None:
        if agent:  # what the person wrote is for the next request of the main agent
            prompt = None
        else:
            prompt, self.chat.prompt = self.chat.prompt, None
        about = {"at": seconds(line.timestamp), "model": model, "agent": agent or ""}
        self.chat.requests.append(answered(id_, usage, prompt, (), **about))
