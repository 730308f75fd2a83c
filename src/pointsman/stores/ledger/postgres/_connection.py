"""Connections to one PostgreSQL database, bounded in time; messages name it and never its password."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import errors, pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.stores.ledger.postgres._schema import SCHEMA, is_made, prepare, state_of
from pointsman.stores.schema_version import SchemaState

T = TypeVar("T")
Row: TypeAlias = tuple[object, ...]
Rows: TypeAlias = list[tuple[Any, ...]]
Values: TypeAlias = Sequence[object] | Mapping[str, object]
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

#: What an address may set itself. A server that is gone without a word is noticed after some twenty seconds.
_DEFAULTS: Final[dict[str, str | int | None]] = {
    "application_name": "pointsman",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,  # milliseconds
    "client_encoding": "utf8",
}
#: Compiling a query takes longer than running it; plans are for the batch at hand, not for a table of years.
_SESSION: Final = "SET search_path TO pointsman; SET jit = off; SET statement_timeout = {timeout}; "
_READING: Final = _SESSION + "SET default_transaction_read_only = on"
#: Rows are found by their keys: without statistics a plan could read whole partitions for them.
_WRITING: Final = (
    _SESSION + "SET lock_timeout = 10000; "
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
)
#: Milliseconds of one statement that writes or migrates, and of one that reads where no less is asked for.
_STATEMENT: Final = 60_000

#: Seconds for which a database that could not be reached is not asked again by those who read.
PAUSE: Final = 1.0

#: Seconds that a server has beyond its own limit of a statement to say that it was reached.
_GRACE: Final = 2.0

_NEVER: Final = -math.inf, StoreUnavailable("")


class Database:
    """An address, the writer's connection, and messages about it.

    Args:
        url: ``postgresql://user@host:5432/database``, or any connection string of libpq.
        password: Where the address has none; else libpq looks into ``PGPASSWORD`` and ``~/.pgpass``.

    Raises:
        ConfigError: it is no address of PostgreSQL.
    """

    def __init__(self, url: str, *, password: str | None = None) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:  # its message may quote the address, and the password with it
            raise ConfigError(
                "the ledger's url is not a PostgreSQL address", hint='as in "postgresql://user@host/name"'
            ) from None
        if password is not None:
            given["password"] = password
        self._password: Final = str(given.get("password") or "")
        wanted = _DEFAULTS | {name: str(value) for name, value in given.items()}
        self._conninfo: Final = make_conninfo("", **wanted)
        known = {each.keyword.decode(): (each.val or b"").decode() for each in pq.Conninfo.get_defaults()}
        known |= {name: str(value) for name, value in given.items() if value}
        host = known["host"] or known["hostaddr"] or "of this machine"
        port = "" if host.startswith("/") else f":{known['port']}"
        name = known["dbname"] or known["user"]
        #: Host, database and user.
        self.where: Final = f'host "{host}{port}", database "{name}", user "{known["user"]}"'
        self._writer: Connection | None = None

    def connect(self, settings: str) -> PatientConnection:
        """Open a connection with explicit transactions.

        Raises:
            StoreUnavailable: the database cannot be reached, or refuses this user.
        """
        try:
            connection = PatientConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise self.unavailable("cannot reach", error) from error
        try:
            connection.execute(settings)
        except BaseException:
            connection.close()
            raise
        return connection

    def writer(self) -> Connection:
        """Return the connection to write with, its tables made and brought up to date.

        Raises:
            StoreUnavailable: the database cannot be reached or written, or is of a newer version.
        """
        if self._writer is None or self._writer.closed:
            self._writer = self._prepared()
        return self._writer

    def close_writer(self) -> None:
        """Release the writer's connection; the next ``writer`` connects anew."""
        if self._writer is not None:
            with suppress(psycopg.Error):
                self._writer.close()
            self._writer = None

    def check(self) -> None:
        """Connect once, and bring the tables up to date.

        Raises:
            StoreUnavailable: as ``writer`` does.
        """
        self._prepared().close()

    def state(self) -> SchemaState:
        """Return the schema of the tables; number 0 if there are none. Nothing is changed.

        Raises:
            StoreUnavailable: the database cannot be read, or a later version changed its tables.
        """
        with closing(self.connect(_READING.format(timeout=_STATEMENT))) as connection:
            try:
                return state_of(connection, self.where)
            except psycopg.Error as error:
                raise self.unavailable("cannot read", error) from error

    def migrate(self) -> SchemaState:
        """Bring the tables to this program's schema, even where earlier programs cannot use that.

        Returns:
            The schema that was there before.

        Raises:
            StoreUnavailable: the database cannot be written, or a later version changed its tables.
        """
        with closing(self.connect(_WRITING.format(timeout=0))) as connection:
            try:
                return prepare(connection, self.where, SCHEMA, allow_break=True)
            except psycopg.Error as error:
                raise self.unavailable("cannot migrate", error) from error

    def _prepared(self) -> Connection:
        connection = self.connect(_WRITING.format(timeout=_STATEMENT))
        try:
            prepare(connection, self.where)
        except psycopg.Error as error:
            connection.close()
            raise self.unavailable("cannot make the tables of", error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def unavailable(self, doing: str, error: Exception) -> StoreUnavailable:
        """Return the error for a message of the server or of the network."""
        said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        if self._password:
            said = said.replace(self._password, "…")
        return StoreUnavailable(
            f"{doing} the ledger in PostgreSQL at {self.where}: {said or type(error).__name__}",
            hint="see [ledger] url and password; pointsman router doctor checks them",
        )


class Reader:
    """Reads over a separate connection, one thread at a time.

    Args:
        database: Of the ledger.
        flush: Writes what waits.
        seconds: For which one statement may run.
    """

    def __init__(
        self,
        database: Database,
        flush: Callable[[], object],
        *,
        seconds: float = _STATEMENT / 1_000,
    ) -> None:
        self._database: Final = database
        self._flush: Final = flush
        self._seconds: Final = seconds
        self._lock: Final = threading.Lock()
        self._connection: PatientConnection | None = None
        self._failed = _NEVER

    def read(
        self, query: str, values: Values = (), *, flush: bool = True, patience: float | None = None
    ) -> Rows:
        """Return the rows of a query, which sees everything appended before; no rows without tables.

        Args:
            query: SQL.
            values: Its parameters.
            flush: Whether entries appended before are written first.
            patience: Seconds to wait for a server that answers nothing; default: as long as a statement runs.

        Raises:
            StoreUnavailable: the database cannot be read, or it took too long.
        """
        if flush:
            self._flush()
        patience = self._seconds + _GRACE if patience is None else patience
        with self._lock:
            at, failure = self._failed
            if time.monotonic() - at < PAUSE:
                raise StoreUnavailable(failure.message, hint=failure.hint)
            try:
                return self._read(query, values, patience)
            except StoreUnavailable as error:
                self._failed = time.monotonic(), error
                raise

    def resume(self) -> None:
        """Ask again at once: the database has been reached."""
        self._failed = _NEVER

    def close(self) -> None:
        """Release the connection."""
        with self._lock:
            self._close()

    def _read(self, query: str, values: Values, patience: float) -> Rows:
        is_new = self._connection is None
        try:
            connection = self._opened()
            if connection is None:
                return []
            connection.patience = patience
            return connection.execute(query, values, binary=True).fetchall()
        except Silent as error:
            self._close()
            raise self._database.unavailable("cannot read", error) from None
        except errors.QueryCanceled:
            raise StoreUnavailable(
                f"reading the ledger in PostgreSQL took longer than {self._seconds:g} s",
                hint="search a shorter time, or by less",
            ) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self._close()
            if is_new:
                raise self._database.unavailable("cannot read", error) from error
        except psycopg.Error as error:
            self._close()
            raise self._database.unavailable("cannot read", error) from error
        # Over a new connection: the server may have been started again.
        return self._read(query, values, patience)

    def _opened(self) -> PatientConnection | None:
        """Connect; None if there are no tables."""
        if self._connection is None:
            reading = _READING.format(timeout=int(self._seconds * 1_000))
            connection = self._database.connect(reading)
            try:
                made = is_made(connection, self._database.where)
            except BaseException:
                connection.close()
                raise
            if not made:
                connection.close()
                return None
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class Silent(psycopg.OperationalError):
    """The server holds the connection open and answers nothing."""


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits no longer than its patience, in seconds.

    The server enforces the limits of a statement. A server that is frozen, or on a frozen host, does not.
    """

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **more: Any) -> T:
        """Wait for a step of the protocol."""
        found: T = super().wait(_until(gen, self.patience), *args, **more)
        return found


def _until(gen: Generator[Any, Any, T], patience: float) -> Generator[Any, Any, T]:
    deadline = time.monotonic() + patience
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:  # psycopg looks every tenth of a second
                raise Silent(f"nothing was answered for {patience:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer


def copy_in(connection: Connection, table: str, columns: dict[str, str], rows: Sequence[Row]) -> None:
    """Append rows by a binary COPY."""
    if not rows:
        return
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table), names)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
