"""The tables of a SQLite ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pointsman.stores._sqlite_file import MemoryFile, SqliteFile
from pointsman.stores.ledger._hour_values import MIGRATION as HOUR_VALUES
from pointsman.stores.ledger._summaries import MIGRATION
from pointsman.stores.ledger._sums import MIGRATION as SUMS

__all__ = ["APPLICATION", "MIGRATIONS", "READABLE_FROM", "ledger_file", "ledger_in_memory"]

#: SQLite's field that identifies the program of a file: "Ptsm".
APPLICATION: Final = 0x5074736D
#: Schema of the earliest program that may use what the migrations make: the last that does more than add to
#: the one before it. Later ones make tables, indexes and columns with a default (docs/how-to/upgrade.md).
READABLE_FROM: Final = 15
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE decisions (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL,
            arrived_at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX decisions_by_time ON decisions (arrived_at, number)",
        "CREATE INDEX decisions_by_session ON decisions (session, arrived_at, number)",
        """CREATE TABLE attempts (
            decision TEXT NOT NULL,
            number INTEGER NOT NULL,
            at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX attempts_of ON attempts (decision, number)",
        "CREATE TABLE outcomes (decision TEXT NOT NULL, at REAL, body BLOB NOT NULL)",
        "CREATE INDEX outcomes_of ON outcomes (decision)",
        "CREATE TABLE texts (decision TEXT PRIMARY KEY, at REAL, text TEXT NOT NULL)",
        """CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN
            DELETE FROM attempts WHERE decision = old.id;
            DELETE FROM outcomes WHERE decision = old.id;
            DELETE FROM texts WHERE decision = old.id;
        END""",
    ),
    (
        "CREATE TABLE shadows (decision TEXT NOT NULL, at REAL, body BLOB NOT NULL)",
        "CREATE INDEX shadows_of ON shadows (decision)",
        "DROP TRIGGER forget",
        """CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN
            DELETE FROM attempts WHERE decision = old.id;
            DELETE FROM outcomes WHERE decision = old.id;
            DELETE FROM texts WHERE decision = old.id;
            DELETE FROM shadows WHERE decision = old.id;
        END""",
    ),
    (
        # One index serves time and session. Sessions come in no order: an index that begins with them writes
        # a page of its own for each row, a third of the cost of all; this one is written at its end alone.
        "DROP INDEX decisions_by_session",
        "DROP INDEX decisions_by_time",
        "CREATE INDEX decisions_by_time ON decisions (arrived_at, number, session)",
    ),
    (
        # Outcomes come from callers and have a share of the file: their bytes are known without a scan.
        "CREATE TABLE totals (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
        # A row's id is in the index too, and both have headers.
        """INSERT INTO totals
            SELECT 'outcomes', coalesce(sum(length(body) + 2 * length(decision) + 40), 0) FROM outcomes""",
        """CREATE TRIGGER outcome_added AFTER INSERT ON outcomes BEGIN
            UPDATE totals SET bytes = bytes + length(new.body) + 2 * length(new.decision) + 40
            WHERE name = 'outcomes';
        END""",
        """CREATE TRIGGER outcome_removed AFTER DELETE ON outcomes BEGIN
            UPDATE totals SET bytes = bytes - length(old.body) - 2 * length(old.decision) - 40
            WHERE name = 'outcomes';
        END""",
    ),
    (
        # What shape a decision's body has. The default is that of the rows there are: none is rewritten, so
        # this takes no longer for a million of them.
        "ALTER TABLE decisions ADD COLUMN shape INTEGER NOT NULL DEFAULT 1",
    ),
    ("CREATE TABLE passed (id TEXT NOT NULL, at REAL, body BLOB NOT NULL)",),
    (
        # An agent takes seconds for a step: two indexes cost nothing that anybody waits for.
        """CREATE TABLE runs (
            run TEXT NOT NULL,
            number INTEGER NOT NULL,
            session TEXT NOT NULL,
            at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX runs_by_run ON runs (run, number)",
        "CREATE INDEX runs_by_session ON runs (session)",
    ),
    (
        # A decision, and an object of an upstream, belong to their caller. Earlier rows have no owner.
        "ALTER TABLE decisions ADD COLUMN caller TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE owners (object TEXT NOT NULL UNIQUE, caller TEXT NOT NULL, at REAL)",
    ),
    MIGRATION,
    # A session's rows lie apart: found in order of time they are looked for among all rows, which takes
    # seconds where the file is not in memory. It costs the writer some 4 µs a row.
    ("CREATE INDEX summaries_by_session ON summaries (session)",),
    (*SUMS, *HOUR_VALUES),
    (
        """CREATE TABLE policies (
            version TEXT NOT NULL PRIMARY KEY,
            text TEXT NOT NULL DEFAULT '',
            first REAL,
            last REAL,
            decisions INTEGER NOT NULL DEFAULT 0
        )""",
    ),
    # Which program may use the file (`schema_version`), and notes of the ledger about itself.
    ("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",),
    # Project and program charged for a decision's tokens. Unknown in earlier rows; none is rewritten.
    tuple(
        f"ALTER TABLE summaries ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
        for name in ("project", "project_name", "client")
    ),
    # A break: bodies of decisions are compressed (`_decoders`). The rows there are stay as they are.
    (),
)


def ledger_file(path: Path) -> SqliteFile:
    """Return the file of a ledger."""
    return SqliteFile(
        path,
        kind="ledger",
        application=APPLICATION,
        migrations=MIGRATIONS,
        readable_from=READABLE_FROM,
    )


def ledger_in_memory() -> MemoryFile:
    """Return an empty database in memory with the tables of a ledger."""
    return MemoryFile(kind="ledger", application=APPLICATION, migrations=MIGRATIONS)
