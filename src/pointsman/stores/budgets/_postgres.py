"""The durable record of spent money in PostgreSQL: in the ledger's database, in a separate schema."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pointsman.errors import StoreUnavailable
from pointsman.stores.budgets.port import KEPT_WINDOWS, MILLION, SHARE_SECONDS, Spent, series, share_of

if TYPE_CHECKING:
    from pointsman.stores.ledger.postgres import Connection

__all__ = ["PostgresBook"]

#: Seconds for which a database that failed is not asked again.
PAUSE: Final = 1.0
#: A request waits for it once per counter and window, and after Valkey has lost something.
_SETTINGS: Final = (
    "SET search_path TO pointsman_budgets; SET jit = off; "
    "SET statement_timeout = 2000; SET lock_timeout = 2000"
)
#: Held while tables are made: several processes start together.
_LOCK: Final = 0x50747362
_TABLES: Final = {
    "SELECT to_regnamespace('pointsman_budgets')": "CREATE SCHEMA pointsman_budgets",
    "SELECT to_regclass('pointsman_budgets.spent')": """CREATE TABLE pointsman_budgets.spent (
        number bigint GENERATED ALWAYS AS IDENTITY,
        counter text NOT NULL,
        series text NOT NULL,
        writer text NOT NULL,
        amount bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (counter, writer)
    )""",
    "SELECT to_regclass('pointsman_budgets.processes')": """CREATE TABLE pointsman_budgets.processes (
        name text PRIMARY KEY,
        share integer NOT NULL,
        until timestamptz NOT NULL
    )""",
}
_OLD: Final = """DELETE FROM spent WHERE counter IN (
    SELECT counter FROM (
        SELECT counter, row_number() OVER (PARTITION BY series ORDER BY min(number) DESC) AS place
        FROM spent GROUP BY series, counter
    ) AS windows WHERE place > %s)"""
_JOIN: Final = "INSERT INTO processes VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))"


class PostgresBook:
    """Spent money by counter and process, which all gateways of a database share.

    Args:
        url: Address of the database, as of the ledger.
        password: Where the address has none.

    Raises:
        ConfigError: it is no address of PostgreSQL.
    """

    def __init__(self, url: str, *, password: str | None = None) -> None:
        from pointsman.stores.ledger.postgres import Database

        self._database: Final = Database(url, password=password)
        self._lock: Final = threading.Lock()
        self._connection: Connection | None = None
        self._failed = -math.inf, StoreUnavailable("")  # when it failed last, and why

    def record(self, spent: Sequence[Spent], /) -> None:
        """Record totals; a lower one than is recorded changes nothing."""
        rows = sorted(spent)  # in one order, so that two processes never wait for each other
        counters = [each.counter for each in rows]
        writers, amounts = [each.writer for each in rows], [each.amount for each in rows]
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO spent (counter, series, writer, amount) "
                "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) "
                "ON CONFLICT (counter, writer) DO UPDATE "
                "SET amount = greatest(spent.amount, excluded.amount), at = now()",
                (counters, [series(each) for each in counters], writers, amounts),
            )

    def spent(self, counters: Sequence[str], /) -> Mapping[str, Mapping[str, int]]:
        """Return the recorded amount of each counter, by process."""
        found: dict[str, dict[str, int]] = {counter: {} for counter in counters}
        with self._transaction() as connection:
            query = "SELECT counter, writer, amount FROM spent WHERE counter = ANY(%s)"
            for counter, writer, amount in connection.execute(query, (list(counters),)).fetchall():
                found[counter][writer] = amount
        return found

    def join(self, process: str, /) -> float:
        """Return the share of a process in an outage; see ``Book.join``."""
        with self._transaction() as connection:
            connection.execute("LOCK TABLE processes IN EXCLUSIVE MODE")
            connection.execute(
                "DELETE FROM processes WHERE until <= clock_timestamp() OR name = %s", (process,)
            )
            query = "SELECT count(*), coalesce(sum(share), 0) FROM processes"
            row: Any = connection.execute(query).fetchone()
            share = share_of(int(row[0]), int(row[1]))
            connection.execute(_JOIN, (process, share, SHARE_SECONDS))
            connection.execute(_OLD, (KEPT_WINDOWS,))
        return share / MILLION

    def leave(self, process: str, /) -> None:
        """Give the share back."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM processes WHERE name = %s", (process,))

    def close(self) -> None:
        """Release the connection."""
        with self._lock:
            self._disconnect()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        import psycopg

        with self._lock:
            if time.monotonic() - self._failed[0] < PAUSE:
                raise self._failed[1]
            try:
                connection = self._connected()
                with connection.transaction():
                    yield connection
            except psycopg.Error as error:
                self._disconnect()
                failure = self._database.unavailable("cannot use the budgets in the database of", error)
                self._failed = time.monotonic(), failure
                raise failure from error
            except StoreUnavailable as error:
                self._failed = time.monotonic(), error
                raise

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            connection = self._connection = self._database.connect(_SETTINGS)
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                # Asked first: to make what is there takes a right that the user need not have.
                for name, statement in _TABLES.items():
                    found = connection.execute(name).fetchone()
                    if found == (None,):
                        connection.execute(statement)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
