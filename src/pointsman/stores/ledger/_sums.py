"""Sums of a SQLite ledger by hour and by day, added up from its rows once an hour is over.

``sums`` has a row for each hour, and for each day of UTC, of turns that have a ``groups`` row in common. An
hour in ``dirty`` has rows that were written or left since: it is added up when it is read, and for good in a
pause of writing once it is over (docs/notebook/0173). If retention has removed rows, their sums stay:
``rows_after`` in ``meta`` is the end of their time, in seconds since the epoch. Rows of earlier hours change
no sum; those of the same hour are added to the sums of its removed rows, which are in ``sums`` as 0 hours.
"""

from __future__ import annotations

import math
import operator
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._summaries import (
    ADDED,
    AT,
    DOMAIN,
    HOUR_OF,
    KEYS,
    KINDS,
    MOST_OF_MODEL,
    MOST_TOKENS,
    SEARCH,
    SIGNAL,
    SUMS,
    hour_of,
)
from pointsman.stores.ledger.reading import HOUR, RESULTS, WRITTEN

_DAY: Final = 24  # hours

#: The sums that the table was made with.
_FIRST: Final = tuple(name for name in SUMS if name not in WRITTEN)
MIGRATION: Final = (
    f"""CREATE TABLE groups (id INTEGER PRIMARY KEY, tier TEXT NOT NULL, model TEXT NOT NULL,
        result INTEGER NOT NULL, own TEXT NOT NULL, gap INTEGER NOT NULL, asked INTEGER NOT NULL,
        beside TEXT NOT NULL, kind TEXT NOT NULL, part_model TEXT NOT NULL, UNIQUE ({KEYS}))""",
    f"""CREATE TABLE sums (hours INTEGER NOT NULL, since INTEGER NOT NULL, grp INTEGER NOT NULL,
        {", ".join(f"{name} {'REAL' if name == 'judging' else 'INTEGER'} NOT NULL" for name in _FIRST)},
        PRIMARY KEY (hours, since, grp)) WITHOUT ROWID""",
    # What there is, is added up in pauses of writing.
    "INSERT OR IGNORE INTO dirty SELECT DISTINCT hour FROM hours",
    "DROP TABLE hours",
    "DROP TABLE hour_parts",
    """CREATE TABLE hour_values (kind INTEGER NOT NULL, value TEXT NOT NULL, hour INTEGER NOT NULL,
        PRIMARY KEY (kind, value, hour)) WITHOUT ROWID""",
    "CREATE INDEX hour_values_by_hour ON hour_values (hour)",
)

_NAMES: Final = ", ".join(SUMS)
_ONE_HOUR: Final = SEARCH.rollup(
    "(SELECT * FROM summaries WHERE at >= :hour * 3600.0 AND at < (:hour + 1) * 3600.0 AND at > :gone) "
    "AS summaries"
)
#: Rows of one hour that are to be removed.
_GOING: Final = SEARCH.rollup(
    "(SELECT * FROM summaries WHERE at >= :hour * 3600.0 AND at > :gone AND at <= :until) AS summaries"
)
_PLACES: Final = ", ".join("?" * (KEYS.count(",") + 1))
_NEW_GROUP: Final = f"INSERT OR IGNORE INTO groups ({KEYS}) VALUES {{rows}}"  # noqa: S608 - as above
_ADD: Final = (
    f"INSERT INTO sums (hours, since, grp, {_NAMES}) VALUES "  # noqa: S608 - as above
    f"(?, ?, (SELECT id FROM groups WHERE ({KEYS}) = ({_PLACES})), {', '.join('?' * len(SUMS))}) "
    f"ON CONFLICT (hours, since, grp) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
)
#: Begin an hour anew, with the sums of its removed rows.
_BEGIN_HOUR: Final = (
    "DELETE FROM sums WHERE hours = 1 AND since = :hour",
    f"""INSERT INTO sums (hours, since, grp, {_NAMES})
        SELECT 1, since, grp, {_NAMES} FROM sums WHERE hours = 0 AND since = :hour""",  # noqa: S608 - as above
)
#: Add a day up from its hours, where none of them is left to be added up.
_SEAL_DAY: Final = (
    f"DELETE FROM sums WHERE hours = {_DAY} AND since = :day",  # noqa: S608 - as above
    f"""INSERT INTO sums (hours, since, grp, {_NAMES}) SELECT {_DAY}, :day, grp, {ADDED} FROM sums
        WHERE hours = 1 AND since >= :day AND since < :day + {_DAY} GROUP BY grp""",  # noqa: S608 - as above
)
_LEFT: Final = "SELECT 1 FROM dirty WHERE hour >= :day AND hour < :day + 24"
hour_in: Final = operator.itemgetter(HOUR_OF)
_MARK: Final = "INSERT OR IGNORE INTO dirty (hour) VALUES {rows}"
_DUE: Final = "SELECT hour FROM dirty WHERE hour < ? ORDER BY hour LIMIT ?"
#: Most hours that are added up in one transaction, and rows after which no other hour is begun: some 50 ms,
#: and as many decisions as the writer takes from a full queue before it adds up again.
_HOURS: Final = 100
_ROWS: Final = 5_000
#: Rows of an hour that are held at once: 100,000 take 69 MB.
_READ: Final = 1_000

#: Until when rows were removed; their sums stay.
GONE: Final = "SELECT value FROM meta WHERE name = 'rows_after'"
_OF_REMOVED: Final = "SELECT 1 FROM sums WHERE hours = 0 AND since = ? LIMIT 1"
_TAKE_OVER: Final = f"""INSERT INTO sums (hours, since, grp, {_NAMES})
    SELECT 0, since, grp, {_NAMES} FROM sums WHERE hours = 1 AND since = ?"""  # noqa: S608 - as above
