"""Session memory that survives a restart: in this process, and behind it in one SQLite file."""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pointsman.errors import StoreUnavailable
from pointsman.stores._sqlite_file import SqliteFile, insert
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.sessions._memory import MemorySessions, SessionRow
from pointsman.stores.sessions.port import is_text, stored_form
from pointsman.vocabulary import DAY

__all__ = ["SqliteSessions", "session_file"]

log = logging.getLogger(__name__)

#: SQLite's field that identifies the program of a file: "Ptss".
APPLICATION: Final = 0x50747373

MIGRATIONS: Final = (
    (
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, put_at REAL, memory BLOB NOT NULL) WITHOUT ROWID",
        "CREATE INDEX sessions_by_time ON sessions (put_at)",
    ),
)

#: Seconds between two removals of sessions over the bounds.
SWEEP: Final = 60.0

_PUT: Final = "INSERT OR REPLACE INTO sessions (id, put_at, memory) VALUES {rows}"
_FORGET: Final = "DELETE FROM sessions WHERE id = ? AND put_at <= ?"  # not what another process put later
_EXPIRE: Final = "DELETE FROM sessions WHERE put_at < ?"
_EVICT: Final = (
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY put_at DESC LIMIT -1 OFFSET ?)"
)
_NEWEST: Final = "SELECT id, put_at, memory FROM sessions WHERE put_at >= ? ORDER BY put_at DESC LIMIT ?"


def session_file(path: Path) -> SqliteFile:
    """Return the file of a session store, which is not opened yet."""
    return SqliteFile(path, kind="session store", application=APPLICATION, migrations=MIGRATIONS)


class SqliteSessions(MemorySessions):
    """Reads the file once, when made, and writes it from a thread: no request waits for the disk.

    Several processes may write one file: a session is the process's that put it last.

    Texts that a memory quotes stay in this process: the file has digests in their place.

    A file that cannot be read is reported in ``fault`` and in the log, and nothing is remembered from before.
    """

    def __init__(
        self,
        path: Path,
        *,
        size: int = 6_000,
        ttl: float = DAY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Store ``size`` sessions for ``ttl`` seconds after they were last put."""
        super().__init__(size=size, ttl=ttl, clock=clock)
        self._file: Final = session_file(path)
        self._writer: Final = BatchWriter[SessionRow](self._write, size=size, name="sessions")
        self._swept_at = -math.inf
        self._unread = self._load()

    @property
    def fault(self) -> str:
        """Why the last write failed, or nothing could be read before the first; empty when all is well."""
        return self._writer.fault or ("" if self._writer.written else self._unread)

    @property
    def lost(self) -> int:
        """Changes that could not be written, since the start."""
        return self._writer.lost

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; may evict another session's."""
        row = SessionRow(session, self._clock(), memory)
        with self._lock:
            self._kept.put(session, row)
        self._writer.put(row)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        known = super().forget(session)
        if known:
            self._writer.put(SessionRow(session, self._clock(), None))
        return known

    def flush(self) -> None:
        """Write everything queued."""
        self._writer.flush()

    def close(self) -> None:
        """Write what waits and release the file."""
        if self._writer.close():
            self._file.close()

    def _gone(self, row: SessionRow) -> None:
        """Remove it from the file, which would else keep the newest of all callers together."""
        self._writer.put(SessionRow(row.session, row.at, None))

    def _load(self) -> str:
        """Take over the sessions of an earlier process; return why that was not possible."""
        if not self._file.path.exists():
            return ""
        try:
            rows = self._file.read(_NEWEST, (self._clock() - self._ttl, self._size))
        except StoreUnavailable as error:
            log.warning("%s; starting without stored sessions", error)
            return str(error)
        for session, put_at, memory in reversed(rows):
            self._kept.put(session, SessionRow(session, put_at, memory))
        return ""

    def _write(self, batch: Sequence[SessionRow]) -> int:
        last = {change.session: change for change in batch if is_text(change.session)}.values()
        try:
            connection = self._file.writer()
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                insert(
                    connection,
                    _PUT,
                    [
                        (change.session, change.at, stored_form(change.memory))
                        for change in last
                        if change.memory is not None
                    ],
                )
                connection.executemany(
                    _FORGET, [(change.session, change.at) for change in last if change.memory is None]
                )
                self._sweep(connection)
        except sqlite3.Error as error:
            self._file.close_writer()
            raise StoreUnavailable(f"cannot write the session store {self._file.path}: {error}") from error
        return sum(not is_text(change.session) for change in batch)

    def _sweep(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        if not 0 <= now - self._swept_at < SWEEP:  # below zero when the clock was set back
            connection.execute(_EXPIRE, (now - self._ttl,))
            connection.execute(_EVICT, (self._size,))
            self._swept_at = now
