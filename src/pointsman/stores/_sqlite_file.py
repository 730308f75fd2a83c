"""One SQLite file: opened by the thread that writes it, read by any, never mistaken for another program's."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from pointsman.errors import StoreUnavailable
from pointsman.stores.schema_version import Schema, SchemaState, meta_of

__all__ = ["BUSY", "MemoryFile", "SqliteFile", "Values", "insert"]

log = logging.getLogger(__name__)

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
#: The device and the number of a file.
_Identity: TypeAlias = tuple[int, int]

#: Seconds to wait for another process that writes; a store's thread waits, no request does.
BUSY: Final = 5.0

#: Bytes to which the log beside a file is cut once all of it is in the file: four times what SQLite lets it
#: grow to while no reader holds it back.
_LOG: Final = 16 << 20

#: Most rows of one statement, and most values: half of what the oldest SQLite allows, and as many.
_ROWS: Final = 128
_VALUES: Final = 999

#: Steps of SQLite's machine between two looks at the clock, about a tenth of a millisecond.
_STEPS: Final = 20_000


class SqliteFile:
    """A file in write-ahead mode with a versioned schema.

    Args:
        path: the file; its directory and itself are made when it is first written.
        kind: noun for messages: ``ledger``.
        application: SQLite's field that identifies the program of a file.
        migrations: entry *n* turns a file of version n into one of version n + 1. Never change one that
            was released.
        readable_from: schema of the earliest program that may use the file; default: this one's alone.
    """

    def __init__(
        self,
        path: Path,
        *,
        kind: str,
        application: int,
        migrations: Sequence[Sequence[str]],
        readable_from: int | None = None,
    ) -> None:
        self.path: Final = Path(path)  # a text would be found out only when a batch is written
        self._kind: Final = kind
        self._application: Final = application
        self.schema: Final = Schema(migrations, readable_from or len(migrations))
        self._connection: sqlite3.Connection | None = None  # the writing thread's own
        #: What is behind it: the file and its log.
        self._written: tuple[_Identity | None, _Identity | None] | None = None
        self._reader: sqlite3.Connection | None = None  # of whichever thread holds the lock
        self._read: _Identity | None = None  # what is behind it
        self.lock: Final = threading.RLock()  # held while the reader's connection is used

    @property
    def is_made(self) -> bool:
        """Whether there is anything to read."""
        return self.path.exists()

    def writer(self) -> sqlite3.Connection:
        """Return the connection to write with, opened and migrated; transactions are the caller's.

        A file that was moved away or deleted is written no more: its place is taken by a new one.

        Raises:
            StoreUnavailable: the file belongs to another program, or to a newer version of this one.
            sqlite3.Error: it cannot be written, or is no database.
            OSError: it cannot be made.
        """
        if self._connection is not None and self._is_another():
            # A reader that finds the same at this moment would take the new file's log for the old one's.
            with self.lock:
                self._remove_log()
                log.warning("the %s %s was moved or deleted; a new file is created", self._kind, self.path)
                self.close_writer()
                return self._open_writer()
        return self._connection or self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path.touch(mode=0o600)  # it may hold people's words; SQLite's side files take its mode
        connection = _connect(self.path.resolve().as_uri())
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._written = _identity(self.path), _identity(self._beside("-wal"))
        return connection

    def close_writer(self) -> None:
        """Release the connection to write with; the next ``writer`` opens anew."""
        if self._connection is not None:
            with suppress(sqlite3.Error):  # SQLite does so itself, but not for a file that was moved away
                self._connection.execute("PRAGMA wal_checkpoint").fetchall()
            self._connection.close()
            self._connection = self._written = None

    def close(self) -> None:
        """Release the file."""
        self.close_writer()
        with self.lock:
            self._close_reader()

    def __del__(self) -> None:
        """Release the connections of an owner that is gone, such as a ledger that was only read."""
        for connection in (self._reader, self._connection):
            if connection is not None:
                connection.close()

    def read(self, query: str, values: Values = (), *, seconds: float | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, over a connection that cannot write.

        Args:
            query: The statement.
            values: Of its places, or by their names.
            seconds: After which it is ended; None for never.

        Raises:
            StoreUnavailable: there is no file, it cannot be read, is another program's, or it took too long.
        """
        try:
            with self.lock:
                reader = self._current_reader()
                if reader is None:
                    return []
                with _within(reader, seconds):
                    return reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise StoreUnavailable(
                    f"reading the {self._kind} {self.path} took longer than {seconds:g} s",
                    hint="search a shorter time, or by less",
                ) from error
            with self.lock:
                self._close_reader()
            raise StoreUnavailable(f"cannot read the {self._kind} {self.path}: {error}") from error

    def _current_reader(self) -> sqlite3.Connection | None:
        """Return the connection to read with; None if the file has no tables yet."""
        found = _identity(self.path)
        if found != self._read:
            if self._is_another():
                self._remove_log()
            self._close_reader()
        if self._reader is None:
            self._reader, self._read = self._open_reader(), found
        return self._reader

    def _beside(self, ending: str) -> Path:
        """Return the path of a side file of SQLite: with ``-wal`` the log, with ``-shm`` its index."""
        path = self.path.resolve()
        return path.with_name(path.name + ending)

    def _is_another(self) -> bool:
        """Tell whether the file is another than the one that was written."""
        return self._written is not None and self._written[0] != _identity(self.path)

    def _remove_log(self) -> None:
        """Remove the log of the file that was written: SQLite would take it for the log of the present file.

        Hold ``lock``.
        """
        written_log = self._written[1] if self._written else None
        if written_log is not None and written_log == _identity(self._beside("-wal")):
            for ending in ("-wal", "-shm"):
                self._beside(ending).unlink(missing_ok=True)

    def _open_reader(self) -> sqlite3.Connection | None:
        """Open the file to read, brought up to date before when an older version of this program made it.

        None if it has no tables yet: another process makes them.
        """
        uri = self.path.resolve().as_uri()
        reader = _connect(f"{uri}?mode=ro")
        try:
            number = self._state(reader).number
            if not number:
                reader.close()
                return None
            if number < self.schema.number:
                with closing(_connect(uri)) as writer:
                    self._prepare(writer)
        except BaseException:
            reader.close()
            raise
        return reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # Must stand before the first table; lets removed rows give their space back.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # with WAL safe against a crash of this process
        connection.execute(f"PRAGMA journal_size_limit = {_LOG}")
        connection.execute("BEGIN IMMEDIATE")  # two processes may start at the same moment
        with connection:
            found = self._state(connection)
            if found.number > self.schema.number:
                log.warning(
                    "the %s %s has schema %d%s; this program continues with schema %d",
                    *(self._kind, self.path, found.number, found.owner, self.schema.number),
                )
                return
            pending = self.schema.pending(found)
            for statement in (step for migration in pending for step in migration):
                connection.execute(statement)
            if pending and _has_meta(connection):
                connection.executemany(
                    "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", meta_of(self.schema)
                )
            connection.execute(f"PRAGMA application_id = {self._application}")
            connection.execute(f"PRAGMA user_version = {self.schema.number}")

    def state(self) -> SchemaState:
        """Return the schema of the file; number 0 if it has none. Nothing is changed.

        Raises:
            StoreUnavailable: it cannot be read, is another program's, or a later program changed it.
        """
        if not self.path.exists():
            return SchemaState(0, 0)
        try:
            with closing(_connect(f"{self.path.resolve().as_uri()}?mode=ro")) as connection:
                return self._state(connection)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot read the {self._kind} {self.path}: {error}") from error

    def _state(self, connection: sqlite3.Connection) -> SchemaState:
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != self._application:
            raise StoreUnavailable(
                f"{self.path} is not a {self._kind} but a database of another program",
                hint="name another path in the configuration",
            )
        meta = dict(connection.execute("SELECT name, value FROM meta")) if _has_meta(connection) else {}
        found = SchemaState.found(int(version), meta)
        self.schema.check(found, f"the {self._kind} {self.path}")
        return found


