"""Retention of a ledger: limits on age and size, and their enforcement in a SQLite file."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pointsman.stores.ledger._sums import keeping
from pointsman.stores.ledger.reading import Reason
from pointsman.vocabulary import DAY

if TYPE_CHECKING:
    from pointsman.stores.ledger._summarizer import Summarizer

log = logging.getLogger(__name__)

#: How many decisions, and other entries that belong to none, were removed.
Removed: TypeAlias = dict[Reason, int]
NONE_REMOVED: Final[Mapping[Reason, int]] = {"age": 0, "size": 0}

#: Seconds between two looks at the bound of age.
SWEEP: Final = 600.0

#: A file over its bound is brought down to this share of it, so that not every sweep has to delete.
ROOM: Final = 0.9

#: Sums are counted, which reads all of them, in a file that fills more than this share of its bound.
NEAR: Final = 0.8

#: Share of the bound that outcomes may fill. Callers make them: beyond it the oldest of them go, no decision.
#: An outcome with a score and a label is a twentieth of a decision with its attempt.
OUTCOMES: Final = 0.2

#: Owners of objects that upstreams store: the share of the bound that they may fill, the bytes of one with
#: its index, and how many there are at most.
OWNERS: Final = 0.05
OWNER_BYTES: Final = 150
MOST_OWNERS: Final = 500_000

#: Share of the bound that sums may fill, and the bytes of one row of them. Beyond it the oldest sums without
#: entries are removed.
SUMS: Final = 0.2
SUM_BYTES: Final = 50

#: Policies with a stored text, and those of them that are stored however long ago they decided.
MOST_POLICIES: Final = 200
LEAST_POLICIES: Final = 10

#: Decisions removed in one transaction: some ten milliseconds during which nothing can be written.
STEP: Final = 1_000

#: Rows looked at in one transaction for whether they belong to a decision.
WINDOW: Final = 10_000

#: Pages given back in one transaction: about what so many decisions filled.
PAGES: Final = 1_000

_FIRST: Final = "FROM decisions WHERE arrived_at <= ? ORDER BY arrived_at, number LIMIT ?"
#: When the last of the decisions arrived that go in one step.
_LAST: Final = f"SELECT max(arrived_at) FROM (SELECT arrived_at {_FIRST})"  # noqa: S608 - words above
_FORGET: Final = f"DELETE FROM decisions WHERE number IN (SELECT number {_FIRST})"  # noqa: S608 - as above
#: The day of UTC with the oldest sums; and removal of the sums of a day and of its hours.
_OLDEST_SUMS: Final = "SELECT min(since) FROM sums WHERE hours = 24"
_FORGET_SUMS: Final = "DELETE FROM sums WHERE hours IN (1, 24) AND since < ?"
_FORGET_OUTCOMES: Final = (
    "DELETE FROM outcomes WHERE rowid IN (SELECT rowid FROM outcomes ORDER BY rowid LIMIT ?)"
)
#: When the oldest entry arrived that is counted, and the newest decision. Each is one look into an index.
_ENDS: Final = """SELECT (SELECT min(at) FROM (SELECT min(arrived_at) AS at FROM decisions
    UNION ALL SELECT * FROM (SELECT at FROM passed ORDER BY rowid LIMIT 1)
    UNION ALL SELECT * FROM (SELECT at FROM runs ORDER BY rowid LIMIT 1))),
    (SELECT max(arrived_at) FROM decisions)"""
#: What belongs to no decision, in order of arrival, so that nothing is scanned.
_FORGET_APART: Final = tuple(
    f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} ORDER BY rowid LIMIT ?) AND at <= ?"  # noqa: S608 - tables named below
    for table in ("passed", "runs")
)
#: Of each table: the end and the rows of the next window, and what removes from it what belongs to a decision
#: that was lost, or never was.
_ORPHANS: Final = tuple(
    (
        f"""SELECT max(rowid), count(*) FROM
            (SELECT rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?)""",  # noqa: S608 - tables named below
        f"""DELETE FROM {table} WHERE rowid > ? AND rowid <= ? AND at <= ?
            AND NOT EXISTS (SELECT 1 FROM decisions WHERE id = {table}.decision)""",  # noqa: S608 - as above
    )
    for table in ("attempts", "outcomes", "texts", "shadows")
)


_LATEST_POLICIES: Final = "(SELECT version FROM policies ORDER BY coalesce(last, 1e300) DESC LIMIT ?)"
FORGET_POLICIES: Final = (
    f"DELETE FROM policies WHERE version NOT IN {_LATEST_POLICIES} "  # noqa: S608 - words above
    f"OR (last <= ? AND version NOT IN {_LATEST_POLICIES})"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds; None is no bound."""

    keep_days: float | None = 30
    max_mb: float | None = 1_024  # MiB of data in all tables, the oldest goes first
    keep_sums_days: float | None = 1_825  # of sums by hour, which outlive entries: five years

    def why(self, reason: Reason) -> str:
        """Return the bound that was exceeded, for the log."""
        if reason == "age":
            return f"older than keep_days = {self.keep_days:g}"
        return f"the ledger was larger than max_mb = {self.max_mb:g}"

    def is_over(self, connection: sqlite3.Connection, *, slack: float = 0.0) -> bool:
        """Whether there is more data than may be, by more than a share ``slack`` of it. Scans nothing."""
        bound = self._bytes * (1 + slack)
        return _used(connection) > bound or _outcome_bytes(connection) > bound * OUTCOMES

    def pieces(
        self,
        connection: sqlite3.Connection,
        now: float,
        removed: Removed,
        where: str,
        summarizer: Summarizer,
    ) -> Iterator[None]:
        """Remove the entries over a bound, with a pause wherever other work may come between.

        By age one sweep removes a day at most, so that a clock that is ahead is noticed. The sums by hour of
        removed entries stay, for ``keep_sums_days`` and within their share of ``max_mb``.

        Args:
            connection: To write with.
            now: Seconds since the epoch.
            removed: Where removed decisions, and entries that belong to none, are counted.
            where: The file, for the log.
            summarizer: Of decisions of an earlier version, before their removal.
        """
        before = dict(removed)
        try:
            while summarizer.summarize_some(connection):
                yield  # decisions of an earlier version go into the sums before they go
            yield from self._pieces(connection, now, removed)
            self._forget_sums(connection, now, where)
        finally:
            for reason, count in removed.items():
                if count > before[reason]:
                    log.warning(
                        "the ledger %s: removed the oldest %d decisions and other entries: %s",
                        *(where, count - before[reason], self.why(reason)),
                    )

    def _forget_sums(self, connection: sqlite3.Connection, now: float, where: str) -> None:
        """Remove a day of sums without entries, if the sums are too old or beyond their share."""
        [oldest] = connection.execute(_OLDEST_SUMS).fetchone()
        first, newest = connection.execute(_ENDS).fetchone()
        until = now if newest is None else min(now, float(newest) + DAY)  # as in ``_old``
        end = math.inf if oldest is None else (oldest // 24 + 1) * DAY
        if end > (until if first is None else min(until, float(first))):
            return
        if self.keep_sums_days is not None and end <= until - self.keep_sums_days * DAY:
            why = f"older than keep_sums_days = {self.keep_sums_days:g}"
        elif _used(connection) > self._bytes * NEAR and _sum_bytes(connection) > self._bytes * SUMS:
            why = f"more than {SUMS:.0%} of max_mb = {self.max_mb:g}"
        else:
            return
        connection.execute(_FORGET_SUMS, (oldest + 24,))
        log.warning("the ledger %s: removed the sums of a day: %s", where, why)

    def _pieces(self, connection: sqlite3.Connection, now: float, removed: Removed) -> Iterator[None]:
        until = -math.inf
        if self.keep_days is not None:
            until = _old(connection, now, self.keep_days * DAY)
            yield from _forget(connection, until, removed, "age")
            yield from _forget_apart(connection, until, removed, "age")
        if _outcome_bytes(connection) > self._bytes * OUTCOMES:
            yield from _forget_outcomes(connection, self._bytes * OUTCOMES * ROOM, removed)
        # Decisions differ in size: the oldest tenth of them may hold less than a tenth of the bytes.
        while (oldest := _oldest(connection, _excess(connection, self._bytes))) is not None:
            until = max(until, oldest)
            yield from _forget(connection, oldest, removed, "size")
            yield from _forget_apart(connection, until, removed, "size")
        while _excess(connection, self._bytes) and _forget_oldest_apart(connection, removed):
            yield  # where no decision is left that could go
        yield from _forget_orphans(connection, until)
        connection.execute(FORGET_POLICIES, (MOST_POLICIES, until, LEAST_POLICIES))
        _forget_owners(connection, self._bytes)
        while _free(connection) > PAGES:
            _give_back(connection)
            yield
        _give_back(connection)

    @property
    def _bytes(self) -> float:
        return math.inf if self.max_mb is None else self.max_mb * 1024 * 1024


def _old(connection: sqlite3.Connection, now: float, kept: float) -> float:
    """Return until when entries are removed in this sweep.

    A clock may be ahead of the newest decision by a day; a time beyond that is not trusted yet.
    """
    oldest, newest = connection.execute(_ENDS).fetchone()
    until = now - kept if newest is None else min(now, float(newest) + DAY) - kept
    return until if oldest is None else min(until, max(float(oldest), 0.0) + DAY)


def _delete(
    connection: sqlite3.Connection,
    statement: str,
    values: tuple[float, ...],
    removed: Removed,
    reason: Reason,
) -> int:
    count = connection.execute(statement, values).rowcount
    removed[reason] += count
    return count


def _forget(connection: sqlite3.Connection, until: float, removed: Removed, reason: Reason) -> Iterator[None]:
    """Remove decisions that arrived until then, the oldest first, and preserve their sums."""
    while (last := connection.execute(_LAST, (until, STEP)).fetchone()[0]) is not None:
        connection.execute("BEGIN IMMEDIATE")
        with connection, keeping(connection, float(last)):
            count = _delete(connection, _FORGET, (last, STEP), removed, reason)
        if count == STEP:
            yield


def _forget_apart(
    connection: sqlite3.Connection, until: float, removed: Removed, reason: Reason
) -> Iterator[None]:
    """Remove requests that were passed on, and steps of runs, as old as that."""
    for statement in _FORGET_APART:
        while _delete(connection, statement, (STEP, until), removed, reason) == STEP:
            yield


def _forget_oldest_apart(connection: sqlite3.Connection, removed: Removed) -> bool:
    """Remove some of the oldest of each; tell whether there were any."""
    return sum(_delete(connection, each, (STEP, math.inf), removed, "size") for each in _FORGET_APART) > 0


def _forget_outcomes(connection: sqlite3.Connection, wanted: float, removed: Removed) -> Iterator[None]:
    """Remove the oldest outcomes until all have ``wanted`` bytes at most."""
    while _outcome_bytes(connection) > wanted:
        if not _delete(connection, _FORGET_OUTCOMES, (STEP,), removed, "size"):
            return
        yield


def _forget_orphans(connection: sqlite3.Connection, until: float) -> Iterator[None]:
    if until == -math.inf:
        return
    for window, remove in _ORPHANS:
        start, looked_at = 0, WINDOW
        while looked_at == WINDOW:
            end, looked_at = connection.execute(window, (start, WINDOW)).fetchone()
            connection.execute(remove, (start, end, until))
            start = end
            if looked_at == WINDOW:
                yield


def _forget_owners(connection: sqlite3.Connection, bound: float) -> None:
    """Remove the oldest owners beyond their number: owned objects live longer than decisions are stored."""
    kept = int(min(MOST_OWNERS, bound * OWNERS / OWNER_BYTES))
    connection.execute("DELETE FROM owners WHERE rowid <= (SELECT max(rowid) FROM owners) - ?", (kept,))


def _free(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _give_back(connection: sqlite3.Connection) -> None:
    # As a script: a single statement without columns is stepped once, and gives back one page.
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES})")


def _used(connection: sqlite3.Connection) -> int:
    """Return the bytes of all tables and indexes."""
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int((pages - _free(connection)) * size)


def _outcome_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT bytes FROM totals WHERE name = 'outcomes'").fetchone()[0])


def _sum_bytes(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sums").fetchone()[0]) * SUM_BYTES


def _excess(connection: sqlite3.Connection, bound: float) -> float:
    """Return the share of the data that has to go."""
    used = _used(connection)
    return 1 - ROOM * bound / used if used > bound else 0.0


def _oldest(connection: sqlite3.Connection, share: float) -> float | None:
    """Return the arrival of the newest decision among the oldest ``share``; None if there is none."""
    if not share:
        return None
    [count] = connection.execute("SELECT count(*) FROM decisions").fetchone()
    row = connection.execute(
        "SELECT arrived_at FROM decisions ORDER BY arrived_at, number LIMIT 1 OFFSET ?", (int(count * share),)
    ).fetchone()
    return float(row[0]) if row else None