_SET_GONE: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('rows_after', ?)"


def gone_in(found: Sequence[Sequence[object]]) -> float:
    """Until when, in seconds since the epoch, retention has removed rows, by the rows of ``GONE``."""
    return float(str(found[0][0])) if found else -math.inf


def _gone_until(connection: sqlite3.Connection) -> float:
    return gone_in(connection.execute(GONE).fetchall())


def take_over(connection: sqlite3.Connection) -> None:
    """Store the sums of the last hour from which an earlier version removed rows, with all its rows."""
    gone = _gone_until(connection)
    hour = hour_of(gone)
    if gone > -math.inf and connection.execute(_OF_REMOVED, (hour,)).fetchone() is None:
        connection.execute(_TAKE_OVER, (hour,))
        connection.execute(_SET_GONE, (repr(max(gone, (hour + 1) * HOUR - 0.001)),))


def mark(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> set[int]:
    """Mark and return the hours of rows written now.

    Rows of before the removed ones change no sum; searches find them by values stored at once.
    """
    gone = _gone_until(connection)
    for hour in {hour_in(row) for row in rows if row[AT] <= gone}:
        _store_values(connection, hour)
    hours = {hour_in(row) for row in rows if row[AT] > gone}
    insert(connection, _MARK, list(zip(hours)))
    return hours


def seal_some(connection: sqlite3.Connection, end: int) -> bool:
    """Add up some hours before ``end`` that have changed; whether there were any."""
    found = connection.execute(_DUE, (end, _HOURS)).fetchall()
    if found:
        rows = 0
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for [hour] in found:
                rows += _seal(connection, hour)
                if rows >= _ROWS:
                    break
    return bool(found)


@contextmanager
def keeping(connection: sqlite3.Connection, until: float) -> Iterator[None]:
    """Preserve the sums of decisions that arrived until then while retention removes these.

    Args:
        connection: In a transaction.
        until: Seconds since the epoch.
    """
    take_over(connection)
    last, gone = hour_of(until), _gone_until(connection)
    for [hour] in connection.execute(_DUE, (last, -1)).fetchall():
        _seal(connection, hour)
    is_marked = connection.execute("SELECT 1 FROM dirty WHERE hour = ?", (last,)).fetchone()
    _add(connection, 0, last, _GOING, gone=gone, until=until)
    yield
    connection.execute("DELETE FROM dirty WHERE hour < ?", (last + (is_marked is None),))
    connection.execute("DELETE FROM sums WHERE hours = 0 AND since < ?", (last,))
    connection.execute(_SET_GONE, (repr(max(until, gone)),))
    connection.execute("DELETE FROM hour_values WHERE hour < ?", (last,))


def _seal(connection: sqlite3.Connection, hour: int) -> int:
    """Add an hour up; return how many rows it has."""
    gone, one, rows = _gone_until(connection), {"hour": hour}, 0
    if hour >= hour_of(gone):  # else what is there came late
        for statement in _BEGIN_HOUR:
            connection.execute(statement, one)
        _add(connection, 1, hour, _ONE_HOUR, gone=gone)
        rows = _store_values(connection, hour)
    connection.execute("DELETE FROM dirty WHERE hour = :hour", one)
    day = {"day": hour // _DAY * _DAY}
    if connection.execute(_LEFT, day).fetchone() is None:
        for statement in _SEAL_DAY:
            connection.execute(statement, day)
    return rows


def _add(connection: sqlite3.Connection, hours: int, hour: int, rollup: str, **bounds: float) -> None:
    """Add the sums of rows of an hour to those that there are."""
    found = connection.execute(rollup, {"hour": hour, **bounds}).fetchall()
    insert(connection, _NEW_GROUP, [row[1 : -len(SUMS)] for row in found])
    connection.executemany(_ADD, [(hours, hour, *row[1:]) for row in found])


#: Of each model, as JSON, the most tokens of each kind in an answer.
_MOST_OF_ROWS: Final = f"""SELECT {MOST_OF_MODEL}, json_array(model, {MOST_TOKENS}), ?1
    FROM summaries WHERE at >= ?1 * 3600.0 AND at < (?1 + 1) * 3600.0
    AND result = {RESULTS.index("counted")} GROUP BY model"""  # noqa: S608 - as above
_NEW: Final = "INSERT OR IGNORE INTO hour_values (kind, value, hour) VALUES {rows}"
_FORGET: Final = "DELETE FROM hour_values WHERE hour = ?"
_OF_ROWS: Final = f"SELECT {', '.join(KINDS)} FROM summaries WHERE at >= ? * 3600.0 AND at < (? + 1) * 3600.0"  # noqa: S608 - as above


def _store_values(connection: sqlite3.Connection, hour: int) -> int:
    """Store the values that occur in the rows of an hour; return how many rows it has."""
    connection.execute(_FORGET, (hour,))
    cursor, rows = connection.execute(_OF_ROWS, (hour, hour)), 0
    occurring: list[set[str]] = [set() for _ in KINDS]
    while part := cursor.fetchmany(_READ):
        rows += len(part)
        for seen, column in zip(occurring, zip(*part, strict=True), strict=True):
            seen.update(map(str, column))
    found: list[tuple[int, str, int]] = []
    for kind, seen in enumerate(occurring):
        is_list = kind in (DOMAIN, SIGNAL)
        values = set(chain.from_iterable(each.split("\n") for each in seen)) if is_list else seen
        found += [(kind, value, hour) for value in values if value or kind < DOMAIN]
    most = connection.execute(_MOST_OF_ROWS, (hour,)).fetchall()
    insert(connection, _NEW, found + (most or [(MOST_OF_MODEL, "[]", hour)]))
    return rows
