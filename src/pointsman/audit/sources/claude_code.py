"""Claude Code: ``projects/<folder>/<session>.jsonl``, and one file per sub-agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from pointsman.audit.rates import fees, rate
from pointsman.audit.session import Certainty, Request, Session, ToolUse, Usage
from pointsman.audit.sources.base import Chat, Home, Lines, Log, answered, raw_text, seconds, words_in

__all__ = ["ClaudeCode"]

#: Requests that the client sends and never writes down.
_NOT_LOGGED: Final = (
    "titles",
    "topics",
    "summaries",
    "quota probes",
    "compactions",
    "web searches",
    "answers about web pages",
)
#: The client wrote the line itself; no model was asked.
_SYNTHETIC: Final = "<synthetic>"
#: Type of an iteration in which the advisor's model answered, and the name that this agent gets.
_ADVICE: Final = "advisor_message"
_ADVISOR: Final = "advisor"
#: Type of an iteration in which the model of the message answered.
_OWN: Final = "message"
#: Tokens of the wrapper of one block, at most: a tool call's name, id and brackets.
_WRAPPER: Final = 64


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None  # of redacted thinking
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: str = ""
    content: str | list[_Block] | None = None
    is_error: bool | None = None


class _CacheWrites(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: int = 0


class _ServerTools(msgspec.Struct, gc=False):
    web_search_requests: int | None = 0


class _Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = 0
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_creation: _CacheWrites | None = None

    def usage(self, output_at_most: int = 0, certainty: Certainty = Certainty.LOGGED) -> Usage:
        """The counts; those of the cache are apart from the input."""
        cached, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        output = self.output_tokens or 0
        return Usage(
            input_tokens=(self.input_tokens or 0) + cached + written,
            cached_tokens=cached,
            written_tokens=written,
            written_1h_tokens=self.cache_creation.ephemeral_1h_input_tokens if self.cache_creation else 0,
            output_tokens=output,
            output_at_most=max(output, output_at_most),
            input_certainty=certainty,
            output_certainty=certainty,
        )


class _Iteration(_Counts, gc=False):
    """One of several inferences of a request."""

    type: str = ""
    model: str | None = None


class _Usage(_Counts, gc=False):
    iterations: list[_Iteration] | None = None
    server_tool_use: _ServerTools | None = None
    speed: str | None = None
    inference_geo: str | None = None

    def whole(self) -> _Counts:
        """The counts of all iterations of the message's own model, each of which is billed.

        When an advisor was asked, the counts beside the iterations are their sums; earlier versions of the
        API gave the input of the first one alone. Source:
        https://platform.claude.com/docs/en/agents-and-tools/tool-use/advisor-tool
        """
        some = self.iterations or ()
        if all(each.type != _ADVICE for each in some):
            return self
        own = [each for each in some if each.type == _OWN]
        sums = {name: sum(getattr(each, name) or 0 for each in own) for name in _COUNTS}
        return msgspec.structs.replace(
            self, **{name: max(getattr(self, name) or 0, found) for name, found in sums.items()}
        )


_COUNTS: Final = tuple(name for name in _Counts.__struct_fields__ if name.endswith("_tokens"))


class _Message(msgspec.Struct, gc=False):
    id: str = ""
    model: str | None = ""
    content: str | list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    description: msgspec.Raw = msgspec.Raw()
    input_schema: msgspec.Raw = msgspec.Raw()


class _Shape(msgspec.Struct, gc=False):
    """What all requests of a session have in common; newer versions write it down."""

    tools: list[_Tool] | None = None


class _Line(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    subtype: str | None = None
    session_id: str = ""
    timestamp: str = ""
    cwd: str | None = None
    version: str = ""
    uuid: str = ""
    request_id: str | None = None
    agent_id: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    message: _Message | None = None
    shape: _Shape | None = None


_decode: Final = msgspec.json.Decoder(_Line).decode


class ClaudeCode:
    """Reads the session files. Sub-agents are part of the session that started them."""

    name: Final = "claude-code"
    versions: Final = "2.1.197 to 2.1.330"

    def places(self, home: Home) -> tuple[Path, ...]:
        """``$CLAUDE_CONFIG_DIR``, ``~/.claude``, and Claude Code's folder under ``$XDG_CONFIG_HOME``."""
        named = home.environment.get("CLAUDE_CONFIG_DIR", "")
        if named:
            return tuple(Path(each.strip()) / "projects" for each in named.split(",") if each.strip())
        return home.path / ".claude/projects", home.folder("XDG_CONFIG_HOME", ".config") / "claude/projects"

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per session, the least recently changed first: copied lines come after theirs."""
        folders = (folder for place in self.places(home) for folder in sorted(place.glob("*/")))
        yield from (log for _, log in sorted(log for folder in folders for log in _sessions(folder, home)))

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the session of a log."""
        reading = _Reading(log)
        session = reading.session()
        if session.requests or session.notes:
            yield session


