"""Budgets in one SQLite file: they outlive the process, and several processes of a machine share them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pointsman.errors import StoreUnavailable
from pointsman.remembering import Bounded
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.budgets.port import (
    KEPT_WINDOWS,
    MILLION,
    SHARE_SECONDS,
    Claim,
    Reserved,
    Settlement,
    Spent,
    kept_windows,
    reserved,
    series,
    share_of,
)

#: SQLite's field for telling whose file this is: "Ptsb".
APPLICATION: Final = 0x50747362

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


_TOTAL: Final = "SELECT total FROM counters WHERE name = ?"
#: What a killed process had reserved stays used: only its share, which ends within the hour, tells it apart.
_HELD: Final = """SELECT coalesce(sum(amount), 0) FROM held WHERE counter = ? AND EXISTS
    (SELECT 1 FROM processes WHERE until > ? AND reservation LIKE name || '-%')"""
_CHANGE: Final = "UPDATE counters SET total = max(total + ?, 0) WHERE name = ?"
_OLD: Final = "SELECT name FROM counters WHERE series = ? ORDER BY number DESC LIMIT -1 OFFSET ?"
#: Totals of budgets that are remembered, to make them again in a file that was emptied.
_REMEMBERED: Final = 100_000


class SqliteBudgets(BudgetFile):
    """Counts in a file, which is also the durable record.

    Amounts reserved by a killed process stay used: its upstream has been asked. If the file is emptied, a
    process begins with the totals that it knows.
    """

    waits: Final = True

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Count in a file, which is made with the first use."""
        super().__init__(path, clock=clock)
        self._known: Final = Bounded[str, int](_REMEMBERED)  # totals of budgets, as they were last

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        with self._transaction() as connection:
            found = reserved(claims, [self._total(connection, claim) for claim in claims])
            if not found.ok:
                of = (claims[found.refused].counter, self._clock())
                held = connection.execute(_HELD, of).fetchone()
                return found._replace(held=int(held[0]))
            for claim in claims:
                connection.execute(_CHANGE, (claim.amount, claim.counter))
                row = (reservation, claim.counter, claim.amount)
                connection.execute("INSERT INTO held VALUES (?, ?, ?)", row)
        for claim, total in zip(claims, found.totals, strict=True):
            if claim.lasting:
                self._known.keep(claim.counter, total)
        return found

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations: the used amount replaces the reserved one."""
        with self._transaction() as connection:
            for reservation, used, claims in settlements:
                for claim in claims:
                    self._total(connection, claim)
                query = "SELECT counter, amount FROM held WHERE reservation = ?"
                held: dict[str, int] = dict(connection.execute(query, (reservation,)).fetchall())
                connection.execute("DELETE FROM held WHERE reservation = ?", (reservation,))
                for counter, amount in used.items():
                    connection.execute(_CHANGE, (amount - held.get(counter, 0), counter))

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return the used and reserved amount of each counter."""
        if not counters:
            return ()
        with self._transaction() as connection:
            found = [connection.execute(_TOTAL, (counter,)).fetchone() for counter in counters]
        return tuple(
            int(row[0]) if row else self._known.get(counter, 0)
            for counter, row in zip(counters, found, strict=True)
        )

    def _total(self, connection: sqlite3.Connection, claim: Claim) -> int:
        """Return the total of a counter, which is made if it is missing."""
        row = connection.execute(_TOTAL, (claim.counter,)).fetchone()
        if row is not None:
            return int(row[0])
        total, limit = self._known.get(claim.counter, 0), series(claim.counter)
        connection.execute(
            "INSERT INTO counters (name, series, total) VALUES (?, ?, ?)", (claim.counter, limit, total)
        )
        old = connection.execute(_OLD, (limit, kept_windows(claim.counter))).fetchall()
        connection.executemany("DELETE FROM held WHERE counter = ?", old)
        connection.executemany("DELETE FROM counters WHERE name = ?", old)
        return total


class SqliteBook(BudgetFile):
    """The durable record of spent money in a file of this machine."""

    def record(self, spent: Sequence[Spent], /) -> None:
        """Record totals; a lower one than is recorded changes nothing."""
        with self._transaction() as connection:
            for counter, writer, amount in spent:
                limit = series(counter)
                known = connection.execute("SELECT 1 FROM spent WHERE counter = ? LIMIT 1", (counter,))
                is_new = known.fetchone() is None
                connection.execute(
                    "INSERT INTO spent (counter, series, writer, amount) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (counter, writer) DO UPDATE SET amount = max(amount, excluded.amount)",
                    (counter, limit, writer, amount),
                )
                if is_new:
                    connection.execute(
                        "DELETE FROM spent WHERE series = ? AND counter NOT IN (SELECT counter FROM spent "
                        "WHERE series = ? GROUP BY counter ORDER BY min(number) DESC LIMIT ?)",
                        (limit, limit, KEPT_WINDOWS),
                    )

    def spent(self, counters: Sequence[str], /) -> Mapping[str, Mapping[str, int]]:
        """Return the recorded amount of each counter, by process."""
        with self._transaction() as connection:
            query = "SELECT writer, amount FROM spent WHERE counter = ?"
            return {counter: dict(connection.execute(query, (counter,)).fetchall()) for counter in counters}
