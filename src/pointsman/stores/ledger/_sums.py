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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._summaries import AT, HOUR_OF, KEYS, SEARCH, SUMS
from pointsman.stores.ledger.reading import HOUR, DecisionFilter

_DAY: Final = 24  # hours

MIGRATION: Final = (
    f"""CREATE TABLE groups (id INTEGER PRIMARY KEY, tier TEXT NOT NULL, model TEXT NOT NULL,
        result INTEGER NOT NULL, own TEXT NOT NULL, gap INTEGER NOT NULL, asked INTEGER NOT NULL,
        beside TEXT NOT NULL, kind TEXT NOT NULL, part_model TEXT NOT NULL, UNIQUE ({KEYS}))""",
    f"""CREATE TABLE sums (hours INTEGER NOT NULL, since INTEGER NOT NULL, grp INTEGER NOT NULL,
        {", ".join(f"{name} {'REAL' if name == 'judging' else 'INTEGER'} NOT NULL" for name in SUMS)},
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
_ADDED: Final = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
_HOUR_OF_REMOVED: Final = "CAST(CAST(value AS REAL) / 3600.0 AS INTEGER)"
#: The hour up to which rows were removed has the sums that it has: they become those of removed rows.
REMOVED: Final = (
    f"""INSERT INTO sums SELECT 0, since, grp, {_NAMES} FROM sums WHERE hours = 1
        AND since = (SELECT {_HOUR_OF_REMOVED} FROM meta WHERE name = 'rows_after')""",  # noqa: S608 - words of ours
    f"""UPDATE meta SET value = CAST(({_HOUR_OF_REMOVED} + 1) * 3600.0 - 0.001 AS TEXT)
        WHERE name = 'rows_after'""",  # noqa: S608 - as above
)

#: CROSS: the hours first, or all rows would be read.
_LIVE: Final = SEARCH.rollup(
    "dirty CROSS JOIN summaries ON at >= dirty.hour * 3600.0 AND at < (dirty.hour + 1) * 3600.0 "
    "AND at > :gone AND dirty.hour >= :since AND dirty.hour < :until"
)
_ONE_HOUR: Final = SEARCH.rollup(
    "(SELECT * FROM summaries WHERE at >= :hour * 3600.0 AND at < (:hour + 1) * 3600.0 AND at > :gone) "
    "AS summaries"
)
#: Rows of one hour that are to be removed.
_GOING: Final = SEARCH.rollup(
    "(SELECT * FROM summaries WHERE at >= :hour * 3600.0 AND at > :gone AND at <= :until) AS summaries"
)
#: Whole days of the period with all hours up to date, and the hours of others.
_TOTALS: Final = f"""WITH unfit(day) AS (SELECT DISTINCT hour / {_DAY} * {_DAY} FROM dirty),
    known AS (
        SELECT since, grp, {_NAMES} FROM sums WHERE hours = {_DAY} AND since >= :first AND since < :last
        AND since NOT IN unfit
        UNION ALL SELECT since, grp, {_NAMES} FROM sums WHERE hours = 1
        AND since >= :since AND since < :first AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_NAMES} FROM sums WHERE hours = 1
        AND since >= :last AND since < :until AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_NAMES} FROM unfit CROSS JOIN sums ON hours = 1
        AND since >= day AND since < day + {_DAY} WHERE day >= :first AND day < :last
        AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_NAMES} FROM dirty CROSS JOIN sums ON hours = 0 AND since = hour
        WHERE since >= :since AND since < :until
    ),
    days AS (
        SELECT (since + :zone) / {_DAY} * {_DAY} - :zone AS day, grp, {_ADDED} FROM known GROUP BY 1, 2
    )
    SELECT day, {KEYS}, {_ADDED} FROM (
        SELECT day, {KEYS}, {_NAMES} FROM days CROSS JOIN groups ON groups.id = grp
        UNION ALL SELECT (hour + :zone) / {_DAY} * {_DAY} - :zone, {KEYS}, {_NAMES} FROM ({_LIVE})
    ) GROUP BY 1, {KEYS} HAVING sum(turns) > 0"""  # noqa: S608 - as above


def _into_sums(hours: int, hour: str, rows: str) -> tuple[str, str]:
    """Insert the sums of rows, and before them their groups."""
    return (
        f"INSERT OR IGNORE INTO groups ({KEYS}) SELECT {KEYS} FROM ({rows})",  # noqa: S608 - as above
        f"""INSERT INTO sums (hours, since, grp, {_NAMES}) SELECT {hours}, {hour}, id, {_NAMES}
            FROM ({rows}) CROSS JOIN groups USING ({KEYS}) WHERE true
            ON CONFLICT (hours, since, grp) DO UPDATE SET """  # noqa: S608 - as above
        + ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS),
    )


#: Add an hour up, from its removed rows and from its rows.
_SEAL: Final = (
    "DELETE FROM sums WHERE hours = 1 AND since = :hour",
    f"INSERT INTO sums SELECT 1, since, grp, {_NAMES} FROM sums WHERE hours = 0 AND since = :hour",  # noqa: S608 - as above
    *_into_sums(1, ":hour", _ONE_HOUR),
    "DELETE FROM dirty WHERE hour = :hour",
)
_KEEP: Final = _into_sums(0, ":hour", _GOING)
#: Add a day up from its hours, where none of them is left to be added up.
_SEAL_DAY: Final = (
    f"DELETE FROM sums WHERE hours = {_DAY} AND since = :day",  # noqa: S608 - as above
    f"""INSERT INTO sums (hours, since, grp, {_NAMES}) SELECT {_DAY}, :day, grp, {_ADDED} FROM sums
        WHERE hours = 1 AND since >= :day AND since < :day + {_DAY} GROUP BY grp""",  # noqa: S608 - as above
)
_LEFT: Final = "SELECT 1 FROM dirty WHERE hour >= :day AND hour < :day + 24"
_hour_in: Final = operator.itemgetter(HOUR_OF)
_MARK: Final = "INSERT OR IGNORE INTO dirty (hour) VALUES {rows}"
_DUE: Final = "SELECT hour FROM dirty WHERE hour < ? ORDER BY hour LIMIT ?"
#: Hours added up in one transaction, some milliseconds each.
_HOURS: Final = 4

#: Until when rows were removed; their sums stay.
GONE: Final = "SELECT value FROM meta WHERE name = 'rows_after'"
_SET_GONE: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('rows_after', ?)"


def gone_in(found: Sequence[Sequence[object]]) -> float:
    """Until when, in seconds since the epoch, retention has removed rows, by the rows of ``GONE``."""
    return float(str(found[0][0])) if found else -math.inf


def _gone_until(connection: sqlite3.Connection) -> float:
    return gone_in(connection.execute(GONE).fetchall())


def mark(connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Mark the hours of rows written now; rows of before the removed ones change no sum."""
    gone = _gone_until(connection)
    if gone > -math.inf:
        rows = [row for row in rows if row[AT] > gone]
    insert(connection, _MARK, list(zip(set(map(_hour_in, rows)))))


