"""Sums of a SQLite ledger by hour and by day, updated as rows are written.

``sums`` has a row for each hour, and for each day of UTC, of turns that have a ``groups`` row in common. An
hour in ``dirty`` has rows that left it: it is added up when it is read, and again in a pause of writing
(docs/notebook/0173). If retention has removed rows, their sums stay: ``rows_after`` in ``meta`` is the end of
their time, in seconds since the epoch, and no hour up to then is added up again.
"""

from __future__ import annotations

import math
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._summaries import KEYS, RESULT_NUMBERS, SEARCH, SUMS
from pointsman.stores.ledger.reading import HOUR, DecisionFilter, DecisionRow, PartSums, TurnSums, add_row

_DAY: Final = 24  # hours

#: Groups that are known to be there, at most.
_GROUPS_KNOWN: Final = 10_000

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

#: CROSS: the hours first, or all rows would be read.
_DIRTY: Final = SEARCH.rollup(
    "dirty CROSS JOIN summaries ON at >= dirty.hour * 3600.0 AND at < (dirty.hour + 1) * 3600.0 "
    "AND dirty.hour >= (SELECT since FROM period) AND dirty.hour < (SELECT until FROM period)"
)
_ONE_HOUR: Final = SEARCH.rollup(
    "(SELECT * FROM summaries WHERE at >= :hour * 3600.0 AND at < (:hour + 1) * 3600.0) AS summaries"
)
#: Whole days of the period with all hours up to date, and the hours of others.
_TOTALS: Final = f"""WITH period(since, until, first, last, zone) AS (VALUES (?, ?, ?, ?, ?)),
    unfit(day) AS (SELECT DISTINCT hour / {_DAY} * {_DAY} FROM dirty),
    clean AS (
        SELECT since, grp, {_NAMES} FROM sums WHERE hours = {_DAY} AND since >= (SELECT first FROM period)
        AND since < (SELECT last FROM period) AND since NOT IN unfit
        UNION ALL SELECT since, grp, {_NAMES} FROM sums WHERE hours = 1
        AND since >= (SELECT since FROM period) AND since < (SELECT first FROM period)
        AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_NAMES} FROM sums WHERE hours = 1
        AND since >= (SELECT last FROM period) AND since < (SELECT until FROM period)
        AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_NAMES} FROM unfit CROSS JOIN sums ON hours = 1
        AND since >= day AND since < day + {_DAY} WHERE day >= (SELECT first FROM period)
        AND day < (SELECT last FROM period) AND since NOT IN (SELECT hour FROM dirty)
    ),
    days AS (
        SELECT (since + (SELECT zone FROM period)) / {_DAY} * {_DAY} - (SELECT zone FROM period) AS day, grp,
        {_ADDED} FROM clean GROUP BY 1, 2
    )
    SELECT day, {KEYS}, {_ADDED} FROM (
        SELECT day, {KEYS}, {_NAMES} FROM days CROSS JOIN groups ON groups.id = grp
        UNION ALL SELECT (hour + (SELECT zone FROM period)) / {_DAY} * {_DAY} - (SELECT zone FROM period),
        {KEYS}, {_NAMES} FROM ({_DIRTY})
    ) GROUP BY 1, {KEYS} HAVING sum(turns) > 0"""  # noqa: S608 - words of ours

_ADD: Final = (
    f"INSERT INTO sums (hours, since, grp, {_NAMES}) VALUES {{rows}} "  # noqa: S608 - as above
    "ON CONFLICT (hours, since, grp) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
)
_PLACES: Final = ", ".join("?" * (KEYS.count(",") + 1))
_NEW_GROUP: Final = f"INSERT OR IGNORE INTO groups ({KEYS}) VALUES ({_PLACES})"  # noqa: S608 - as above
_GROUP: Final = f"SELECT id FROM groups WHERE ({KEYS}) = ({_PLACES})"  # noqa: S608 - as above
#: Add an hour up again, from its rows.
_SEAL: Final = (
    "DELETE FROM sums WHERE hours = 1 AND since = :hour",
    f"INSERT OR IGNORE INTO groups ({KEYS}) SELECT {KEYS} FROM ({_ONE_HOUR})",  # noqa: S608 - as above
    f"""INSERT INTO sums (hours, since, grp, {_NAMES}) SELECT 1, :hour, id, {_NAMES} FROM ({_ONE_HOUR})
        CROSS JOIN groups USING ({KEYS})""",  # noqa: S608 - as above
    "DELETE FROM dirty WHERE hour = :hour",
)
#: Add a day up from its hours, where none of them is left to be added up.
_SEAL_DAY: Final = (
    f"DELETE FROM sums WHERE hours = {_DAY} AND since = :day",  # noqa: S608 - as above
    f"""INSERT INTO sums (hours, since, grp, {_NAMES}) SELECT {_DAY}, :day, grp, {_ADDED} FROM sums
        WHERE hours = 1 AND since >= :day AND since < :day + {_DAY} GROUP BY grp""",  # noqa: S608 - as above
)
_LEFT: Final = "SELECT 1 FROM dirty WHERE hour >= :day AND hour < :day + 24"


