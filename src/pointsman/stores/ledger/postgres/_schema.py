"""The tables of a ledger in PostgreSQL, in a separate schema, and their partitions by day (UTC).

Migrations run under an advisory lock, so that gateways that start together do not race.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import psycopg

from pointsman.errors import StoreUnavailable
from pointsman.remembering import grouped
from pointsman.stores.ledger.reading import FLAGS, WRITTEN
from pointsman.stores.schema_version import Schema, SchemaState, meta_of
from pointsman.vocabulary import DAY

log = logging.getLogger(__name__)

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

#: Key of the advisory lock: "Ptsm". With another number, that of other work that one does at a time.
LOCK: Final = 0x5074736D
#: Seconds since the epoch of the last day that has a partition: the end of the year 2199.
LATEST: Final = 7_258_118_399.0
#: Most of a column of four bytes.
_MOST: Final = 2**31 - 1

#: Tables with a partition for each day.
PARTITIONED: Final = ("decisions", "entries", "passed", "runs", "summaries")
_PARTITION: Final = re.compile(rf"({'|'.join(PARTITIONED)})_(\d{{8}})")

#: Entry *n* turns a database of version n into one of version n + 1. Never change one that was released.
#: Text is compared by its bytes: sessions are found by how their names begin.
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE SEQUENCE numbers CACHE 100",
        """CREATE TABLE decisions (
            number bigint NOT NULL DEFAULT nextval('pointsman.numbers'), at double precision NOT NULL,
            id text COLLATE "C" NOT NULL, session text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL,
            shape smallint NOT NULL, body bytea NOT NULL
        ) PARTITION BY RANGE (at)""",
        "CREATE UNIQUE INDEX decisions_by_id ON decisions (id, at)",
        "CREATE INDEX decisions_by_time ON decisions (at, number)",
        "CREATE INDEX decisions_by_session ON decisions (session, at, number)",
        # Attempts, outcomes, shadows and texts, on the day of their decision where it is known.
        """CREATE TABLE entries (
            number bigint NOT NULL DEFAULT nextval('pointsman.numbers'), at double precision NOT NULL,
            decision text COLLATE "C" NOT NULL, kind smallint NOT NULL, step integer NOT NULL,
            body bytea NOT NULL
        ) PARTITION BY RANGE (at)""",
        "CREATE INDEX entries_of ON entries (decision)",
        """CREATE TABLE passed (
            number bigint NOT NULL DEFAULT nextval('pointsman.numbers'), at double precision NOT NULL,
            id text COLLATE "C" NOT NULL, body bytea NOT NULL
        ) PARTITION BY RANGE (at)""",
        "CREATE INDEX passed_by_number ON passed (number)",
        """CREATE TABLE runs (
            number bigint NOT NULL DEFAULT nextval('pointsman.numbers'), at double precision NOT NULL,
            run text COLLATE "C" NOT NULL, step bigint NOT NULL, session text COLLATE "C" NOT NULL,
            body bytea NOT NULL
        ) PARTITION BY RANGE (at)""",
        "CREATE INDEX runs_by_run ON runs (run)",
        "CREATE INDEX runs_by_session ON runs (session)",
        """CREATE TABLE owners (
            object text COLLATE "C" PRIMARY KEY, caller text COLLATE "C" NOT NULL,
            at double precision NOT NULL
        )""",
        """CREATE TABLE summaries (
            at double precision NOT NULL, id text COLLATE "C" NOT NULL, hour bigint NOT NULL,
            session text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL,
            role text COLLATE "C" NOT NULL, tier text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL,
            result smallint NOT NULL, status integer NOT NULL, attempts integer NOT NULL,
            domains text[] NOT NULL, signals text[] NOT NULL, stuck boolean NOT NULL,
            downgraded boolean NOT NULL, abstained boolean NOT NULL, label text COLLATE "C" NOT NULL,
            score double precision, labelled boolean NOT NULL, input bigint NOT NULL, cached bigint NOT NULL,
            output bigint NOT NULL, gap smallint NOT NULL, reused bigint NOT NULL,
            own text COLLATE "C" NOT NULL, switched boolean NOT NULL, asked boolean NOT NULL,
            trials integer NOT NULL, added bigint NOT NULL, judging double precision NOT NULL,
            parts text NOT NULL, beside text COLLATE "C" NOT NULL, before text NOT NULL,
            last_model text COLLATE "C" NOT NULL, tried text COLLATE "C", PRIMARY KEY (at, id)
        ) PARTITION BY RANGE (at)""",
        "CREATE INDEX summaries_by_session ON summaries (session, at)",
        *(f"CREATE INDEX summaries_{flag} ON summaries (at, id) WHERE {flag}" for flag in FLAGS),
        # Sums of hours that are over, by what their turns have in common; an hour in `dirty` has changed.
        """CREATE TABLE groups (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tier text NOT NULL, model text NOT NULL,
            result smallint NOT NULL, own text NOT NULL, gap smallint NOT NULL, asked boolean NOT NULL,
            beside text NOT NULL, kind text NOT NULL, part_model text NOT NULL,
            UNIQUE (tier, model, result, own, gap, asked, beside, kind, part_model)
        )""",
        """CREATE TABLE hours (
            hour bigint NOT NULL, grp integer NOT NULL, turns bigint NOT NULL, input bigint NOT NULL,
            cached bigint NOT NULL, output bigint NOT NULL, reused bigint NOT NULL, assumed bigint NOT NULL,
            switches bigint NOT NULL, trials bigint NOT NULL, added bigint NOT NULL,
            judging double precision NOT NULL, stuck bigint NOT NULL, downgraded bigint NOT NULL,
            abstained bigint NOT NULL, PRIMARY KEY (hour, grp)
        )""",
        "CREATE TABLE dirty (hour bigint PRIMARY KEY)",
        # The last batch of each process that writes: whether it was committed when the connection was lost.
        """CREATE TABLE writers (
            id text PRIMARY KEY, batch bigint NOT NULL, entries integer NOT NULL, at double precision NOT NULL
        )""",
    ),
    (
        """CREATE TABLE policies (
            version text PRIMARY KEY, text text NOT NULL DEFAULT '', first double precision,
            last double precision, decisions bigint NOT NULL DEFAULT 0
        )""",
    ),
    # Sums of the hours of a day (UTC), valid while none of these is `dirty`.
    ("CREATE TABLE days (LIKE hours INCLUDING ALL)",),
    # Which program may use the tables (`schema_version`), and notes of the ledger about itself.
    ("CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL)",),
    # Project and program charged for a decision's tokens. Unknown in earlier rows; none is rewritten.
    tuple(
        f"""ALTER TABLE summaries ADD COLUMN {name} text COLLATE "C" NOT NULL DEFAULT ''"""
        for name in ("project", "project_name", "client")
    ),
    # Values that occur in an hour that was added up (`KINDS`): a search looks only into hours that have them.
    (
        """CREATE TABLE hour_values (
            kind smallint NOT NULL, value text COLLATE "C" NOT NULL, hour bigint NOT NULL,
            PRIMARY KEY (kind, value, hour)
        )""",
        "CREATE INDEX hour_values_by_hour ON hour_values (hour)",
    ),
    # Whether the hour's values are those of its sums: a program of an earlier schema adds it up without them.
    (
        "ALTER TABLE hours ADD COLUMN has_values boolean NOT NULL DEFAULT false",
        "CREATE INDEX hours_without_values ON hours (hour) WHERE NOT has_values",
    ),
    # A break: tokens written to a provider's cache. 0 in earlier rows; none is rewritten. Earlier programs
    # add hours up without them, and write rows again without them.
    tuple(
        f"ALTER TABLE {table} ADD COLUMN {name} bigint NOT NULL DEFAULT 0"
        for table, names in (("summaries", WRITTEN[:2]), ("hours", WRITTEN), ("days", WRITTEN))
        for name in names
    ),
)
#: The earliest programs that may use what the migrations make are those of the last that does more than add
#: to the one before it (docs/how-to/upgrade.md).
SCHEMA: Final = Schema(MIGRATIONS, readable_from=8)

KEEP_META: Final = (
    "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


def is_made(connection: Connection, where: str) -> bool:
    """Whether there are tables; what later versions added is added where an earlier version made them.

    Raises:
        StoreUnavailable: as ``prepare``.
    """
    found = state_of(connection, where)
    if 0 < found.number < SCHEMA.number:
        connection.execute("SET default_transaction_read_only = off")
        prepare(connection, where)
        connection.execute("SET default_transaction_read_only = on")
    return found.number > 0


def prepare(
    connection: Connection, where: str, schema: Schema = SCHEMA, *, allow_break: bool = False
) -> SchemaState:
    """Make the tables, or add to them what later versions need; return the schema that was there before.

    Args:
        connection: To write with.
        where: The database, for messages.
        schema: That the tables shall have.
        allow_break: Whether they may become such that earlier programs cannot use them.

    Raises:
        StoreUnavailable: a later version of this program changed them, or this one would have to.
    """
    found = state_of(connection, where, schema)
    if found.number == schema.number:
        return found
    if found.number > schema.number:
        log.warning(
            "the ledger in PostgreSQL at %s has schema %d%s; this program continues with schema %d",
            *(where, found.number, found.owner, schema.number),
        )
        return found
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK,))
        if connection.execute("SELECT to_regnamespace('pointsman')").fetchone() == (None,):
            connection.execute("CREATE SCHEMA pointsman")  # refused to who may not, also where there is one
        connection.execute("CREATE TABLE IF NOT EXISTS version (number integer NOT NULL)")
        found = state_of(connection, where, schema)  # another gateway may have been faster
        if schema.is_break(found) and not allow_break:
            raise StoreUnavailable(
                f"the ledger in PostgreSQL at {where} has schema {found.number}{found.owner}; this program "
                f"has schema {schema.number}, which programs before schema {schema.readable_from} cannot use",
                hint="when no earlier version runs any more: pointsman ledger migrate",
            )
        if found.number < schema.number:
            _migrate(connection, schema, found)
    return found


def _migrate(connection: Connection, schema: Schema, found: SchemaState) -> None:
    for migration in schema.pending(found):
        for statement in migration:
            connection.execute(statement)
    connection.execute("DELETE FROM version")
    connection.execute("INSERT INTO version (number) VALUES (%s)", (schema.number,))
    for row in meta_of(schema):
        connection.execute(KEEP_META, row)


def state_of(connection: Connection, where: str, schema: Schema = SCHEMA) -> SchemaState:
    """Return the schema of the existing tables; number 0 if there are none.

    Raises:
        StoreUnavailable: a later version of this program changed them so that it cannot use them.
    """
    if connection.execute("SELECT to_regclass('pointsman.version')").fetchone() == (None,):
        return SchemaState(0, 0)
    found = connection.execute("SELECT number FROM pointsman.version").fetchone()
    meta: dict[str, str] = {}
    if connection.execute("SELECT to_regclass('pointsman.meta')").fetchone() != (None,):
        meta = dict(connection.execute("SELECT name, value FROM pointsman.meta").fetchall())
    state = SchemaState.found(int(found[0]) if found else 0, meta)
    schema.check(state, f"the ledger in PostgreSQL at {where}")
    return state


def clean(text: str) -> str:
    """Return a text as PostgreSQL can hold it: without NUL, and without characters that have no UTF-8."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", "\ufffd") if "\0" in text else text


