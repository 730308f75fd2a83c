"""Codex: ``sessions/YYYY/MM/DD/rollout-*.jsonl``, one file per thread; a sub-agent is a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from pointsman.audit.rates import rate
from pointsman.audit.session import Session, ToolUse, Usage, cut
from pointsman.audit.sources.base import Chat, Home, Lines, Log, seconds
from pointsman.printable import counted
from pointsman.remembering import grouped

__all__ = ["Codex"]

_NOT_LOGGED: Final = ("titles", "memories")
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
#: Seconds between two lines, from which on they were not copied together: an answer takes as long.
_COPIED: Final = 1.0


class _Text(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None


class _Tokens(msgspec.Struct, frozen=True, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0

    def usage(self) -> Usage:
        """Cached tokens are part of the input, reasoning is part of the output."""
        return Usage(
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_input_tokens,
            written_tokens=self.cache_write_input_tokens,
            output_tokens=self.output_tokens,
            output_at_most=self.output_tokens,
        )

    def since(self, before: _Tokens) -> _Tokens:
        """The increment of a sum."""
        return _Tokens(*(getattr(self, name) - getattr(before, name) for name in self.__struct_fields__))


class _Totals(msgspec.Struct, gc=False):
    total_token_usage: _Tokens | None = None
    last_token_usage: _Tokens | None = None


class _Limits(msgspec.Struct, gc=False):
    plan_type: str | None = None


class _Settings(msgspec.Struct, gc=False):
    service_tier: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str = ""
    exit_code: int | None = None
    status: msgspec.Raw = msgspec.Raw()


class _Spawned(msgspec.Struct, gc=False):
    parent_thread_id: str | None = None


class _SubAgent(msgspec.Struct, gc=False):
    thread_spawn: _Spawned | None = None


class _Origin(msgspec.Struct, gc=False):
    subagent: _SubAgent | str | None = None


class _Payload(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    session_id: str | None = None
    thread_id: str | None = None
    timestamp: str = ""
    cwd: str | None = None
    cli_version: str = ""
    model: str | None = None
    model_provider: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    source: _Origin | str | None = None
    role: str = ""
    content: list[_Text] | str | None = None
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    action: msgspec.Raw = msgspec.Raw()
    output: msgspec.Raw = msgspec.Raw()
    call_id: str = ""
    exit_code: int | None = None
    success: bool | None = None
    item: _Item | None = None
    response_id: str | None = None
    usage: _Tokens | None = None
    info: _Totals | None = None
    service_tier: str | None = None
    thread_settings: _Settings | None = None
    rate_limits: _Limits | None = None

    def starter(self) -> str:
        """The thread that started this one as a sub-agent; "" if there is none."""
        agent = self.source.subagent if isinstance(self.source, _Origin) else None
        spawned = agent.thread_spawn if isinstance(agent, _SubAgent) else None
        return self.parent_thread_id or (spawned.parent_thread_id if spawned else None) or ""

    def parent(self) -> str:
        """The thread that a thread was forked from, or that started it; "" if there is none."""
        session = self.session_id if self.session_id != self.id else None
        return self.forked_from_id or self.starter() or session or ""


class _Line(msgspec.Struct, gc=False):
    timestamp: str = ""
    type: str = ""
    payload: _Payload | None = None


_decode: Final = msgspec.json.Decoder(_Line).decode


class Codex:
    """Reads the rollout files."""

    name: Final = "codex"
    versions: Final = "0.169.0"

    def places(self, home: Home) -> tuple[Path, ...]:
        """``$CODEX_HOME`` or ``~/.codex``: sessions, and those that were archived."""
        folder = home.folder("CODEX_HOME", ".codex")
        return folder / "sessions", folder / "archived_sessions"

    def find(self, home: Home) -> Iterator[Log]:
        """Yield one log per session: the file of its thread, then those of its sub-agents."""
        logs = (home.regular(place.glob("**/rollout-*.jsonl")) for place in self.places(home))
        known = [(file, _meta(file)) for files in logs for file in files]
        starters = {meta.id: meta.starter() for _, meta in known}
        sessions = grouped(
            (
                session := meta.session_id or _first(meta.id or "", starters) or file.stem,
                (meta.id not in (session, None), file),
            )
            for file, meta in known
        )
        for files in sessions.values():
            yield Log(self.name, tuple(file for _, file in sorted(files)))
        for place in self.places(home):
            packed = [
                each for each in place.glob("**/rollout-*.jsonl.zst") if not each.with_suffix("").exists()
            ]
            if packed:
                home.left_out.append(
                    f"left out: {place}: {counted(len(packed), 'log')} that Codex has compressed, as it may "
                    "after seven days: zstd -d FILE -o COPY.jsonl makes one that is read if it is named"
                )

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the session of a log."""
        lines, threads = Lines(), []
        for file in log.files:
            thread = _Thread()
            for line in lines.read(file, _decode):
                thread.take(line)
            threads.append(thread)
        main = threads[0].meta
        requests = threads[0].chat.joined()
        for thread in threads[1:]:
            agent = thread.meta.id or ""
            requests += [msgspec.structs.replace(each, agent=agent) for each in thread.chat.joined()]
        if len(threads) > 1:
            requests.sort(key=lambda each: each.at)
        if requests or lines.notes:
            yield Session(
                id=main.session_id or main.id or log.files[0].stem,
                client=self.name,
                version=main.cli_version,
                project=threads[0].project,
                files=tuple(map(str, log.files)),
                requests=tuple(requests),
                not_logged=_NOT_LOGGED,
                notes=lines.notes,
                parent=main.forked_from_id or "",
            )


