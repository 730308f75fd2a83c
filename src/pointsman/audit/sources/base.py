"""What every source of logs implements, and reading lines of which some may be damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from pointsman.audit.session import Session
from pointsman.decoding import UNREADABLE, why_unreadable, without_halves
from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines

__all__ = ["Home", "Lines", "Log", "Source", "seconds"]

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
        ...

    @property
    def versions(self) -> str:
        """The versions of the client that were read in tests; "" for a format without versions."""
        ...

    def places(self, home: Home) -> tuple[Path, ...]:
        """Where logs would be."""
        ...

    def find(self, home: Home) -> Iterator[Log]:
        """Yield the logs to read."""
        ...

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions of a log. Unreadable parts are left out and noted in ``Session.notes``."""
        ...


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
                yield _decoded(line, decode)
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
            yield _decoded(file.read_bytes(), decode)
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


def _decoded(line: bytes, decode: Callable[[bytes], Line]) -> Line:
    try:
        return decode(line)
    except UNREADABLE:
        whole = without_halves(line)  # JavaScript writes halves of emoji
        if whole == line:
            raise
        return decode(whole)


def seconds(timestamp: str | float | None) -> float:
    """Seconds since the epoch of a time in ISO 8601, in seconds or in milliseconds; 0 for other text."""
    if timestamp is None:
        return 0.0
    if isinstance(timestamp, str):
        try:
            return datetime.fromisoformat(timestamp).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return timestamp / 1_000 if timestamp > 1e11 else float(timestamp)
