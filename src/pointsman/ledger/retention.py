"""How much a SQLite ledger keeps, and for how long."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Retention"]

DAY: Final = 86_400.0

#: A file over its bound is brought down to this share of it, so that not every sweep has to delete.
ROOM: Final = 0.9

#: Decisions removed in one transaction: some ten milliseconds during which nothing can be written.
STEP: Final = 1_000

#: Pages given back in one transaction: about what so many decisions filled.
PAGES: Final = 1_000

_FORGET: Final = (
    "DELETE FROM decisions WHERE number IN "
    "(SELECT number FROM decisions WHERE arrived_at <= ? ORDER BY arrived_at, number LIMIT ?)"
)
#: What belongs to a decision that was lost, or never was.
_FORGET_ORPHANS: Final = tuple(
    f"DELETE FROM {table} WHERE at <= ? AND NOT EXISTS (SELECT 1 FROM decisions WHERE id = {table}.decision)"  # noqa: S608 - table names are the ones below
    for table in ("attempts", "outcomes", "texts", "shadows")
)


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds; None is no bound."""

    keep_days: float | None = 30
    max_mb: float | None = 1_024  # MiB of data, the oldest goes first

    def pieces(self, connection: sqlite3.Connection, now: float) -> Iterator[None]:
        """Remove what is over a bound, stopping where other work may come between.

        ``now`` is in seconds since the epoch.
        """
        if self.keep_days is not None:
            yield from _forget(connection, now - self.keep_days * DAY)
        if self.max_mb is not None and (excess := _excess(connection, self.max_mb * 1024 * 1024)):
            yield from _forget(connection, _oldest(connection, excess))
        while _free(connection) > PAGES:
            _give_back(connection)
            yield
        _give_back(connection)


def _forget(connection: sqlite3.Connection, until: float) -> Iterator[None]:
    while connection.execute(_FORGET, (until, STEP)).rowcount == STEP:
        yield
    for statement in _FORGET_ORPHANS:
        connection.execute(statement, (until,))


def _free(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _give_back(connection: sqlite3.Connection) -> None:
    # As a script: a single statement without columns is stepped once, and gives back one page.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES})")


def _excess(connection: sqlite3.Connection, bound: float) -> float:
    """Return the share of the data that has to go."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    used = (pages - free) * size
    return 1 - ROOM * bound / used if used > bound else 0.0


def _oldest(connection: sqlite3.Connection, share: float) -> float:
    """Return the arrival of the newest decision among the oldest ``share``."""
    [count] = connection.execute("SELECT count(*) FROM decisions").fetchone()
    row = connection.execute(
        "SELECT arrived_at FROM decisions ORDER BY arrived_at, number LIMIT 1 OFFSET ?", (int(count * share),)
    ).fetchone()
    return float(row[0]) if row else 0.0
