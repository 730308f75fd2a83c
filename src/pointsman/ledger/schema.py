"""The tables of a SQLite ledger, and how an older file becomes a current one."""

from __future__ import annotations

import sqlite3
from typing import Final

from pointsman.errors import StoreUnavailable

__all__ = ["APPLICATION", "VERSION", "prepare"]

#: SQLite's field for telling whose file this is: "Ptsm".
APPLICATION: Final = 0x5074736D

#: ``MIGRATIONS[n]`` turns a file of version n into one of version n + 1. Never change one that was released.
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
)

VERSION: Final = len(MIGRATIONS)


def prepare(connection: sqlite3.Connection) -> None:
    """Make a file a ledger of the current version.

    Raises:
        StoreUnavailable: the file belongs to another program, or to a newer version of this one.
        sqlite3.Error: it cannot be written, or is no database.
    """
    # Must stand before the first table; lets removed entries give their space back.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL safe against a crash of this process
    connection.execute("BEGIN IMMEDIATE")  # two gateways may start at the same moment
    with connection:
        version = _check(connection)
        for statement in (step for migration in MIGRATIONS[version:] for step in migration):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _check(connection: sqlite3.Connection) -> int:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise StoreUnavailable("the file is a database of another program", hint="name another [ledger] path")
    if version > VERSION:
        raise StoreUnavailable(
            f"the ledger has version {version}; this program knows versions up to {VERSION}",
            hint="upgrade pointsman, or name another [ledger] path",
        )
    return int(version)
