"""Budgets in one SQLite file: they outlive the process, and several processes of a machine share them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pointsman.errors import StoreUnavailable
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.budgets.port import LEASE, Claim, Reserved, Settlement

__all__ = ["SqliteBudgets"]

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
)
#: Times its own time for which a counter is kept: a clock that is set ahead and back finds it.
_KEPT: Final = 10
#: Seconds between two removals of what has ended.
_SWEEP: Final = 60.0

_TOTAL: Final = "SELECT total FROM counters WHERE name = ?"
_ADD: Final = (
    "INSERT INTO counters (name, total, ends) VALUES (?, ?, ?) "
    "ON CONFLICT (name) DO UPDATE SET total = total + excluded.total"
)
_CHANGE: Final = "UPDATE counters SET total = max(total + ?, 0) WHERE name = ?"


class SqliteBudgets:
    """Each call is one transaction, which waits for other processes: call it beside an event loop."""

    waits: Final = True

    def __init__(self, path: Path, *, lease: float = LEASE, clock: Callable[[], float] = time.time) -> None:
        """Count in a file, which is made with the first use. ``lease``: seconds."""
        self._file: Final = SqliteFile(
            path, kind="budget store", application=APPLICATION, migrations=MIGRATIONS
        )
        self._lease: Final = lease
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._swept_at = float("-inf")

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        now = self._clock()
        with self._transaction() as connection:
            self._sweep(connection, now)
            totals = [_total(connection, claim.counter) for claim in claims]
            for place, (claim, total) in enumerate(zip(claims, totals, strict=True)):
                if total + claim.amount > claim.limit:
                    return Reserved(tuple(totals), place)
            for claim in claims:
                ends = now + _KEPT * claim.seconds
                connection.execute(_ADD, (claim.counter, claim.amount, ends))
                connection.execute(
                    "INSERT INTO held VALUES (?, ?, ?, ?)",
                    (reservation, claim.counter, claim.amount, now + self._lease),
                )
        return Reserved(tuple(total + claim.amount for claim, total in zip(claims, totals, strict=True)))

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations: what was used takes the place of what was reserved."""
        with self._transaction() as connection:
            for reservation, used in settlements:
                found = connection.execute(
                    "SELECT counter, amount FROM held WHERE reservation = ?", (reservation,)
                )
                held: dict[str, int] = dict(found.fetchall())
                connection.execute("DELETE FROM held WHERE reservation = ?", (reservation,))
                for counter, amount in used.items():
                    connection.execute(_CHANGE, (amount - held.get(counter, 0), counter))

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return what is used and reserved of each counter."""
        if not counters:
            return ()
        with self._transaction() as connection:
            return tuple(_total(connection, counter) for counter in counters)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._file.close()

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Free what a process that was killed had reserved, and forget counters of long ago."""
        if 0 <= now - self._swept_at < _SWEEP:
            return
        self._swept_at = now
        gone = connection.execute("SELECT counter, amount FROM held WHERE until <= ?", (now,))
        for counter, amount in gone.fetchall():
            connection.execute(_CHANGE, (-amount, counter))
        connection.execute("DELETE FROM held WHERE until <= ?", (now,))
        connection.execute("DELETE FROM counters WHERE ends <= ?", (now,))

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


def _total(connection: sqlite3.Connection, counter: str) -> int:
    found = connection.execute(_TOTAL, (counter,)).fetchone()
    return int(found[0]) if found else 0
