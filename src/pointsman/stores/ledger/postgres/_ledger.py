"""The ledger in PostgreSQL: copied in from a thread, read by anyone; days over a bound are removed whole.

Age is by the server's clock: one gateway with a clock that is ahead must not remove the entries of all.
All gateways together remove one day in a sweep, so that a wrong clock of the server, or a bound set by
mistake, is noticed before everything is gone.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import psycopg

from pointsman.decision.decision import TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._reader import Rows, StoredLedger
from pointsman.stores.ledger._retention import (
    FORGET_POLICIES,
    LEAST_POLICIES,
    MOST_OWNERS,
    MOST_POLICIES,
    SWEEP,
    Removed,
    Retention,
)
from pointsman.stores.ledger._schema import POSTGRES, Statements
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger.port import (
    Entry,
)
from pointsman.stores.ledger.postgres._connection import Connection, Database, Reader
from pointsman.stores.ledger.postgres._rows import BatchCopier
from pointsman.stores.ledger.postgres._schema import KEEP_META, LOCK, SCHEMA, clean, partitions_of, stored_at
from pointsman.stores.ledger.postgres._summaries import (
    SEARCH,
    seal,
    seal_one,
)
from pointsman.stores.ledger.reading import (
    Reason,
)
from pointsman.stores.schema_version import Schema, SchemaState
from pointsman.vocabulary import DAY

log = logging.getLogger(__name__)

#: Seconds between two looks at hours that are over.
SEAL_EVERY: Final = 60.0

#: Seconds after which a search of the console is ended.
SECONDS: Final = 5.0

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
        self._sealed_at = -math.inf
        self._fault_at_start = ""
        self._copier: Final = BatchCopier(self._database, text, clock)
        self._rows: Final = Reader(self._database, self.flush)
        self._summaries: Final = Reader(self._database, self.flush, seconds=SECONDS)
        super().__init__(queue=queue, text=text, retention=retention, clock=clock, spill=spill)

    schema: Final[Schema] = SCHEMA
    _statements = Statements(POSTGRES)
    _search = SEARCH
    _most_periods = 20  # each plans a statement over all partitions

    @property
    def where(self) -> str:
        """Host, database and user."""
        return self._database.where

    @property
    def fault(self) -> str:
        """Why the last write, or ``check`` before the first, failed; empty after one that did not."""
        return super().fault or ("" if self._writer.written else self._fault_at_start)

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

    def _summary_rows(self, query: str, values: Sequence[object] | Mapping[str, object], /) -> Rows:
        return self._summaries.read(query, values)

    def _clean(self, text: str) -> str:
        return clean(text)

    def _several(self, ids: Iterable[str]) -> list[str]:
        return list(ids)

    def _since(self, at: float) -> tuple[float]:
        """Return a day before it: the clock of the gateway that wrote an entry may have been behind."""
        return (stored_at(at) - DAY,)

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


#: Milliseconds for which removing waits for those who read; they wait for it no longer.
_PATIENCE: Final = 1_000

_OWNERS: Final = (
    "DELETE FROM owners WHERE at < "
    "(SELECT at FROM owners ORDER BY at DESC OFFSET %s LIMIT 1)"  # none where there are not so many
)
_POLICIES: Final = FORGET_POLICIES.replace("?", "%s")
_WRITERS: Final = "DELETE FROM writers WHERE at < %s"
#: The server's clock, and when a day was removed last, in seconds since the epoch.
_TIMES: Final = (
    "SELECT extract(epoch FROM now())::float8, "
    "coalesce((SELECT value::float8 FROM meta WHERE name = 'removed_at'), '-infinity')"
)
#: The hour since the epoch before which rows were removed: it never goes back.
_ROWS_FROM: Final = """INSERT INTO meta AS known (name, value) VALUES ('rows_from', %s) ON CONFLICT (name)
    DO UPDATE SET value = greatest(known.value::bigint, excluded.value::bigint)::text"""
#: Tables with rows that are counted when a day goes. What belongs to decisions goes with them.
_COUNTED: Final = ("decisions", "passed", "runs")


def remove_day(connection: Connection, retention: Retention, where: str) -> Removed:
    """Remove the oldest day if it is over a bound, and no gateway has removed one in this sweep.

    The day of the server's clock and later ones stay whatever their size.

    Args:
        connection: To write with.
        retention: The bounds.
        where: The database, for the log.

    Returns:
        How many decisions, passed requests and steps of runs were removed, by reason.
    """
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {_PATIENCE}")
        [free] = connection.execute("SELECT pg_try_advisory_xact_lock(%s, 3)", (LOCK,)).fetchone() or (False,)
        if not free:
            return {}
        now, removed_at = connection.execute(_TIMES).fetchone() or (-math.inf, -math.inf)
        is_due = not 0 <= now - removed_at < SWEEP
        days = partitions_of(connection) if is_due else {}
        found = _over({day: sum(size for _, size in tables) for day, tables in days.items()}, retention, now)
        removed: Removed = {}
        if found is not None:
            day, reason = found
            removed[reason] = _drop(connection, day, [name for name, _ in days[day]])
        sums = is_due and _drop_sums(connection, retention, now, min(days, default=int(now // DAY)))
        if found is not None or sums:
            connection.execute(KEEP_META, ("removed_at", repr(now)))
        until = now - retention.keep_days * DAY if retention.keep_days is not None else -math.inf
        connection.execute(_POLICIES, (MOST_POLICIES, until, LEAST_POLICIES))
        connection.execute(_OWNERS, (MOST_OWNERS,))
        connection.execute(_WRITERS, (now - DAY,))
    if sums:
        log.warning(
            "the ledger in PostgreSQL at %s: removed the sums of a day: older than keep_sums_days = %g",
            *(where, retention.keep_sums_days),
        )
    if found is not None:
        megabytes = sum(size for _, size in days[day]) / 1024 / 1024
        log.warning(
            "the ledger in PostgreSQL at %s: removed %s (UTC), %d decisions and other entries, %.1f MiB: %s",
            *(where, _date(day), removed[reason], megabytes, retention.why(reason)),
        )
    return removed


def _drop(connection: Connection, day: int, tables: list[str]) -> int:
    """Remove a day since the epoch, not its sums; return how many rows of ``_COUNTED`` it had."""
    count = 0
    hours = (day * 24, (day + 1) * 24)
    left = connection.execute("SELECT hour FROM dirty WHERE hour >= %s AND hour < %s ORDER BY hour", hours)
    for [hour] in left.fetchall():
        seal(connection, hour)
    connection.execute(_ROWS_FROM, (str(hours[1]),))  # from here on no sum of them changes
    connection.execute("DELETE FROM hour_values WHERE hour >= %s AND hour < %s", hours)
    # Without rows they have no values that are not known: else each search would look into them for years.
    connection.execute(
        "UPDATE hours SET has_values = true WHERE hour >= %s AND hour < %s AND NOT has_values", hours
    )
    for name in tables:
        if name.startswith(_COUNTED):
            found = connection.execute(f"SELECT count(*) FROM {name}").fetchone()  # noqa: S608 - as in pg_class
            count += found[0] if found else 0
        connection.execute(f"DROP TABLE {name}")
    return count


def _drop_sums(connection: Connection, retention: Retention, now: float, first: int) -> bool:
    """Remove the sums of the oldest day if they are too old and its entries are gone; whether any were.

    ``first`` is the oldest day since the epoch that has entries.
    """
    if retention.keep_sums_days is None:
        return False
    until = min(int((now - retention.keep_sums_days * DAY) // DAY), first) * 24
    [oldest] = connection.execute("SELECT min(hour) FROM hours").fetchone() or (None,)
    if oldest is None or (end := oldest // 24 * 24 + 24) > until:
        return False
    connection.execute("DELETE FROM hours WHERE hour < %s", (end,))
    connection.execute("DELETE FROM days WHERE hour < %s", (end,))
    return True


def _over(sizes: dict[int, int], retention: Retention, now: float) -> tuple[int, Reason] | None:
    """The oldest day since the epoch and the bound that it exceeds; None if it exceeds none."""
    day = min(sizes, default=int(now // DAY))
    if day >= int(now // DAY):
        return None
    if retention.keep_days is not None and (day + 1) * DAY <= now - retention.keep_days * DAY:
        return day, "age"
    is_large = retention.max_mb is not None and sum(sizes.values()) > retention.max_mb * 1024 * 1024
    return (day, "size") if is_large else None


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY, UTC).date().isoformat()
