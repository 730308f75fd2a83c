"""Goes through a home directory, one log at a time; every request is counted once.

Figures of logs that were read before are stored in the user's cache directory on request: numbers, names and
paths of ``SessionFigures``, and hashes of the ids of requests; never a text.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from traceback import extract_tb
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.figures import SessionFigures, figures
from pointsman.audit.session import Request, Session, believable
from pointsman.audit.sources import Home, Log, Source, source_of
from pointsman.decoding import UNREADABLE
from pointsman.errors import PointsmanError
from pointsman.stores.replacing import replaced

__all__ = ["Collection", "KeptFigures", "LogFigures", "Read"]

#: Raised with every change of what is computed, so that no figures of an earlier version are shown.
_VERSION: Final = 10
#: Bytes at the end of a file that tell whether it was changed without growing.
_END: Final = 4_096


class LogFigures(msgspec.Struct, frozen=True):
    """Figures of one log."""

    fingerprint: bytes
    sessions: list[SessionFigures]
    copies: tuple[int, ...]  # hashes of requests that another log had before


class _File(msgspec.Struct):
    version: int
    logs: dict[str, LogFigures]


class KeptFigures:
    """A file of figures by log. One that is damaged, or of another version, is as good as none."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._before = _read(file)
        self._now: dict[str, LogFigures] = {}

    def get(self, log: Log) -> LogFigures | None:
        """Stored figures of a log, if no file of it has changed since."""
        kept = self._before.get(_name(log))
        return kept if kept is not None and kept.fingerprint == _fingerprint(log) else None

    def put(self, log: Log, sessions: list[SessionFigures], copies: Sequence[int]) -> None:
        """Store the figures of a log."""
        self._now[_name(log)] = LogFigures(_fingerprint(log), sessions, tuple(copies))

    def keep(self, log: Log, kept: LogFigures) -> None:
        """Retain earlier figures."""
        self._now[_name(log)] = kept

    def save(self) -> None:
        """Write the file, for the user's eyes alone. Logs that are no longer there are left out.

        Raises:
            PointsmanError: it cannot be written.
        """
        earlier = {
            name: kept for name, kept in self._before.items() if Path(name.partition("\0")[2]).exists()
        }
        whole = msgspec.msgpack.encode(_File(_VERSION, earlier | self._now))
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replaced(self._file) as draft:
                draft.write_bytes(whole)
        except OSError as error:
            raise PointsmanError(f"cannot write {self._file}: {error.strerror or error}") from error


def _read(file: Path) -> dict[str, LogFigures]:
    try:
        found = msgspec.msgpack.decode(file.read_bytes(), type=_File)
    except (OSError, *UNREADABLE):
        return {}
    return found.logs if found.version == _VERSION else {}


def _name(log: Log) -> str:
    return f"{log.source}\0{log.files[0]}"


def _fingerprint(log: Log) -> bytes:
    """Path, size and end of every file, of a database also of its write-ahead log; and the zone of days."""
    found = blake2b(repr(time.tzname).encode(), digest_size=16)
    for file in log.files:
        for each in (file, file.with_name(f"{file.name}-wal")):
            try:
                with each.open("rb") as opened:
                    size = opened.seek(0, os.SEEK_END)
                    opened.seek(max(0, size - _END))
                    found.update(f"{each}\0{size}\0".encode(errors="surrogateescape") + opened.read())
            except OSError:
                continue  # no such file: reading says what is wrong
    return found.digest()


_NUMBER: Final = re.compile(r"\d+")
#: Notes that are kept; more are counted.
_MOST_NOTES: Final = 200


class Read(NamedTuple):
    """A session without the requests that another session or an earlier time has."""

    session: Session
    keys: tuple[int, ...]  # hashes of the ids of its requests


