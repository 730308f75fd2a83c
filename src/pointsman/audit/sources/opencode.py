"""opencode: an SQLite database, or JSON files in versions before it had one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.audit.session import Request, Session, ToolUse, Usage, cut
from pointsman.audit.sources.base import Chat, Home, Log, raw_text, read_only, seconds
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import PointsmanError
from pointsman.remembering import grouped
from pointsman.vocabulary import Purpose

__all__ = ["OpenCode"]

_NOT_LOGGED: Final = ("titles",)
#: Providers of which opencode has prices: it writes a cost of 0 where a plan pays, or the model is free.
#: For a provider of the user's own it writes 0 where the configuration has no price. Source: its
#: provider/provider.ts, plugin/openai/codex.ts, plugin/github-copilot/models.ts.
_PRICED: Final = frozenset({"anthropic", "github-copilot", "google", "openai", "opencode", "xai"})


class _Cache(msgspec.Struct, gc=False):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, gc=False):
    total: int | None = None
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)

    def usage(self) -> Usage:
        """Cached tokens are no part of the input. The total shows whether reasoning is part of the output."""
        whole = self.input + self.cache.read + self.cache.write
        output = self.output + self.reasoning if self.total is None else max(self.total - whole, self.output)
        return Usage(
            input_tokens=whole,
            cached_tokens=self.cache.read,
            written_tokens=self.cache.write,
            output_tokens=output,
            output_at_most=output,
        )


class _Time(msgspec.Struct, gc=False):
    created: float = 0.0
    completed: float | None = None
    end: float | None = None


class _State(msgspec.Struct, gc=False):
    status: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = None
    time: _Time | None = None


class _Part(msgspec.Struct, rename={"call_id": "callID"}, gc=False):
    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    tool: str = ""
    call_id: str = ""
    state: _State | None = None
    tokens: _Tokens | None = None
    cost: float | None = None

    def use(self) -> ToolUse:
        """A call with its result. The exit status of a command is in the metadata."""
        state = self.state or _State()
        arguments = raw_text(state.input)
        text = state.error if state.error is not None else state.output
        if text is None:
            return ToolUse(self.call_id, self.tool, arguments)
        status = (state.metadata or {}).get("exit")
        failed = state.status == "error" or (isinstance(status, int) and status != 0)
        at = seconds(state.time.end if state.time else None)
        return ToolUse(self.call_id, self.tool, arguments, cut(text), failed, len(text), at)


class _Data(msgspec.Struct, rename={"model_id": "modelID", "provider_id": "providerID"}, gc=False):
    role: str = ""
    model_id: str = ""
    provider_id: str = ""
    summary: bool | dict[str, Any] | None = None
    tokens: _Tokens | None = None
    cost: float | None = None
    time: _Time = msgspec.field(default_factory=_Time)


_data: Final = msgspec.json.Decoder(_Data).decode
_part: Final = msgspec.json.Decoder(_Part).decode


class _Row(NamedTuple):
    """One session: the main one, or one that a session started."""

    id: str
    parent: str
    directory: str
    version: str


class OpenCode:
    """Reads the database. Sessions of sub-agents are part of the session that started them."""

    name: Final = "opencode"
    versions: Final = "1.18.33"

    def places(self, home: Home) -> tuple[Path, ...]:
        """Opencode's folder under ``$XDG_DATA_HOME`` or ``~/.local/share``."""
        return (home.folder("XDG_DATA_HOME", ".local/share") / "opencode",)

    def find(self, home: Home) -> Iterator[Log]:
        """Yield the database, or the sessions in JSON files if there is none."""
        for place in self.places(home):
            files = home.regular(place.glob("opencode*.db"))
            yield from (Log(self.name, (file,)) for file in files)
            if not files:
                storage = home.regular((place / "storage/session").glob("*/ses_*.json"))
                yield from [Log(self.name, tuple(storage))] if storage else []

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions, one at a time.

        Raises:
            PointsmanError: the database cannot be read, or has other tables.
        """
        file = log.files[0]
        if file.suffix == ".json":
            yield from _sessions(_Files(log.files), str(file.parents[2]))
            return
        try:
            with closing(read_only(file)) as database:
                yield from _sessions(_Database(database), str(file))
        except sqlite3.Error as error:
            raise PointsmanError(
                f"cannot read {file}: {error}",
                hint=f"opencode {OpenCode.versions} was read; is this another version's?",
            ) from error


class _Model(msgspec.Struct, rename={"provider_id": "providerID"}, gc=False):
    id: str = ""
    provider_id: str = ""


class _Content(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    id: str = ""
    name: str = ""
    state: dict[str, Any] | None = None


class _Version2(msgspec.Struct, gc=False):
    """A message of version 2, with its parts; the row has its type."""

    text: str | None = None
    model: _Model = msgspec.field(default_factory=_Model)
    cost: float | None = None
    tokens: _Tokens | None = None
    time: _Time = msgspec.field(default_factory=_Time)
    content: list[_Content] = []

    def data(self, kind: str, created: float) -> dict[str, object]:
        """The message as earlier versions write it."""
        return {
            "role": "user" if kind == "user" else "assistant",
            "modelID": self.model.id,
            "providerID": self.model.provider_id,
            "summary": kind == "compaction",
            "time": {"created": self.time.created or created, "completed": self.time.completed},
        }

    def parts(self) -> Iterator[dict[str, object]]:
        """The parts as earlier versions write them. The results of calls are not known."""
        if self.text:
            yield {"type": "text", "text": self.text}
        for each in self.content:
            if each.type == "tool":
                state = {"input": (each.state or {}).get("input") or {}}
                yield {"type": "tool", "tool": each.name, "callID": each.id, "state": state}
            else:
                yield {"type": each.type, "text": each.text}
        if self.tokens is not None:
            yield {"type": "step-finish", "tokens": self.tokens, "cost": self.cost}


_version_2: Final = msgspec.json.Decoder(_Version2).decode
_KINDS: Final = frozenset({"user", "assistant", "compaction"})


class _Database:
    """Rows of the database. Version 2 writes to new tables, and leaves those of version 1 unchanged."""

    notes: Sequence[str] = ()

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {name for (name,) in names}
        self._has_version_2 = {"session_v2", "session_message"} <= self._tables
        self._parts: dict[str, list[bytes]] = {}  # of the latest message of version 2

    def sessions(self) -> list[_Row]:
        """All sessions, oldest first, those of version 1 before others."""
        tables = ["session"] if "session" in self._tables or not self._has_version_2 else []
        tables += ["session_v2"] if self._has_version_2 else []
        found: dict[str, _Row] = {}
        for table in tables:
            for row in self._database.execute(
                f"SELECT id, coalesce(parent_id, ''), directory, version FROM {table} "  # noqa: S608
                "ORDER BY time_created, id"
            ):
                found.setdefault(row[0], _Row(*row))
        return list(found.values())

    def messages(self, session: str) -> Iterator[tuple[str, bytes]]:
        """Id and data of every message of a session, oldest first."""
        known = set()
        if "message" in self._tables or not self._has_version_2:
            for id_, data in self._database.execute(
                "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,)
            ):
                known.add(id_)
                yield id_, str(data).encode()
        if not self._has_version_2:
            return
        for id_, kind, created, data in self._database.execute(
            "SELECT id, type, time_created, data FROM session_message WHERE session_id = ? ORDER BY seq",
            (session,),
        ):
            if id_ in known or kind not in _KINDS:  # what was taken over keeps its id
                continue
            raw = data if isinstance(data, bytes) else str(data).encode()
            try:
                message = _version_2(raw)
            except UNREADABLE:
                self._parts = {}
                yield id_, raw[:-1]  # whoever reads it says why it cannot be read
                continue
            self._parts = {id_: [msgspec.json.encode(part) for part in message.parts()]}
            yield id_, msgspec.json.encode(message.data(kind, created))

    def parts(self, message: str) -> Iterator[bytes]:
        """Data of the parts of a message, in order."""
        if message in self._parts:
            yield from self._parts[message]
            return
        if self._has_version_2 and "part" not in self._tables:
            return
        for (data,) in self._database.execute(
            "SELECT data FROM part WHERE message_id = ? ORDER BY id", (message,)
        ):
            yield str(data).encode()


class _FileSession(msgspec.Struct, rename={"parent_id": "parentID"}, gc=False):
    id: str
    directory: str = ""
    version: str = ""
    parent_id: str = ""


class _Files:
    """The same from JSON files: ``session``, ``message`` and ``part`` under ``storage``."""

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.notes: list[str] = []
        self._files = files
        self._storage = files[0].parents[2]

    def sessions(self) -> list[_Row]:
        """All sessions, without those of files that cannot be read, which are noted."""
        found = []
        for file in self._files:
            try:
                each = msgspec.json.decode(file.read_bytes(), type=_FileSession)
            except (OSError, *UNREADABLE) as error:
                self.notes.append(f"left out: {file}: {why_unreadable(error)}")
                continue
            found.append(_Row(each.id, each.parent_id, each.directory, each.version))
        return found

    def messages(self, session: str) -> Iterator[tuple[str, bytes]]:
        """Id and data of every message: ids rise with time."""
        for file in sorted((self._storage / "message" / session).glob("*.json")):
            if file.is_file():
                yield file.stem, file.read_bytes()

    def parts(self, message: str) -> Iterator[bytes]:
        """Data of the parts of a message."""
        for file in sorted((self._storage / "part" / message).glob("*.json")):
            if file.is_file():
                yield file.read_bytes()


def _sessions(rows: _Database | _Files, file: str) -> Iterator[Session]:
    every = rows.sessions()
    roots = {row.id: row.parent for row in every}
    families = grouped((_root(row.id, roots), row) for row in every)
    if rows.notes:
        yield Session(id="", client=OpenCode.name, files=(file,), notes=tuple(rows.notes))
    for row in every:
        if row.parent in roots:
            continue  # read with the session that started it
        notes: list[str] = []
        requests = [
            request
            for each in families[row.id]
            for request in _requests(rows, each.id, "" if each is row else each.id, notes)
        ]
        requests.sort(key=lambda each: each.at)
        if requests or notes:
            yield Session(
                id=row.id,
                client=OpenCode.name,
                version=row.version,
                project=row.directory,
                files=(file,),
                requests=tuple(requests),
                not_logged=_NOT_LOGGED,
                notes=tuple(notes),
            )


def _root(id_: str, parents: dict[str, str]) -> str:
    seen = {id_}
    while (parent := parents.get(id_, "")) in parents and parent not in seen:
        id_ = parent
        seen.add(id_)
    return id_


def _requests(rows: _Database | _Files, session: str, agent: str, notes: list[str]) -> list[Request]:
    chat = Chat()
    for id_, raw in rows.messages(session):
        try:
            data = _data(raw)
            parts = [_part(each) for each in rows.parts(id_)]
        except UNREADABLE as error:
            notes.append(f"left out: message {id_}: {why_unreadable(error)}")
            continue
        if data.role == "user":
            chat.ask([each.text for each in parts if each.text and not each.synthetic])
        elif data.role == "assistant":
            _take_steps(chat, id_, data, parts, agent)
    return chat.requests


def _take_steps(chat: Chat, id_: str, data: _Data, parts: list[_Part], agent: str) -> None:
    """A message has one step per request. One that was interrupted has none, and counts nothing."""
    chat.texts, chat.calls = [], []
    purpose = {"purpose": Purpose.COMPACTION} if data.summary is True else {}
    steps = 0  # version 2 has other parts before the same step
    for part in parts:
        if part.type == "text" and part.text:
            chat.texts.append(part.text)
        elif part.type == "tool":
            chat.calls.append(part.use())
        elif part.type == "step-finish" and part.tokens is not None:
            chat.answer(
                _id(id_, data, steps, part.tokens),
                part.tokens.usage(),
                at=seconds(data.time.completed or data.time.created),
                model=data.model_id,
                provider=data.provider_id,
                agent=agent,
                cost=part.cost,
                subscription=part.cost == 0 and data.provider_id in _PRICED,
                **purpose,
            )
            steps += 1


def _id(message: str, data: _Data, step: int, tokens: _Tokens) -> str:
    """The id of a request: a fork copies messages under new ids, with their times and counts."""
    created, completed = data.time.created, data.time.completed
    copied = (created, completed, step, data.model_id, tokens.input, tokens.output)
    return ":".join(map(str, copied)) if created else f"{message}:{step}"