#: Until when rows were removed; their sums stay.
_ROWS_AFTER: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES ('rows_after', ?)"


def gone_until(connection: sqlite3.Connection) -> float:
    """Until when, in seconds since the epoch, retention has removed rows; their sums stay."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'rows_after'").fetchone()
    return float(found[0]) if found else -math.inf


class Sums:
    """Follows rows as they are written. Not safe for threads: the writer's alone."""

    def __init__(self) -> None:
        self._turns: TurnSums = {}  # changes that are not written yet
        self._parts: PartSums = {}
        self._groups: Final[dict[tuple[object, ...], int]] = {}  # ids of groups that are there
        self._values: Final = HourValues()

    def clear(self) -> None:
        """Forget the groups in the file, and the changes not written yet."""
        self._turns, self._parts = {}, {}
        self._groups.clear()
        self._values.clear()

    def replace(self, stored: tuple[int, DecisionRow] | None, hour: int, row: DecisionRow) -> None:
        """Count a row in its hour, in the place of the one that was stored before."""
        if stored is not None:
            add_row(stored[1], stored[0], self._turns, self._parts, -1)
        add_row(row, hour, self._turns, self._parts)
        self._values.learn(hour, row)

    def store(self, connection: sqlite3.Connection) -> None:
        """Write the changes, in the transaction of the rows."""
        found: dict[tuple[int, int, int], Sequence[float]] = {}
        for (hour, tier, model, result, *rest), sums in self._turns.items():
            if any(sums):
                key = tier, model, RESULT_NUMBERS[result], *rest, "", ""
                _add(found, hour, self._group(connection, key), sums)
        for (hour, tier, model, result, asked, beside, *part), sums in self._parts.items():
            if any(sums):
                key = tier, model, RESULT_NUMBERS[result], "", 0, asked, beside, *part
                _add(found, hour, self._group(connection, key), [*sums, *[0] * (len(SUMS) - 4)])
        self._turns, self._parts = {}, {}
        insert(connection, _ADD, [(*key, *sums) for key, sums in found.items()])
        self._values.store(connection)

    def seal_one(self, connection: sqlite3.Connection) -> bool:
        """Add up an hour that rows have left; whether there was any."""
        found = connection.execute("SELECT hour FROM dirty ORDER BY hour LIMIT 1").fetchone()
        if found is None:
            return False
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            self._seal(connection, *found)
        return True

    @contextmanager
    def keeping(self, connection: sqlite3.Connection, until: float) -> Iterator[None]:
        """Preserve the sums of decisions that arrived until then while retention removes these.

        Args:
            connection: In a transaction.
            until: Seconds since the epoch.
        """
        last = hour_of(until)
        left = connection.execute("SELECT hour FROM dirty WHERE hour <= ? ORDER BY hour", (last,))
        for [hour] in left.fetchall():
            self._seal(connection, hour)
        yield
        connection.execute("DELETE FROM dirty WHERE hour <= ?", (last,))
        connection.execute(_ROWS_AFTER, (repr(max(until, gone_until(connection))),))
        self._values.forget(connection, last)

    def _seal(self, connection: sqlite3.Connection, hour: int) -> None:
        is_kept = hour <= hour_of(gone_until(connection))
        for statement in _SEAL[-1:] if is_kept else _SEAL:  # the last marks the hour as added up
            connection.execute(statement, {"hour": hour})
        if not is_kept:
            self._values.read_again(connection, hour)
        day = {"day": hour // _DAY * _DAY}
        if connection.execute(_LEFT, day).fetchone() is None:
            for statement in _SEAL_DAY:
                connection.execute(statement, day)

    def _group(self, connection: sqlite3.Connection, key: tuple[object, ...]) -> int:
        found = self._groups.get(key)
        if found is None:
            connection.execute(_NEW_GROUP, key)
            [found] = connection.execute(_GROUP, key).fetchone()
            if len(self._groups) >= _GROUPS_KNOWN:
                self._groups.clear()
            self._groups[key] = found
        return found


def _add(
    found: dict[tuple[int, int, int], Sequence[float]], hour: int, group: int, sums: Sequence[float]
) -> None:
    found[1, hour, group] = sums
    of_day = _DAY, hour // _DAY * _DAY, group
    known = found.get(of_day)
    found[of_day] = [a + b for a, b in zip(known, sums, strict=True)] if known else sums


def totals_of_period(since: int, until: int, zone: int) -> tuple[str, list[object]]:
    """The statement of the totals from an hour until another, and its values."""
    first, last = (since, since) if zone else (-(-since // _DAY) * _DAY, until // _DAY * _DAY)
    if first > last:
        first = last = since
    return _TOTALS, [since, until, first, last, zone]


#: Kinds of values. Before these: tier, model, role, caller, status.
_DOMAIN: Final = 5
_SIGNAL: Final = 6
_PROJECT: Final = 7
_CLIENT: Final = 8

#: Hours whose values are remembered, and rows of each.
_HOURS_KNOWN: Final = 64
_COMBINATIONS_KNOWN: Final = 1_000

_NEW: Final = "INSERT OR IGNORE INTO hour_values (kind, value, hour) VALUES {rows}"
_FORGET: Final = "DELETE FROM hour_values WHERE hour = ?"
_OF_ROWS: Final = (
    "SELECT DISTINCT tier, model, role, caller, status, project, client, domains, signals FROM summaries "
    "WHERE at >= ? * 3600.0 AND at < (? + 1) * 3600.0"
)
_HAVING: Final = "SELECT hour FROM hour_values WHERE kind = ? AND value = ?"

#: A kind, a value and the hour.
_Value = tuple[int, str, int]
#: Tier, model, role, caller, status, project, client, domains and signals.
_Combination = tuple[str, str, str, str, int, str, str, tuple[str, ...], tuple[str, ...]]


class _Known:
    """Values that are known to be in the table of an hour."""

    __slots__ = ("combinations", "values")

    def __init__(self) -> None:
        self.combinations: set[_Combination] = set()  # of rows, as they came
        self.values: set[_Value] = set()


class HourValues:
    """Follows rows as they are written. Not safe for threads: the writer's alone."""

    def __init__(self) -> None:
        self._known: Final[OrderedDict[int, _Known]] = OrderedDict()  # by hour, those begun last at the end
        self._new: list[_Value] = []  # values that are not written yet

    def clear(self) -> None:
        """Forget the values in the file, and those not written yet."""
        self._known.clear()
        self._new = []

    def learn(self, hour: int, row: DecisionRow) -> None:
        """Note the values of a row."""
        combination = (row.tier, row.model, row.role, row.caller, row.status, row.project, row.client,
                       row.domains, row.signals)  # fmt: skip
        known = self._known.get(hour) or self._begin(hour)
        if combination in known.combinations:
            return
        if len(known.combinations) >= _COMBINATIONS_KNOWN:
            known.combinations.clear()
        known.combinations.add(combination)
        new = _values(combination, hour) - known.values
        known.values |= new
        self._new += new

    def store(self, connection: sqlite3.Connection) -> None:
        """Write new values, in the transaction of the rows."""
        insert(connection, _NEW, self._new)
        self._new = []

    def read_again(self, connection: sqlite3.Connection, hour: int) -> None:
        """Replace the values of an hour by those of its rows."""
        connection.execute(_FORGET, (hour,))
        found: set[_Value] = set()
        for *single, domains, signals in connection.execute(_OF_ROWS, (hour, hour)):
            found |= _values((*single, domains.split("\n"), signals.split("\n")), hour)
        insert(connection, _NEW, sorted(found))
        self._known.pop(hour, None)

    def forget(self, connection: sqlite3.Connection, until: int) -> None:
        """Remove the values of hours before one: their rows are gone."""
        connection.execute("DELETE FROM hour_values WHERE hour < ?", (until,))
        for hour in [each for each in self._known if each < until]:
            del self._known[hour]

    def _begin(self, hour: int) -> _Known:
        found = self._known[hour] = _Known()
        if len(self._known) > _HOURS_KNOWN:
            self._known.popitem(last=False)
        return found


def _values(combination: _Combination, hour: int) -> set[_Value]:
    tier, model, role, caller, status, project, client, domains, signals = combination
    found = {(kind, value, hour) for kind, value in enumerate((tier, model, role, caller, str(status)))}
    found |= {(kind, value, hour) for kind, value in ((_PROJECT, project), (_CLIENT, client)) if value}
    found.update((_DOMAIN, value, hour) for value in domains if value)
    found.update((_SIGNAL, value, hour) for value in signals if value)
    return found


def hours_of(wanted: DecisionFilter) -> tuple[str, list[object]] | None:
    """The statement of the hours in which rows may meet a filter, the latest first; None for any hour."""
    status = "" if wanted.status is None else str(wanted.status)
    asked = (wanted.tier, wanted.model, wanted.role, wanted.caller, status, wanted.domain)
    terms = [(kind, value) for kind, value in enumerate(asked) if value]
    terms += [
        (kind, value) for kind, value in ((_PROJECT, wanted.project), (_CLIENT, wanted.client)) if value
    ]
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