def _first(thread: str, starters: Mapping[str | None, str]) -> str:
    """The first of the threads that started each other down to this one; for versions before session ids."""
    seen = {thread}
    while (starter := starters.get(thread, "")) and starter not in seen:
        thread = starter
        seen.add(thread)
    return thread


def _meta(file: Path) -> _Payload:
    """The first line: what thread of which session the file is."""
    for line in Lines().read(file, _decode):
        return line.payload or _Payload()
    return _Payload()


class _Thread:
    """Reads one file.

    The thread of a fork or a sub-agent may begin with lines of its parent, with or without new times. The
    requests of these are the parent's. Cumulative counts may continue those of the parent.
    """

    def __init__(self) -> None:
        self.chat = Chat()
        self.meta = _Payload()
        self.project = ""
        self._model = ""
        self._ids: set[str] = set()
        self._compacted = self._subscription = False
        self._tier: str | None = None  # of service, as it was set last
        self._total = _Tokens()
        self._restarts = 0  # of the cumulative counts
        self._has_records = False  # newer versions also write a record per answer
        self._root = ""  # the first of the threads that this one comes from
        self._counts_of = ""  # the thread whose cumulative counts these are
        self._is_copied = False  # the latest line is the parent's
        self._latest = 0.0  # seconds since the epoch, the latest time of a line

    def take(self, line: _Line) -> None:
        """Take the next line."""
        payload = line.payload
        if payload is None:
            return
        at = seconds(line.timestamp)
        self._is_copied = self._is_copied and at <= self._latest + _COPIED and not self._is_own(payload)
        self._latest = max(self._latest, at)
        if payload.thread_settings is not None:
            self._tier = payload.thread_settings.service_tier
        match line.type:
            case "session_meta":
                self._begin(payload)
            case "turn_context":
                self._model = payload.model or self._model
                self.project = self.project or payload.cwd or ""
            case "response_item":
                self._item(payload, at)
            case "token_usage_record":
                self._has_records = True
                self._answered(self._record_id(payload), payload.usage, at, payload.service_tier)
            case "compacted":
                self._compacted = True
            case "event_msg":
                self._event(payload, at)
            case _:
                pass

    def _begin(self, meta: _Payload) -> None:
        """Take what thread this is; a forked thread repeats that of the thread it comes from."""
        if not self.meta.id:
            self.meta, self.project = meta, meta.cwd or ""
            self._is_copied = bool(meta.parent())
            self._root, self._counts_of = meta.parent(), meta.id or ""
        elif meta.id != self.meta.id and not self.chat.requests and self._total == _Tokens():
            self._root, self._is_copied = meta.id or self._root, True

    def _is_own(self, payload: _Payload) -> bool:
        return payload.thread_id is not None and payload.thread_id == self.meta.id

    def _item(self, payload: _Payload, at: float) -> None:
        if payload.type in _CALLS:
            arguments = _text(payload.arguments) or _text(payload.input) or _text(payload.action)
            name = payload.name or payload.type.removesuffix("_call")
            self.chat.calls.append(ToolUse(payload.call_id or payload.id or "", name, cut(arguments)))
        elif payload.type in _RESULTS:
            self.chat.result(payload.call_id, _text(payload.output), None, at)
        elif payload.type == "message" and payload.role == "assistant":
            self.chat.texts += _words(payload.content)
        elif payload.type == "message" and payload.role == "user":
            self.chat.ask(_words(payload.content))

    def _event(self, payload: _Payload, at: float) -> None:
        item = payload.item
        if payload.type == "item_completed" and item is not None and item.id:
            self._outcome(item)
        elif payload.type == "exec_command_end" and payload.exit_code is not None:
            self.chat.failed[payload.call_id] = payload.exit_code != 0
        elif payload.type == "patch_apply_end" and payload.success is not None:
            self.chat.failed[payload.call_id] = not payload.success
        elif payload.type == "token_count":
            self._count(payload, at)

    def _outcome(self, item: _Item) -> None:
        status = _text(item.status)
        if item.exit_code is not None:
            self.chat.failed[item.id] = item.exit_code != 0
        elif status in ("failed", "completed") and item.type != "AgentMessage":
            self.chat.failed[item.id] = status == "failed"

    def _count(self, payload: _Payload, at: float) -> None:
        """Take a cumulative count, which is repeated and is also written when nothing was asked."""
        limits, info = payload.rate_limits, payload.info
        self._subscription = self._subscription or bool(limits and limits.plan_type)
        if info is None or info.total_token_usage is None:
            return
        total, last = info.total_token_usage, info.last_token_usage
        before, self._total = self._total, total
        if self._has_records or total == before:
            return
        grown = total.since(before)
        self._restarts += grown.input_tokens < 0
        if self._is_copied:
            self._counts_of = self._root
            self.chat.forget()
            return
        if last is None or (last != grown and grown.input_tokens >= 0 and before != _Tokens()):
            last = grown
        counts = (total.input_tokens, total.cached_input_tokens, total.output_tokens)
        self._answered(
            ":".join(map(str, (self._counts_of, self._restarts, *counts))), last, at, payload.service_tier
        )

    def _record_id(self, payload: _Payload) -> str:
        """The answer's id; of a provider that gives none, the thread, its counts and the answer's number."""
        if payload.response_id or payload.usage is None:
            return payload.response_id or ""
        counts = msgspec.structs.astuple(payload.usage)
        return ":".join(map(str, (payload.thread_id or self.meta.id, len(self.chat.requests), *counts)))

    def _answered(self, id_: str, tokens: _Tokens | None, at: float, tier: str | None) -> None:
        if id_ in self._ids or tokens is None:
            return
        self._ids.add(id_)
        self.chat.answer(
            id_,
            tokens.usage(),
            at=at,
            model=self._model,
            provider=self.meta.model_provider or "",
            subscription=self._subscription,
            new_context=self._compacted,
            rate=rate(self._model, tier or self._tier),
        )
        self._compacted = False


def _words(content: list[_Text] | str | None) -> tuple[str, ...]:
    if isinstance(content, list):
        return tuple(each.text for each in content if each.text)
    return (content,) if content else ()


def _text(raw: msgspec.Raw) -> str:
    """A JSON string's text, else the JSON; texts of a list of parts."""
    if not bytes(raw) or bytes(raw) == b"null":
        return ""
    value = msgspec.json.decode(raw)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        return "\n".join(str(each.get("text", "")) for each in value)
    return bytes(raw).decode(errors="replace")
