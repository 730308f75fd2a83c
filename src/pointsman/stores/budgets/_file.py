"""The file of budgets: its tables, and the shares of the processes that use it."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pointsman.errors import StoreUnavailable
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.budgets.port import SHARE_SECONDS

__all__ = ["MILLION", "BudgetFile", "share_of"]

#: SQLite's field for telling whose file this is: "Ptsb".
APPLICATION: Final = 0x50747362
#: Shares are counted in millionths, so that they add up exactly.
MILLION: Final = 1_000_000

MIGRATIONS: Final = (
    (
        """CREATE TABLE counters (name TEXT PRIMARY KEY, total INTEGER NOT NULL, ends REAL NOT NULL)
            WITHOUT ROWID""",
        "CREATE INDEX counters_by_end ON counters (ends)",
        """CREATE TABLE held (
            reservation TEXT NOT NULL,
            counter TEXT NOT NULL,
            amount INTEGER NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (reservation, counter)
        ) WITHOUT ROWID""",
        "CREATE INDEX held_by_time ON held (until)",
    ),
    (
        # Windows are kept by their number, not by a clock, and what a killed process had reserved stays used.
        """CREATE TABLE windows (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            series TEXT NOT NULL,
            total INTEGER NOT NULL
        )""",
        """INSERT INTO windows (name, series, total)
            SELECT name, rtrim(rtrim(name, '0123456789'), '/'), total FROM counters ORDER BY ends""",
        "DROP TABLE counters",
        "ALTER TABLE windows RENAME TO counters",
        "CREATE INDEX counters_by_series ON counters (series, number)",
        """CREATE TABLE reserved (
            reservation TEXT NOT NULL,
            counter TEXT NOT NULL,
            amount INTEGER NOT NULL,
            PRIMARY KEY (reservation, counter)
        ) WITHOUT ROWID""",
        "INSERT INTO reserved SELECT reservation, counter, amount FROM held",
        "DROP TABLE held",
        "ALTER TABLE reserved RENAME TO held",
        "CREATE INDEX held_by_counter ON held (counter)",
        """CREATE TABLE spent (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            counter TEXT NOT NULL,
            series TEXT NOT NULL,
            writer TEXT NOT NULL,
            amount INTEGER NOT NULL,
            UNIQUE (counter, writer)
        )""",
        "CREATE INDEX spent_by_series ON spent (series, counter)",
        """CREATE TABLE processes (name TEXT PRIMARY KEY, share INTEGER NOT NULL, until REAL NOT NULL)
            WITHOUT ROWID""",
    ),
)


def share_of(others: int, taken: int) -> int:
    """Return the share of one more process, in millionths: a fair part, of the free shares.

    Args:
        others: How many other processes there are.
        taken: Millionths that they have.
    """
    return max(min(MILLION // (others + 1), MILLION - taken), 0)


class BudgetFile:
    """Each call is one transaction, which waits for other processes: an event loop calls it in a thread."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Use a file, which is made with the first use. ``clock``: seconds, the same for all processes."""
        self._file: Final = SqliteFile(
            path, kind="budget store", application=APPLICATION, migrations=MIGRATIONS
        )
        self._clock: Final = clock
        self._lock: Final = threading.Lock()

    def join(self, process: str, /) -> float:
        """Return the share of a process in an outage; see ``Book.join``."""
        now = self._clock()
        with self._transaction() as connection:
            # A moment further ahead than any share lasts is of the machine's run before this one.
            gone = (now, now + SHARE_SECONDS)
            connection.execute("DELETE FROM processes WHERE until <= ? OR until > ?", gone)
            query = "SELECT count(*), coalesce(sum(share), 0) FROM processes WHERE name != ?"
            share = share_of(*connection.execute(query, (process,)).fetchone())
            row = (process, share, now + SHARE_SECONDS)
            connection.execute("INSERT OR REPLACE INTO processes VALUES (?, ?, ?)", row)
        return share / MILLION

    def leave(self, process: str, /) -> None:
        """Give the share back."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM processes WHERE name = ?", (process,))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                connection = self._file.writer()
                connection.execute("BEGIN IMMEDIATE")
                with connection:  # commits, or rolls back
                    yield connection
            except (sqlite3.Error, OSError) as error:
                self._file.close_writer()
                raise StoreUnavailable(f"cannot use the budget store {self._file.path}: {error}") from error
