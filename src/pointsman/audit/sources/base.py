"""What every source of logs implements: reading lines, some of them damaged, and collecting requests."""

from __future__ import annotations

import csv
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from pointsman.audit.session import Request, Session, ToolUse, Usage, cut
from pointsman.decoding import UNREADABLE, decoded, why_unreadable
from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines
from pointsman.text.extract import latest_words
from pointsman.vocabulary import Message, Purpose, Role

__all__ = [
    "Chat",
    "Home",
    "Lines",
    "Log",
    "Named",
    "Row",
    "Source",
    "answered",
    "raw_text",
    "read_only",
    "rows",
    "seconds",
    "words_in",
]

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory, and the variables that move the folders of clients out of it."""

    path: Path
    environment: Mapping[str, str]
    left_out: list[str] = field(default_factory=list)  # files that are not read, each with the reason

    @classmethod
    def at(cls, folder: Path | None) -> Home:
        """The folder alone where one is named; else the user's home with the environment's folders."""
        return cls(Path.home(), os.environ) if folder is None else cls(folder, {})

    def folder(self, variable: str, default: str) -> Path:
        """The folder that a variable names, else the default under the home directory."""
        named = self.environment.get(variable, "")
        return Path(named) if named else self.path / default

    def regular(self, files: Iterable[Path]) -> list[Path]:
        """Sort files, and leave out other files, or a link out of the home directory and the file's folder.

        A clone may hold links, and reading a pipe or a device may never end.
        """
        found = []
        for file in sorted(files):
            if not file.is_file():
                self.left_out.append(f"left out: {file}: not a regular file")
            elif file.is_symlink() and not any(
                file.resolve().is_relative_to(place.resolve()) for place in (self.path, file.parent)
            ):
                self.left_out.append(f"left out: {file}: a link to a file outside of {self.path}")
            else:
                found.append(file)
        return found


class Log(NamedTuple):
    """Unit of reading: the files of one session, or one export. The first one names it."""

    source: str
    files: tuple[Path, ...]


@runtime_checkable
class Source(Protocol):
    """One origin of logs. Offered by packages under the entry point group ``pointsman.audit.sources``."""

    @property
    def name(self) -> str:
        """Stable name, which sessions carry as their client."""

    @property
    def versions(self) -> str:
        """The versions of the client that were read in tests; "" for a format without versions."""

    def places(self, home: Home) -> tuple[Path, ...]:
        """Where logs would be."""

    def find(self, home: Home) -> Iterator[Log]:
        """Yield the logs to read."""

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions of a log. Unreadable parts are left out and noted in ``Session.notes``."""


class Named:
    """A source of files that are named on the command line."""

    def places(self, home: Home) -> tuple[Path, ...]:
        """Nowhere."""
        del home
        return ()

    def find(self, home: Home) -> Iterator[Log]:
        """Nothing lies in a home directory."""
        del home
        yield from ()


def answered(id_: str, usage: Usage, prompt: str | None, texts: Sequence[str], **about: Any) -> Request:
    """A request with its answer.

    Args:
        id_: Of the answer.
        usage: Tokens.
        prompt: The words of a person before it, cut; None: nothing new.
        texts: Of the answer, whole.
        about: Other fields of ``Request``.
    """
    text = "\n".join(texts)
    purpose = Purpose.TOOL_ITERATION if prompt is None else Purpose.MESSAGE
    fields = {"purpose": purpose} | about
    return Request(id=id_, usage=usage, prompt=prompt, text=cut(text), text_length=len(text), **fields)


def words_in(texts: Sequence[str], *but: str) -> str:
    """A person's words in a message, cut; "" where they begin with one of ``but``, a text of the client."""
    words = latest_words(Message(Role.USER, tuple(texts)))
    return "" if words.startswith(but) else cut(words)


class Chat:
    """Collects the requests of one conversation: prompt, texts and calls before each, results after it."""

    def __init__(self) -> None:
        self.prompt: str | None = None
        self.texts: list[str] = []
        self.calls: list[ToolUse] = []
        self.results: dict[str, ToolUse] = {}  # by call
        self.failed: dict[str, bool] = {}  # by call, where the client records it apart from the result
        self.requests: list[Request] = []

    def ask(self, texts: Sequence[str], *but: str) -> None:
        """Take a person's words, as ``words_in``."""
        self.prompt = words_in(texts, *but) or self.prompt

    def result(self, call: str, text: str, is_error: bool | None, at: float) -> None:
        """Take the result of a call."""
        self.results[call] = ToolUse("", "", "", cut(text), is_error, len(text), at)

    def answer(self, id_: str, usage: Usage, **about: Any) -> None:
        """Add a request with everything before it."""
        self.requests.append(answered(id_, usage, self.prompt, self.texts, calls=tuple(self.calls), **about))
        self.forget()

    def forget(self) -> None:
        """Drop the prompt, texts and calls since the latest request."""
        self.texts, self.calls, self.prompt = [], [], None

    def joined(self) -> list[Request]:
        """The requests in order, with the results of their calls."""
        return [
            msgspec.structs.replace(each, calls=tuple(map(self.with_result, each.calls)))
            for each in self.requests
        ]

    def with_result(self, call: ToolUse) -> ToolUse:
        """A call with its result, if there is one."""
        found = self.results.get(call.id)
        if found is None:
            return call
        failed = self.failed.get(call.id, found.is_error)
        return msgspec.structs.replace(
            found, id=call.id, name=call.name, arguments=call.arguments, is_error=failed
        )