def _sessions(folder: Path, home: Home) -> Iterator[tuple[float, Log]]:
    files = home.regular(folder.glob("*.jsonl"))
    own = {file.stem: [file] for file in files if not file.name.startswith("agent-")}
    for file in files:
        if file.name.startswith("agent-"):  # until 2.0 the files of sub-agents lay beside the sessions
            own.setdefault(_session_of(file), []).append(file)
    for stem in {*own, *(each.parent.name for each in folder.glob("*/subagents"))}:
        parts = [*own.get(stem, ()), *home.regular((folder / stem).glob("subagents/**/*.jsonl"))]
        if parts:
            changed = max(part.stat().st_mtime for part in parts)
            yield changed, Log(ClaudeCode.name, tuple(parts))


def _session_of(file: Path) -> str:
    """The session that a sub-agent's file belongs to, by its first line that names one."""
    for line in Lines().read(file, _decode):
        if line.session_id:
            return line.session_id
    return file.stem


class _Answer:
    """One request while its lines are collected: several have the same message id."""

    def __init__(self, id_: str, agent: str, message: _Message, prompt: str | None) -> None:
        self.id = id_
        self.agent = agent
        self.prompt = prompt
        self.new_context = False
        self.model = message.model or ""
        self.lines: set[str] = set()
        self.texts: list[str] = []
        self.calls: list[_Block] = []
        self.hidden = 0  # bytes of thinking that only its encrypted form shows
        self.blocks = 0
        self.last = message
        self.at = 0.0

    def add(self, line: _Line, message: _Message) -> None:
        """Take one more line. Its usage is later than that of the lines before."""
        if line.uuid in self.lines:
            return  # a resumed session repeats the line
        self.lines.add(line.uuid)
        self.at = seconds(line.timestamp) or self.at
        is_less = self.last.stop_reason is not None and message.stop_reason is None  # a copy, cut short
        if message.usage is not None and not is_less:
            self.last = message
        for block in message.content if isinstance(message.content, list) else ():
            self.blocks += 1
            if block.type == "tool_use":
                self.calls.append(block)
            if block.text:
                self.texts.append(block.text)
            self.hidden += _hidden(block)

    def request(self, results: Chat) -> Request:
        """The request, with the results of its calls."""
        calls = (ToolUse(call.id, call.name, raw_text(call.input)) for call in self.calls)
        usage = self.last.usage or _Usage()
        searches = usage.server_tool_use.web_search_requests if usage.server_tool_use else 0
        return answered(
            self.id,
            self._usage(len("\n".join(self.texts).encode(errors="replace"))),
            self.prompt,
            self.texts,
            at=self.at,
            model=self.model,
            provider=_provider(self.model),
            agent=self.agent,
            calls=tuple(map(results.with_result, calls)),
            new_context=self.new_context,
            rate=rate(self.model, usage.speed, us_only=usage.inference_geo == "us"),
            fees=fees(searches or 0),
        )

    def _usage(self, text_bytes: int) -> Usage:
        # Lines that were written before the answer had ended carry the counts of its first event.
        complete = self.last.stop_reason is not None and self.last.usage is not None
        certainty = Certainty.LOGGED if complete else Certainty.AT_LEAST
        arguments = sum(len(bytes(call.input)) for call in self.calls)
        bound = text_bytes + arguments + self.hidden + _WRAPPER * self.blocks  # a token has a byte at least
        return (self.last.usage or _Usage()).whole().usage(0 if complete else bound, certainty)

    def advice(self) -> Iterator[Request]:
        """Requests to the advisor, a stronger model: their tokens are in no other count."""
        usage = self.last.usage or _Usage()
        for number, each in enumerate(usage.iterations or ()):
            if each.type == _ADVICE:
                model = each.model or ""
                yield answered(
                    f"{self.id}:{number}",
                    each.usage(),
                    None,
                    (),
                    at=self.at,
                    model=model,
                    provider=_provider(model),
                    agent=_ADVISOR,
                )


