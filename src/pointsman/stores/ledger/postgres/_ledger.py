"""The ledger in PostgreSQL: copied in from a thread, read by anyone."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import psycopg

from pointsman.decision.decision import TextMode
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores.ledger._hour_values import hour_of
from pointsman.stores.ledger._reader import StoredLedger
from pointsman.stores.ledger._retention import NONE_REMOVED, SWEEP, Reason, Removed, Retention
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._statements import POSTGRES, Statements
from pointsman.stores.ledger._sums import spenders_in, totals_in
from pointsman.stores.ledger.port import (
    Entry,
)
from pointsman.stores.ledger.postgres._connection import Database, Reader
from pointsman.stores.ledger.postgres._retention import remove_day
from pointsman.stores.ledger.postgres._rows import clean
from pointsman.stores.ledger.postgres._schema import SCHEMA
from pointsman.stores.ledger.postgres._summaries import (
    LIVE_TOTALS,
    SPENDERS,
    TOTALS,
    row_in,
    search_of,
    session_of,
)
from pointsman.stores.ledger.postgres._summarizer import seal_one
from pointsman.stores.ledger.postgres._writing import BatchCopier
from pointsman.stores.ledger.reading import (
    MOST_ROWS,
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Spender,
    Totals,
)
from pointsman.stores.schema_version import Schema, SchemaState

__all__ = ["PostgresLedger"]

log = logging.getLogger(__name__)

#: Seconds between two looks at hours that are over.
SEAL_EVERY: Final = 60.0

#: Seconds after which a search of the console is ended.
SEARCH: Final = 5.0

#: Seconds for which a caller waits for one row of a server that answers nothing.
_ONE_ROW: Final = 5.0


class PostgresLedger(StoredLedger):
    """A ledger in a PostgreSQL database. Its tables and its thread come with the first entry, or ``check``.

    Args:
        url: ``postgresql://user@host:5432/database``.
        password: If the address has none.
        queue: Entries that may wait to be written.
        text: The stored form of prompts.
        retention: Limits on size and age, in whole days by the server's clock.
        clock: Seconds since the epoch.
        spill: Where entries wait that are beyond the queue; None: they are lost.

    Raises:
        ConfigError: it is no address of PostgreSQL.
    """

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        queue: int = 10_000,
        text: TextMode = "off",
        retention: Retention = Retention(max_mb=None),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.time,
        spill: SpillFile | None = None,
    ) -> None:
        self._database: Final = Database(url, password=password)
        self._retention: Final = retention
        self._clock: Final = clock
        self._removed: Final[Removed] = dict(NONE_REMOVED)
        self._swept_at = self._sealed_at = -math.inf
        self._fault_at_start = ""
        self._copier: Final = BatchCopier(self._database, text, clock)
        self._rows: Final = Reader(self._database, self.flush)
        self._summaries: Final = Reader(self._database, self.flush, seconds=SEARCH)
        super().__init__(queue=queue, text=text, spill=spill)

    schema: Final[Schema] = SCHEMA
    _statements = Statements(POSTGRES)

    @property
    def where(self) -> str:
        """Host, database and user."""
        return self._database.where

    @property
    def fault(self) -> str:
        """Why the last write, or ``check`` before the first, failed; empty after one that did not."""
        return super().fault or ("" if self._writer.written else self._fault_at_start)

    @property
    def removed(self) -> Mapping[Reason, int]:
        """How many decisions and other entries this process removed, by reason."""
        return self._removed

    def check(self) -> None:
        """Connect, and make the tables or bring them up to date.

        Raises:
            StoreUnavailable: the database cannot be reached or written, or is of a newer version.
        """
        try:
            self._database.check()
        except StoreUnavailable as error:
            self._fault_at_start = error.message
            raise
        self._fault_at_start = ""

    def schema_state(self) -> SchemaState:
        """Return the schema of the tables; number 0 if there are none. Nothing is changed.

        Raises:
            StoreUnavailable: the database cannot be read, or a later version changed its tables.
        """
        return self._database.state()

    def migrate(self) -> SchemaState:
        """Bring the tables to this program's schema, even where earlier programs cannot use that.

        Returns:
            The schema that was there before.

        Raises:
            StoreUnavailable: the database cannot be written, or a later version changed its tables.
        """
        return self._database.migrate()

    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        """Return a page of the decisions that meet a filter, the newest first."""
        limit = max(0, min(limit, MOST_ROWS))
        rows = list(map(row_in, self._summaries.read(*search_of(wanted, before, limit + 1, models))))
        shown = tuple(rows[:limit])
        return Page(shown, (shown[-1].at, shown[-1].id) if shown and len(rows) > limit else None)

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the decisions of a session and its sub-agents, the oldest first."""
        return tuple(map(row_in, self._summaries.read(*session_of(session, MOST_ROWS))))

    def totals(self, *, since: float = -math.inf, until: float = math.inf, zone: int = 0) -> Totals:
        """Return the sums of a period, by days of a zone."""
        period = {"since": hour_of(since), "until": hour_of(until, math.ceil), "zone": zone}
        return totals_in(*self._summaries.read_both(TOTALS, LIVE_TOTALS, period))

    def spenders(self, *, since: float, until: float) -> Mapping[Spender, Totals]:
        """Return the sums of a period for each spender."""
        return spenders_in(self._summaries.read(SPENDERS, {"since": since, "until": until}))

    def unsummarized(self) -> int:
        """Return 0: every decision is written with its summary."""
        return 0

    def close(self) -> None:
        """Write what waits and release the connections; what cannot be written is counted as lost."""
        if self._writer.close():
            self._database.close_writer()
        self._rows.close()
        self._summaries.close()

    def _write_rows(self, batch: Sequence[Entry]) -> int:
        self._remove_some()
        refused = self._copier.write(batch)
        self._rows.resume()
        self._summaries.resume()
        return refused

    def _query(self, query: str, *values: object, is_short: bool = False) -> list[tuple[Any, ...]]:
        return self._rows.read(query, values, patience=_ONE_ROW if is_short else None)

    def _clean(self, text: str) -> str:
        return clean(text)

    def _several(self, ids: Iterable[str]) -> list[str]:
        return list(ids)

    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        rows = self._rows.read(self._statements.outcomes_count, (clean(decision), clean(caller)), flush=False)
        return int(rows[0][0]) if rows else None

    def _remove_some(self) -> None:
        """Remove a day that is over a bound, every ten minutes, before anything is written."""
        now = self._clock()
        if 0 <= now - self._swept_at < SWEEP:  # below zero when the clock was set back
            return
        try:
            removed = remove_day(self._database.writer(), self._retention, self.where)
            for reason, count in removed.items():
                self._removed[reason] += count
        except psycopg.Error as error:
            log.warning("the retention limits of the ledger cannot be applied: %s", self._said(error))
        self._swept_at = now

    def _upkeep(self) -> bool:
        """Add up an hour that is over, in a pause of writing; tell whether more may be left."""
        now = self._clock()
        if 0 <= now - self._sealed_at < SEAL_EVERY:
            return False
        try:
            if seal_one(self._database.writer(), now):
                return True
        except (psycopg.Error, StoreUnavailable) as error:
            log.warning("the summaries of the ledger cannot be added up: %s", self._said(error))
        self._sealed_at = now
        return False

    def _said(self, error: Exception) -> str:
        return self._database.unavailable("cannot write", error).message
