"""Budgets in one SQLite file: they outlive the process, and several processes of a machine share them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pointsman.stores.budgets._file import BudgetFile
from pointsman.stores.budgets.port import (
    KEPT_WINDOWS,
    Claim,
    Reserved,
    Settlement,
    Spent,
    kept_windows,
    series,
)

__all__ = ["SqliteBook", "SqliteBudgets"]

_TOTAL: Final = "SELECT total FROM counters WHERE name = ?"
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
        self._known: Final[dict[str, int]] = {}  # totals of budgets, as they were last

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        with self._transaction() as connection:
            totals = [self._total(connection, claim) for claim in claims]
            for place, (claim, total) in enumerate(zip(claims, totals, strict=True)):
                if total + claim.amount > claim.limit:
                    return Reserved(tuple(totals), place)
            for claim in claims:
                connection.execute(_CHANGE, (claim.amount, claim.counter))
                row = (reservation, claim.counter, claim.amount)
                connection.execute("INSERT INTO held VALUES (?, ?, ?)", row)
        after = tuple(total + claim.amount for claim, total in zip(claims, totals, strict=True))
        for claim, total in zip(claims, after, strict=True):
            self._remember(claim, total)
        return Reserved(after)

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

    def _remember(self, claim: Claim, total: int) -> None:
        if not claim.lasting:
            return
        self._known.pop(claim.counter, None)
        self._known[claim.counter] = total
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


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