def seal_some(connection: sqlite3.Connection, end: int) -> bool:
    """Add up some hours before ``end`` that have changed; whether there were any."""
    found = connection.execute(_DUE, (end, _HOURS)).fetchall()
    if found:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for [hour] in found:
                _seal(connection, hour)
    return bool(found)


@contextmanager
def keeping(connection: sqlite3.Connection, until: float) -> Iterator[None]:
    """Preserve the sums of decisions that arrived until then while retention removes these.

    Args:
        connection: In a transaction.
        until: Seconds since the epoch.
    """
    last, gone = hour_of(until), _gone_until(connection)
    for [hour] in connection.execute(_DUE, (last, -1)).fetchall():
        _seal(connection, hour)
    is_marked = connection.execute("SELECT 1 FROM dirty WHERE hour = ?", (last,)).fetchone()
    for statement in _KEEP:
        connection.execute(statement, {"hour": last, "gone": gone, "until": until})
    yield
    connection.execute("DELETE FROM dirty WHERE hour < ?", (last + (is_marked is None),))
    connection.execute("DELETE FROM sums WHERE hours = 0 AND since < ?", (last,))
    connection.execute(_SET_GONE, (repr(max(until, gone)),))
    connection.execute("DELETE FROM hour_values WHERE hour < ?", (last,))


