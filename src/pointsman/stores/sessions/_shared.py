"""Session memory shared by the workers of one gateway: one SQLite file, read and written by each request."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pointsman.errors import StoreUnavailable
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.sessions._memory import MOST_OWNERS
from pointsman.stores.sessions._sqlite import session_file
from pointsman.stores.sessions._stored import WholeMemories, is_text
from pointsman.vocabulary import DAY

__all__ = ["SharedSessions"]

#: Puts of one worker between two removals of sessions over the bounds, and copies of the log into the file.
TIDY: Final = 1_024
#: Pages of the log at which a put copies it by itself: only when the thread that does so has died.
_LOG_PAGES: Final = 50_000

#: The bits of an extended error code of SQLite that name its class.
_CLASS: Final = 0xFF

#: Seconds to wait for another worker that writes, one after the other: a write takes 20 µs, a removal of what
#: is over the bounds some milliseconds. The event loop waits, so it is never more than a fifth of a second.
_WAITS: Final = (*(0.0,) * 24, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)

_GET: Final = "SELECT put_at, memory FROM sessions WHERE id = ?"
#: 32 µs; INSERT OR REPLACE takes 50, because it removes the row before.
_PUT: Final = (
    "INSERT INTO sessions (id, put_at, memory) VALUES (?1, ?2, ?3) "
    "ON CONFLICT (id) DO UPDATE SET put_at = ?2, memory = ?3"
)
_FORGET: Final = "DELETE FROM sessions WHERE id = ?"
_LISTED: Final = "SELECT id, put_at FROM sessions WHERE put_at >= ? ORDER BY put_at DESC"
_EXPIRE: Final = "DELETE FROM sessions WHERE put_at < ?"
#: The caller with the most sessions, named before the first slash of an id; its sessions, all sessions
#: and all callers.
_LARGEST: Final = (
    "SELECT substr(id, 1, instr(id, '/')) AS owner, count(*), sum(count(*)) OVER (), count(*) OVER () "
    "FROM sessions GROUP BY owner ORDER BY 2 DESC LIMIT 1"
)
_EVICT_OF: Final = (
    "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE substr(id, 1, instr(id, '/')) = ? "
    "ORDER BY put_at LIMIT ?)"
)
_EVICT: Final = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions ORDER BY put_at LIMIT ?)"


class SharedSessions:
    """A put of one worker is seen by every other at once. Reading and writing take tens of microseconds.

    Bounds are applied after every thousand puts of a worker: the caller with the most sessions loses those
    it has left unused longest. Texts that a memory quotes stay in the process: the file has digests in their
    place.

    Args:
        path: The file.
        size: Most sessions in the file.
        ttl: Seconds for which they are stored after they were last put.
        lasting: Whether the file must be whole after a power failure; False for one that ends with the run.
        clock: Seconds since the epoch.
    """

    waits: Final = False
    fault: Final = ""  # a failed write raises
    lost: Final = 0

    def __init__(
        self,
        path: Path,
        *,
        size: int = 6_000,
        ttl: float = DAY,
        lasting: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file: Final = session_file(path)
        self._size: Final = size
        self._ttl: Final = ttl
        self._lasting: Final = lasting
        self._clock: Final = clock
        self._lock: Final = threading.Lock()  # large requests come in threads
        self._whole: Final = WholeMemories()
        self._prepared: sqlite3.Connection | None = None
        self._puts = 0
        self._tidier: Final = BatchWriter[None](self._tidy, size=1, name="sessions", linger=0.0)

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory by any worker, or None when unknown, expired or evicted.

        Raises:
            StoreUnavailable: the file cannot be read.
        """
        for put_at, memory in self._execute(_GET, session)[0] if is_text(session) else ():
            if self._clock() - put_at <= self._ttl:
                return self._whole.whole(session, memory)
        return None

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; nothing is stored under a name that is no text.

        Raises:
            StoreUnavailable: the file cannot be written.
        """
        if not is_text(session):
            return
        self._execute(_PUT, session, self._clock(), self._whole.store(session, memory))
        self._puts += 1
        if self._puts % TIDY == 0:
            self._tidier.put(None)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        return is_text(session) and self._execute(_FORGET, session)[1] > 0

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions, the one put last first."""
        yield from self._execute(_LISTED, self._clock() - self._ttl)[0]

    def flush(self) -> None:
        """Apply the bounds now."""
        self._tidier.put(None)
        self._tidier.flush()

    def close(self) -> None:
        """Release the file."""
        self._tidier.close()
        with self._lock:
            self._prepared = None
            self._file.close()

    def _execute(self, statement: str, *values: object) -> tuple[list[Any], int]:
        """Execute one statement, a separate transaction; return its rows, and how many it changed."""
        try:
            with self._lock:
                for wait in _WAITS:
                    try:
                        return self._at_once(statement, values)
                    except sqlite3.OperationalError as error:
                        if error.sqlite_errorcode & _CLASS != sqlite3.SQLITE_BUSY:
                            raise
                    time.sleep(wait)
                return self._at_once(statement, values)
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"cannot use the session store {self._file.path}: {error}") from error

    def _at_once(self, statement: str, values: tuple[object, ...]) -> tuple[list[Any], int]:
        cursor = self._connection().execute(statement, values)
        return cursor.fetchall(), cursor.rowcount

    def _connection(self) -> sqlite3.Connection:
        connection = self._file.writer()
        if connection is not self._prepared:
            connection.execute("PRAGMA busy_timeout = 0")  # SQLite waits for a millisecond at least
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            if not self._lasting:
                connection.execute("PRAGMA synchronous = OFF")
                # It serves the start of a later process, which there is not, and costs a put a third.
                connection.execute("DROP INDEX IF EXISTS sessions_by_time")
            self._prepared = connection
        return connection

    def _tidy(self, _: Sequence[None]) -> int:
        """Remove the sessions over the bounds, and copy the log into the file; in a thread."""
        beside = session_file(self._file.path)
        try:
            self._remove(beside)
            beside.writer().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot write the session store {self._file.path}: {error}") from error
        finally:
            beside.close()
        return 0

    def _remove(self, file: SqliteFile) -> None:
        connection = file.writer()
        connection.execute(_EXPIRE, (self._clock() - self._ttl,))
        while found := connection.execute(_LARGEST).fetchone():
            owner, held, total, owners = found
            over = total - self._size
            if over <= 0:
                return
            if owners > MOST_OWNERS:
                connection.execute(_EVICT, (over,))
            else:  # by halves, so that the next largest has its turn
                connection.execute(_EVICT_OF, (owner, min(max(held // 2, 1), over)))