def raw_text(raw: msgspec.Raw) -> str:
    """JSON as text, cut."""
    return cut(bytes(raw).decode(errors="replace"))


class Lines:
    """Reads JSON lines into one type; counts lines that are damaged, cut off, or of another shape."""

    #: Damaged lines that are named one by one.
    NAMED: Final = 3

    def __init__(self) -> None:
        self.damaged = 0
        self._named: list[str] = []

    def read(self, file: Path, decode: Callable[[bytes], Line]) -> Iterator[Line]:
        """Yield the lines of a file that can be read.

        Raises:
            PointsmanError: the file cannot be read at all.
        """
        for number, line in numbered_lines(file):
            try:
                yield decoded(decode, line)
            except UNREADABLE as error:
                self.damaged += 1
                if len(self._named) < self.NAMED:
                    cut = "" if line.endswith(b"\n") else "the file ends in the middle of it: "
                    self._named.append(f"{file}:{number}: {cut}{why_unreadable(error)}")

    def whole(self, file: Path, decode: Callable[[bytes], Line]) -> Iterator[Line]:
        """Yield the content of a file of one JSON document.

        Raises:
            PointsmanError: the file cannot be read at all.
        """
        try:
            yield decoded(decode, file.read_bytes())
        except OSError as error:
            raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error
        except UNREADABLE as error:
            self.damaged += 1
            self._named.append(f"{file}: {why_unreadable(error)}")

    @property
    def notes(self) -> tuple[str, ...]:
        """Which lines were left out, and why."""
        more = self.damaged - len(self._named)
        rest = (f"{more} more lines cannot be read",) if more else ()
        return (*(f"left out: {each}" for each in self._named), *rest)


def read_only(file: Path) -> sqlite3.Connection:
    """Open a database so that no other file is written, and no view is read: one may have no end."""
    log = file.with_name(f"{file.name}-wal")
    in_use = log.exists() and log.stat().st_size > 0 and file.with_name(f"{file.name}-shm").exists()
    mode = "mode=ro" if in_use else "mode=ro&immutable=1"
    database = sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True)
    # The last argument names the view inside which something is read.
    database.set_authorizer(lambda *asked: sqlite3.SQLITE_DENY if asked[-1] else sqlite3.SQLITE_OK)
    return database


def seconds(timestamp: str | float | None, zone: tzinfo | None = None) -> float:
    """Seconds since the epoch of a time in ISO 8601, in seconds or in milliseconds; 0 for other text.

    Args:
        timestamp: The time.
        zone: Of a text that names none; None: this machine's.
    """
    if timestamp is None:
        return 0.0
    if isinstance(timestamp, str):
        try:
            at = datetime.fromisoformat(timestamp)
            return (at if at.tzinfo else at.replace(tzinfo=zone)).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return timestamp / 1_000 if timestamp > 1e11 else float(timestamp)


# Rows of an export, read by the names of fields: CSV, a JSON document, or JSON lines.

Row: TypeAlias = Mapping[str, Any]

#: Under these names services put their rows into one JSON document.
_LISTS: Final = ("data", "observations", "results", "requests", "logs")
_decode_row: Final = msgspec.json.Decoder(dict[str, Any]).decode
#: Bytes of a JSON document that is read at once; JSON lines and CSV are read line by line.
_LARGEST: Final = 1_000_000_000


def rows(file: Path, lines: Lines) -> Iterator[Row]:
    """Yield the rows of an export.

    Raises:
        PointsmanError: the file cannot be read, or is too large to be read at once.
    """
    try:
        with file.open("rb") as opened:
            begin = opened.read(4_096).lstrip(b"\xef\xbb\xbf \r\n\t")
        if begin.startswith(b"[") or (begin.startswith(b"{") and not _is_lines(file)):
            yield from _document(file)
        elif begin.startswith(b"{"):
            yield from lines.read(file, _decode_row)
        else:
            with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened_text:
                yield from csv.DictReader(opened_text)
    except (OSError, csv.Error) as error:
        raise PointsmanError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _is_lines(file: Path) -> bool:
    """Whether the first line is a complete document."""
    with file.open("rb") as opened:
        first = opened.readline(_LARGEST)
    try:
        msgspec.json.decode(first)
    except UNREADABLE:
        return False
    return b'"resourceSpans"' in first or not any(f'"{name}":['.encode() in first for name in _LISTS)


def _document(file: Path) -> Iterator[Row]:
    if file.stat().st_size > _LARGEST:
        raise PointsmanError(
            f"{file} is one JSON document of {file.stat().st_size:,} bytes", hint="export JSON lines or CSV"
        )
    try:
        value = msgspec.json.decode(file.read_bytes())
    except UNREADABLE as error:
        raise PointsmanError(f"{file}: not JSON: {why_unreadable(error)}") from error
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [value])
    yield from (each for each in value if isinstance(each, dict))
