"""Reads the summaries of a SQLite ledger, over a connection of its own and within a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pointsman.prices import Prices
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.ledger._schema import APPLICATION, MIGRATIONS
from pointsman.stores.ledger._summaries import (
    EARLIER_LEFT,
    PARTS,
    STATE,
    TURNS,
    part_totals,
    row_in,
    search_of,
    session_of,
    turn_totals,
)
from pointsman.stores.ledger.reading import (
    MOST_ROWS,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Totals,
)
from pointsman.stores.ledger.turns import HOUR

__all__ = ["SECONDS", "SummaryReader"]

#: Seconds after which a search is ended. A million rows are read in one or two.
SECONDS: Final = 5.0


class SummaryReader:
    """Reads rows and totals. The requests' own reads do not wait for it.

    Args:
        path: the ledger.
        flush: writes what waits.
        seconds: for which one statement may run.
    """

    def __init__(self, path: Path, flush: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._file: Final = SqliteFile(path, kind="ledger", application=APPLICATION, migrations=MIGRATIONS)
        self._flush: Final = flush
        self._seconds: Final = seconds

    def search(
        self, wanted: DecisionFilter, before: Position | None, limit: int, models: Mapping[str, Prices]
    ) -> Page:
        """As ``Ledger.search``."""
        limit = max(0, min(limit, MOST_ROWS))
        query, values = search_of(wanted, before, limit + 1, models)
        rows = [row_in(each) for each in self._read(query, *values)]
        shown = tuple(rows[:limit])
        return Page(shown, (shown[-1].at, shown[-1].id) if shown and len(rows) > limit else None)

    def session(self, session: str) -> tuple[DecisionRow, ...]:
        """As ``Ledger.session``."""
        query, values = session_of(session, MOST_ROWS)
        return tuple(row_in(each) for each in self._read(query, *values))

    def totals(self, since: float, until: float, zone: int) -> Totals:
        """As ``Ledger.totals``."""
        period = _hour(since, math.floor), _hour(until, math.ceil), zone
        return Totals(
            tuple(turn_totals(each) for each in self._read(TURNS, *period)),
            tuple(part_totals(each) for each in self._read(PARTS, *period)),
        )

    def unsummarized(self) -> int:
        """As ``Ledger.unsummarized``."""
        state = self._read(STATE)
        return int(self._read(EARLIER_LEFT, *state[0])[0][0]) if state else 0

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        self._flush()
        if not self._file.path.exists():
            return []  # nothing was ever appended
        return self._file.read(query, *values, seconds=self._seconds)


def _hour(seconds: float, rounded: Callable[[float], int]) -> int:
    """The hour since the epoch; bounds that SQLite can hold where there is none."""
    return rounded(max(-1e12, min(seconds, 1e12)) / HOUR)
