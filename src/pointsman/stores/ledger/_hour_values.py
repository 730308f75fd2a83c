"""Which tiers, models, signals and so on occur in an hour of a SQLite ledger: updated as rows are written.

A search leaves out the hours in which it can find nothing (docs/notebook/0173).
"""

from __future__ import annotations

import math
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow
from pointsman.stores.ledger.turns import HOUR

__all__ = ["MIGRATION", "HourValues", "hour_of", "hours_of"]

#: Kinds of values. Before these: tier, model, role, caller, status.
_DOMAIN: Final = 5
_SIGNAL: Final = 6
_PROJECT: Final = 7
_CLIENT: Final = 8

#: Hours whose values are remembered, and rows of each.
_HOURS_KNOWN: Final = 64
_COMBINATIONS_KNOWN: Final = 1_000

MIGRATION: Final = (
    """CREATE TABLE hour_values (kind INTEGER NOT NULL, value TEXT NOT NULL, hour INTEGER NOT NULL,
        PRIMARY KEY (kind, value, hour)) WITHOUT ROWID""",
    "CREATE INDEX hour_values_by_hour ON hour_values (hour)",
)

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
