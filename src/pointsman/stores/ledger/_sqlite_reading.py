"""Reads the summaries of a SQLite ledger, over a separate connection and within a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Final

import msgspec

from pointsman.prices import Prices
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.ledger._hour_values import hour_of, hours_of
from pointsman.stores.ledger._summaries import EARLIER_LEFT, STATE, row_in, search_of, session_of
from pointsman.stores.ledger._sums import SPENDERS, spenders_in, totals_in, totals_of_period
from pointsman.stores.ledger.reading import (
    MOST_ROWS,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Spender,
    Totals,
)
from pointsman.stores.ledger.turns import HOUR

__all__ = ["SECONDS", "SummaryReader"]

#: Seconds after which a search is ended. A million rows are read in one or two.
SECONDS: Final = 5.0


class SummaryReader:
    """Reads rows and totals. The requests' own reads do not wait for it.

    Args:
        file: of the ledger.
        flush: writes what waits.
        seconds: for which one statement may run.
    """

    def __init__(self, file: SqliteFile, flush: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._file: Final = file
        self._flush: Final = flush
        self._seconds: Final = seconds

    def search(
        self, wanted: DecisionFilter, before: Position | None, limit: int, models: Mapping[str, Prices]
    ) -> Page:
        """As ``Ledger.search``."""
        limit = max(0, min(limit, MOST_ROWS))
        rows: list[DecisionRow] = []
        for since, until in self._periods(wanted, before):
            part = msgspec.structs.replace(wanted, since=since, until=until)
            query, values = search_of(part, before, limit + 1 - len(rows), models)
            rows += [row_in(each) for each in self._read(query, *values)]
            if len(rows) > limit:
                break
        shown = tuple(rows[:limit])
        return Page(shown, (shown[-1].at, shown[-1].id) if shown and len(rows) > limit else None)

    def session(self, session: str) -> tuple[DecisionRow, ...]:
        """As ``Ledger.session``."""
        query, values = session_of(session, MOST_ROWS)
        return tuple(row_in(each) for each in self._read(query, *values))

    def totals(self, since: float, until: float, zone: int) -> Totals:
        """As ``Ledger.totals``."""
        query, values = totals_of_period(hour_of(since), hour_of(until, math.ceil), zone)
        return totals_in(self._read(query, *values))

    def spenders(self, since: float, until: float) -> dict[Spender, Totals]:
        """As ``Ledger.spenders``."""
        return spenders_in(self._read(SPENDERS, since, until, since, until))

    def unsummarized(self) -> int:
        """As ``Ledger.unsummarized``."""
        state = self._read(STATE)
        return int(self._read(EARLIER_LEFT, *state[0])[0][0]) if state else 0

    def _periods(
        self, wanted: DecisionFilter, before: Position | None
    ) -> list[tuple[float | None, float | None]]:
        """Times in which rows may meet a filter, the latest first; what lies between holds none."""
        found = None if wanted.session else hours_of(wanted)  # a session's rows are few, and found at once
        if found is None:
            return [(wanted.since, wanted.until)]
        query, values = found
        latest = math.inf if before is None else before[0] / HOUR
        hours = [hour for [hour] in self._read(query, *values) if hour <= latest]
        runs = [[*run] for _, run in groupby(enumerate(hours), lambda each: each[0] + each[1])]
        return [_within(wanted, run[-1][1] * HOUR, (run[0][1] + 1) * HOUR) for run in runs]

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        self._flush()
        if not self._file.is_made:
            return []  # nothing was ever appended
        return self._file.read(query, *values, seconds=self._seconds)


def _within(wanted: DecisionFilter, since: float, until: float) -> tuple[float, float]:
    return (
        since if wanted.since is None else max(since, wanted.since),
        until if wanted.until is None else min(until, wanted.until),
    )