def _provider(model: str) -> str:
    return "anthropic" if model.startswith("claude-") else ""


def _hidden(block: _Block) -> int:
    """Bytes of thinking, at most. Where the text is withheld, its encrypted form in base64 bounds it."""
    shown = len((block.thinking or "").encode(errors="replace"))
    return max(shown, 3 * len(block.signature or block.data or "") // 4)


class _Reading:
    """Reads the files of one session."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lines = Lines()
        self._answers: dict[str, _Answer] = {}
        self._chat = Chat()  # results of all agents
        self._prompts: dict[str, str] = {}  # by sub-agent, those since its last request
        self._compacted: set[str] = set()
        self._compactions = 0
        self._seen_prompts: set[str] = set()
        self.project = self.version = ""
        self._tools: dict[str, int] = {}

    def session(self) -> Session:
        for file in self._log.files:
            for line in self._lines.read(file, _decode):
                self._take(line)
        requests = [
            request
            for answer in self._answers.values()
            for request in (answer.request(self._chat), *answer.advice())
        ]
        if len(self._log.files) > 1:
            requests.sort(key=lambda each: each.at)
        compacted = f"{self._compactions} compactions: the client does not log the request that summarises"
        return Session(
            id=self._log.files[0].stem,
            client=ClaudeCode.name,
            version=self.version,
            project=self.project,
            files=tuple(map(str, self._log.files)),
            requests=tuple(requests),
            tools_offered=self._tools,
            not_logged=_NOT_LOGGED,
            notes=(*self._lines.notes, *((compacted,) if self._compactions else ())),
        )

    def _take(self, line: _Line) -> None:
        self.project = self.project or line.cwd or ""
        self.version = line.version or self.version
        agent = line.agent_id or ("sidechain" if line.is_sidechain else "")
        if line.type == "system" and line.subtype == "compact_boundary":
            self._compactions += 1
            self._compacted.add(agent)
        if line.shape is not None and not agent:
            self._tools |= {tool.name: _length(tool) for tool in line.shape.tools or ()}
        message = line.message
        if message is None:
            return
        if line.type == "assistant":
            self._assistant(line, message, agent)
        elif line.type == "user":
            self._user(line, message, agent)

    def _assistant(self, line: _Line, message: _Message, agent: str) -> None:
        if message.model == _SYNTHETIC or line.is_api_error_message:
            return
        key = message.id or line.request_id or line.uuid
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = _Answer(key, agent, message, self._prompts.pop(agent, None))
            answer.new_context = agent in self._compacted
            self._compacted.discard(agent)
        answer.add(line, message)

    def _user(self, line: _Line, message: _Message, agent: str) -> None:
        results = [block for block in _blocks(message) if block.type == "tool_result"]
        for block in results:
            if block.tool_use_id not in self._chat.results:
                at = seconds(line.timestamp)
                self._chat.result(block.tool_use_id, _text(block.content), block.is_error, at)
        if results or line.is_meta or line.is_compact_summary or line.uuid in self._seen_prompts:
            return
        self._seen_prompts.add(line.uuid)
        if words := words_in([_text(message.content)], "[Request interrupted"):
            self._prompts[agent] = words


def _length(tool: _Tool) -> int:
    return len(tool.name) + len(bytes(tool.description)) + len(bytes(tool.input_schema))


def _blocks(message: _Message) -> list[_Block]:
    return message.content if isinstance(message.content, list) else []


def _text(content: str | list[_Block] | None) -> str:
    if isinstance(content, list):
        return "\n".join(block.text or "" for block in content if block.type == "text")
    return content or ""