def most(count: int) -> int:
    """Return a count that a column of four bytes can hold."""
    return min(count, _MOST)


def stored_at(seconds: float) -> float:
    """A time that has a partition."""
    return max(0.0, min(seconds, LATEST)) if seconds == seconds else 0.0


def partitions_of(connection: Connection) -> dict[int, list[tuple[str, int]]]:
    """The partitions of each day, since the epoch: their names and bytes with indexes."""
    query = (
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
        "WHERE relispartition AND relkind = 'r' AND relnamespace = 'pointsman'::regnamespace"
    )
    return grouped(
        (int(datetime.strptime(matched[2], "%Y%m%d").replace(tzinfo=UTC).timestamp() // DAY), (name, size))
        for name, size in connection.execute(query)
        if (matched := _PARTITION.fullmatch(name))
    )


class Partitions:
    """Makes the partitions of days that are written."""

    def __init__(self) -> None:
        self._days: Final[set[int]] = set()

    def forget(self) -> None:
        """Know of none: one may have been removed."""
        self._days.clear()

    def ensure(self, connection: Connection, days: Iterable[int]) -> None:
        """Make those of days since the epoch that are not there."""
        wanted = set(days) - self._days
        if not wanted:
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 1)", (LOCK,))
            known = {name for each in partitions_of(connection).values() for name, _ in each}
            for day in sorted(wanted):
                date = datetime.fromtimestamp(day * DAY, UTC).strftime("%Y%m%d")
                for table in PARTITIONED:
                    if (name := f"{table}_{date}") not in known:
                        _attach(connection, table, name, day)
        self._days.update(wanted)


def _attach(connection: Connection, table: str, name: str, day: int) -> None:
    """Attach a partition; one made in place would wait for all readers, and block them."""
    connection.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS)")
    bounds = f"FROM ({day * DAY}) TO ({(day + 1) * DAY})"
    connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}")
