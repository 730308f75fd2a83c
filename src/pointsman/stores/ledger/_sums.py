"""Sums of a SQLite ledger by hour and by day, updated as rows are written.

``sums`` has a row for each hour, and for each day of UTC, of turns that have a ``groups`` row in common. An
hour in ``dirty`` has rows that left it: it is added up when it is read, and again in a pause of writing
(docs/notebook/0173). If retention has removed rows, their sums stay: ``rows_after`` in ``meta`` is the end of
their time, in seconds since the epoch, and no hour up to then is added up again.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, get_args

from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._hour_values import HourValues, hour_of
from pointsman.stores.ledger.reading import (
    DecisionRow,
    PartTotals,
    Result,
    Spender,
    Totals,
    TurnTotals,
)
from pointsman.stores.ledger.turns import PartSums, TurnSums, add_row

__all__ = [
    "KEYS",
    "MIGRATION",
    "RESULTS",
    "RESULT_NUMBERS",
    "SPENDERS",
    "SUMS",
    "Sums",
    "gone_until",
    "spenders_in",
    "totals_in",
    "totals_of_period",
]  # fmt: skip

RESULTS: Final[tuple[Result, ...]] = get_args(Result)
RESULT_NUMBERS: Final = {result: number for number, result in enumerate(RESULTS)}
_COUNTED: Final = RESULT_NUMBERS["counted"]
_DAY: Final = 24  # hours

KEYS: Final = "tier, model, result, own, gap, asked, beside, kind, part_model"
#: Of a part, ``turns`` are the parts, and all but the tokens is 0.
SUMS: Final = TurnTotals.__struct_fields__[8:]
_NAMES: Final = ", ".join(SUMS)
_ADDED: Final = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
_NO_MORE: Final = ", ".join(["0"] * (len(SUMS) - 4))

#: Values of a row before its sums: the hour, and what its turns have in common.
_KEYED: Final = 2 + KEYS.count(",")

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
)

_SUMS_OF_TURNS: Final = f"""count(*) AS turns, sum(input) AS input, sum(cached) AS cached,
    sum(output) AS output, sum(reused) AS reused, sum(result = {_COUNTED} AND reused > cached) AS assumed,
    sum(switched) AS switches, sum(trials) AS trials,
    sum(CASE result WHEN {_COUNTED} THEN added ELSE 0 END) AS added, sum(judging) AS judging,
    sum(stuck) AS stuck, sum(downgraded) AS downgraded, sum(abstained) AS abstained"""
_ANSWERED: Final = "CASE result WHEN 0 THEN '' ELSE model END AS model"
_TURNS_OF: Final = f"""SELECT summaries.hour AS hour, tier, {_ANSWERED}, result, own, gap, asked, beside,
    '' AS kind, '' AS part_model, {_SUMS_OF_TURNS} FROM {{source}} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"""  # noqa: S608 - words of ours
_SUMS_OF_PARTS: Final = f"""count(*), sum(json_extract(part.value, '$[2]')),
    sum(json_extract(part.value, '$[3]')), sum(json_extract(part.value, '$[4]')), {_NO_MORE}"""
_PART: Final = "json_extract(part.value, '$[0]') AS kind, json_extract(part.value, '$[1]') AS part_model"
_PARTS_OF: Final = f"""SELECT summaries.hour AS hour, tier, {_ANSWERED}, result, '' AS own, 0 AS gap, asked,
    beside, {_PART}, {_SUMS_OF_PARTS}
    FROM {{source}}, json_each(parts) AS part WHERE beside != '' GROUP BY 1, 2, 3, 4, 7, 8, 9, 10"""  # noqa: S608 - as above

_SPENDER: Final = ", ".join(Spender._fields)
#: The sums of a period for each spender, neither by hour nor by tier.
SPENDERS: Final = f"""SELECT {_SPENDER}, 0, '', {_ANSWERED}, result, own, gap, asked, beside, '', '',
    {_SUMS_OF_TURNS} FROM summaries WHERE at >= ? AND at < ? GROUP BY 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13
    UNION ALL SELECT {_SPENDER}, 0, '', {_ANSWERED}, result, '', 0, asked, beside, {_PART},
    {_SUMS_OF_PARTS} FROM summaries, json_each(parts) AS part WHERE beside != '' AND at >= ? AND at < ?
    GROUP BY 1, 2, 3, 4, 5, 8, 9, 12, 13, 14, 15"""  # noqa: S608 - as above


def _read_again(source: str) -> str:
    """The sums of hours, from their rows."""
    return f"{_TURNS_OF.format(source=source)} UNION ALL {_PARTS_OF.format(source=source)}"


#: CROSS: the hours first, or all rows would be read.
_DIRTY: Final = _read_again(
    "dirty CROSS JOIN summaries ON at >= dirty.hour * 3600.0 AND at < (dirty.hour + 1) * 3600.0 "
    "AND dirty.hour >= (SELECT since FROM period) AND dirty.hour < (SELECT until FROM period)"
)
_ONE_HOUR: Final = _read_again(
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


def totals_in(*rows_of: Iterable[Sequence[Any]]) -> Totals:
    """The totals in rows of hour, ``KEYS`` and ``SUMS``: those of one hour and group are added up."""
    found: dict[tuple[Any, ...], Sequence[Any]] = {}
    for row in chain.from_iterable(rows_of):
        key, sums = tuple(row[:_KEYED]), row[_KEYED:]
        known = found.get(key)
        found[key] = sums if known is None else [a + b for a, b in zip(known, sums, strict=True)]
    turns, parts = [], []
    for (hour, tier, model, result, own, gap, asked, beside, kind, of), sums in found.items():
        said = RESULTS[result]
        if kind:
            part = (hour, tier, model, said, bool(asked), beside, kind, of)
            parts.append(PartTotals(*part, *sums[1:4]))
        else:
            turns.append(TurnTotals(hour, tier, model, said, own, gap, bool(asked), beside, *sums))
    return Totals(tuple(turns), tuple(parts))


def spenders_in(rows: Iterable[Sequence[Any]]) -> dict[Spender, Totals]:
    """The totals of each spender in the rows of ``SPENDERS``."""
    found: dict[Spender, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(Spender(*row[: len(Spender._fields)]), []).append(row[len(Spender._fields) :])
    return {spender: totals_in(of) for spender, of in found.items()}