def _seal(connection: sqlite3.Connection, hour: int) -> None:
    gone = _gone_until(connection)
    is_kept = hour < hour_of(gone)  # rows of it that are there came late
    for statement in _SEAL[-1:] if is_kept else _SEAL:  # the last marks the hour as added up
        connection.execute(statement, {"hour": hour, "gone": gone})
    if not is_kept:
        _store_values(connection, hour)
    day = {"day": hour // _DAY * _DAY}
    if connection.execute(_LEFT, day).fetchone() is None:
        for statement in _SEAL_DAY:
            connection.execute(statement, day)


def totals_of_period(since: int, until: int, zone: int, gone: float) -> tuple[str, dict[str, object]]:
    """The statement of the totals from an hour until another, and its values."""
    first, last = (since, since) if zone else (-(-since // _DAY) * _DAY, until // _DAY * _DAY)
    if first > last:
        first = last = since
    return _TOTALS, {"since": since, "until": until, "first": first, "last": last, "zone": zone, "gone": gone}


#: Kinds of values, by a row's columns; a domain and a signal are one of several.
_KINDS: Final = ("tier", "model", "role", "caller", "status", "domains", "signals", "project", "client")
_DOMAIN, _SIGNAL = 5, 6

_NEW: Final = "INSERT OR IGNORE INTO hour_values (kind, value, hour) VALUES {rows}"
_FORGET: Final = "DELETE FROM hour_values WHERE hour = ?"
_OF_ROWS: Final = (
    f"SELECT DISTINCT {', '.join(_KINDS)} FROM summaries WHERE at >= ? * 3600.0 AND at < (? + 1) * 3600.0"  # noqa: S608 - as above
)
_HAVING: Final = "SELECT hour FROM hour_values WHERE kind = ? AND value = ?"


def _store_values(connection: sqlite3.Connection, hour: int) -> None:
    """Store the values that occur in the rows of an hour."""
    connection.execute(_FORGET, (hour,))
    found = {
        (kind, value, hour)
        for row in connection.execute(_OF_ROWS, (hour, hour))
        for kind, values in enumerate(row)
        for value in (values.split("\n") if kind in (_DOMAIN, _SIGNAL) else [str(values)])
        if value or kind < _DOMAIN
    }
    insert(connection, _NEW, sorted(found))


def hours_of(wanted: DecisionFilter) -> tuple[str, list[object]] | None:
    """The statement of the hours in which rows may meet a filter, the latest first; None for any hour."""
    status = "" if wanted.status is None else str(wanted.status)
    named = (wanted.tier, wanted.model, wanted.role, wanted.caller, status, wanted.domain)
    asked = (*named, "", wanted.project, wanted.client)
    terms = [(kind, value) for kind, value in enumerate(asked) if value]
    terms += [(_SIGNAL, value) for value in wanted.in_signals]
    if not terms:
        return None
    having = " INTERSECT ".join([_HAVING] * len(terms))
    query = f"""SELECT hour FROM ({having} UNION SELECT hour FROM dirty)
        WHERE hour BETWEEN ? AND ? ORDER BY hour DESC"""  # noqa: S608 - words of ours
    since, until = wanted.since, wanted.until
    period = hour_of(-math.inf if since is None else since), hour_of(math.inf if until is None else until)
    return query, [*(value for term in terms for value in term), *period]


def hour_of(seconds: float, rounded: Callable[[float], int] = math.floor) -> int:
    """The hour since the epoch, within bounds that a column can hold."""
    return rounded(max(-1e12, min(seconds, 1e12)) / HOUR)