class Collection:
    """Result of a search, and its sessions.

    Args:
        home: Where to look.
        sources: What to look for.
        files: Exports and ledgers to read; where some are named and ``home`` is None, nothing else is read.
        since: Requests before this time, in seconds since the epoch, are left out; 0: none.
    """

    def __init__(
        self,
        home: Home | None,
        sources: Sequence[Source],
        *,
        files: Sequence[Path] = (),
        since: float = 0.0,
    ) -> None:
        self.home: Final = home
        self.sources: Final[dict[str, Source]] = {source.name: source for source in sources}
        self.since: Final = since
        self.notes: list[str] = []
        self.copies = 0  # requests that stand in more than one session
        self.on_log: Callable[[], None] | None = None  # called after every log
        self.left_out = 0  # requests that are too old
        self.empty: Counter[str] = Counter()  # logs without a request, by source
        self._faults = 0  # logs that could not be read to their end
        self._versions: set[tuple[str, str]] = set()
        self._copied: list[int] = []
        self._seen: set[int] = set()
        found: list[Log] = []
        for source in sources:
            with self._fault_noted(f"the logs of {source.name}"):
                found.extend(source.find(home) if home else ())
        self.logs: Final = [log for log in found if _changed(log, since)]
        self.old_logs: Final = len(found) - len(self.logs)  # not changed since then
        for note in home.left_out if home else ():
            self.note(note)
        for file in files:
            source = source_of(file)
            self.sources[source.name] = source
            self.logs.append(Log(source.name, (file,)))

    def places(self) -> dict[str, tuple[Path, ...]]:
        """Where every source looks."""
        if self.home is None:
            return {}
        return {name: source.places(self.home) for name, source in self.sources.items()}

    def found(self) -> dict[str, int]:
        """Logs by source."""
        return dict(Counter(log.source for log in self.logs))

    def sessions(self) -> Iterator[Read]:
        """Yield the sessions, one at a time. A log that cannot be read becomes a note."""
        for log in self.logs:
            yield from self._read(log)
            self._done()

    def prompts(self, wanted: AnyCollection[SessionFigures]) -> dict[tuple[str, str], tuple[str, ...]]:
        """User messages of some sessions, by client and id; their logs are read once more."""
        files = {file for of in wanted for file in of.files}
        ids = {(of.client, of.id) for of in wanted}
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for log in self.logs:
            if files.isdisjoint(map(str, log.files)):
                continue
            with suppress(Exception):  # it is a note since it was read before
                for session in self.sources[log.source].read(log):
                    if (session.client, session.id) in ids:
                        said = (each.prompt for each in session.requests if each.prompt and not each.agent)
                        found[session.client, session.id] = tuple(said)
        return found

    def figures(self, kept: KeptFigures | None = None) -> Iterator[SessionFigures]:
        """Yield the figures of the sessions. Logs that have not changed are not read again.

        Args:
            kept: Cached figures of logs read before; updated, and not yet written.
        """
        for log in self.logs:
            before = kept.get(log) if kept else None
            if kept and before and self._still_holds(before):
                kept.keep(log, before)
                for of in before.sessions:
                    self._check_version(self.sources[log.source], of.version)
                    self._seen.update(of.request_keys)
                    self._notes(of.notes)
                    yield of
                self.copies += len(before.copies)
            else:
                yield from self._figures(log, kept)
            self._done()

    def _still_holds(self, kept: LogFigures) -> bool:
        """Whether the same requests as then are copies, and none is too old."""
        fresh = [key for of in kept.sessions for key in of.request_keys]
        old = any(of.started and of.started < self.since for of in kept.sessions)
        return not old and self._seen.isdisjoint(fresh) and self._seen.issuperset(kept.copies)

    def _figures(self, log: Log, kept: KeptFigures | None) -> Iterator[SessionFigures]:
        known, before = len(self._copied), (self.left_out, self._faults)
        made = []
        for session, keys in self._read(log):
            with self._fault_noted(log.files[0]):
                of = figures(session, keys=keys)
                made.append(of)
                yield of
        if kept and (self.left_out, self._faults) == before:
            kept.put(log, made, self._copied[known:])

    def _read(self, log: Log) -> Iterator[Read]:
        source, found = self.sources[log.source], 0
        with self._fault_noted(log.files[0]):
            for session in source.read(log):
                found += len(session.requests)
                self._check_version(source, session.version)
                self._faults += bool(session.notes) and not session.requests  # no figures hold the notes
                yield from self._fresh(believable(session))
        if not found:
            self.empty[log.source] += 1

    @contextmanager
    def _fault_noted(self, of: object) -> Iterator[None]:
        """Turn what ends the reading of a log into a note: the figures of the other logs are still wanted."""
        try:
            yield
        except PointsmanError as error:
            self._faults += 1
            self.note(str(error))
        except Exception as error:  # noqa: BLE001 - anyone may have written the log; it becomes a note
            self._faults += 1
            place = extract_tb(error.__traceback__)[-1]
            self.note(
                f"left out from where it cannot be read: {of}: {type(error).__name__} in "
                f"{Path(place.filename).name}:{place.lineno}"
            )

    def _check_version(self, source: Source, version: str) -> None:
        """Say once of every version that it was not tested."""
        if version and (source.name, version) not in self._versions:
            self._versions.add((source.name, version))
            if not _is_tested(version, source.versions):
                self.note(
                    f"{source.name} {version} was not tested, {source.versions} was: its logs are read as "
                    "far as their fields are known"
                )

    def _done(self) -> None:
        if self.on_log:
            self.on_log()

    def _notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.note(note)

    def note(self, text: str) -> None:
        """Add a note for the user."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def _fresh(self, session: Session) -> Iterator[Read]:
        self._notes(session.notes)
        keys, kept = [], []
        for request in session.requests:
            key = _key(session.client, request)
            if key in self._seen:
                self.copies += 1
                self._copied.append(key)
            elif request.at and request.at < self.since:
                self.left_out += 1
            else:
                self._seen.add(key)
                keys.append(key)
                kept.append(request)
        if kept:
            whole = len(kept) == len(session.requests)
            fresh = session if whole else msgspec.structs.replace(session, requests=tuple(kept))
            yield Read(fresh, tuple(keys))


def _key(client: str, request: Request) -> int:
    digest = blake2b(f"{client}\0{request.id}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest)


def _is_tested(version: str, tested: str) -> bool:
    """Whether a version is within a range such as "2.1.197 to 2.1.330", or the one named."""
    first, _, last = tested.partition(" to ")
    bounds = _numbers(first), _numbers(last or first)
    return not all(bounds) or bounds[0] <= _numbers(version) <= bounds[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _NUMBER.findall(version)[:4])


def _changed(log: Log, since: float) -> bool:
    try:
        return not since or any(file.stat().st_mtime >= since for file in log.files)
    except OSError:
        return True  # reading says what is wrong