class MemoryFile(SqliteFile):
    """A database in memory with the schema of a file. Hold ``lock`` while writing: there is one connection.

    The database lives as long as this object: closing it releases nothing.
    """

    def __init__(self, *, kind: str, application: int, migrations: Sequence[Sequence[str]]) -> None:
        super().__init__(Path(":memory:"), kind=kind, application=application, migrations=migrations)

    @property
    def is_made(self) -> bool:
        """Whether anything was written."""
        return self._connection is not None

    def writer(self) -> sqlite3.Connection:
        """Return the one connection, with its tables made."""
        if self._connection is None:
            connection = _connect(":memory:")
            # In a cycle ``__del__`` may come after the finalizer of the connection, which then warns.
            weakref.finalize(self, connection.close).atexit = False
            self._prepare(connection)
            self._connection = connection
        return self._connection

    def close_writer(self) -> None:
        """Leave the connection open: the database would be lost with it."""

    def _current_reader(self) -> sqlite3.Connection | None:
        return self._connection


def _has_meta(connection: sqlite3.Connection) -> bool:
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"
    ).fetchone()
    return found is not None


def _identity(path: Path) -> _Identity | None:
    """Tell which file is at a path; None when there is none that can be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def insert(connection: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows, many with each statement; their values replace ``{rows}`` in it.

    ``executemany`` gives the interpreter lock away and waits for it again with every row, each time against
    an event loop: that costs a request 30 µs. The numbers of rows are powers of two, so that eight prepared
    statements serve all.
    """
    if not rows:
        return
    width, done, left = len(rows[0]), 0, len(rows)
    most = 1 << ((_VALUES // width).bit_length() - 1)
    while left:
        count = min(_ROWS, most, 1 << (left.bit_length() - 1))
        values = list(chain.from_iterable(rows[done : done + count]))
        connection.execute(_with_places(statement, width, count), values)
        done += count
        left -= count


@cache
def _with_places(statement: str, width: int, count: int) -> str:
    places = f"({', '.join('?' * width)})"
    return statement.replace("{rows}", ", ".join([places] * count))


@contextmanager
def _within(connection: sqlite3.Connection, seconds: float | None) -> Iterator[None]:
    """End a statement that runs for too long."""
    if seconds is None:
        yield
        return
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _connect(uri: str) -> sqlite3.Connection:
    # One thread writes, another closes; transactions begin where the code says so.
    return sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False)


def _use_log(connection: sqlite3.Connection) -> None:
    """Write ahead to a log. While another process writes a new file that has none, SQLite refuses at once."""
    ends = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > ends:
                raise
            time.sleep(0.01)
        else:
            return
