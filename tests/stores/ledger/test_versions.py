"""Two versions of the program beside each other on one ledger: what rolls, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import Config
from pointsman.config.shapes import LedgerSpec, demo_config
from pointsman.errors import StoreUnavailable
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import SqliteLedger
from pointsman.stores.ledger import _schema as sqlite_schema
from pointsman.stores.schema_version import Schema
from pointsman.testing import a_decision, an_attempt
from support.in_process import ask
from support.waiting import until

if TYPE_CHECKING:
    import psycopg

    from support.engines import Postgres

NOW = 1_800_000_000.0
BODY = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}
WITHOUT_META = 12  # the last schema of a file that does not say who may use it
ADDED = (
    "ALTER TABLE decisions ADD COLUMN later integer NOT NULL DEFAULT 0",
    "CREATE TABLE later_table (x text)",
)


def connected(url: str) -> psycopg.Connection[tuple[object, ...]]:
    import psycopg

    return psycopg.connect(url, autocommit=True, options="-c search_path=pointsman")


def migrated(url: str, *, readable_from: int | None = None) -> int:
    """Migrate a database as a program does that has one more migration; return its schema."""
    from pointsman.stores.ledger.postgres._schema import SCHEMA, prepare

    newer = Schema((*SCHEMA.migrations, ADDED), readable_from or SCHEMA.readable_from)
    with closing(connected(url)) as connection:
        prepare(connection, "here", newer, allow_break=True)
    return newer.number


def disconnected(url: str) -> None:
    """End every connection to the database, as a failover does."""
    with closing(connected(url)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )


@pytest.fixture
def served(postgres: Postgres) -> Iterator[tuple[Gateway, str]]:
    """A gateway with a ledger in PostgreSQL, and the address of that."""
    url = postgres.database()

    def config() -> Config:
        return msgspec.structs.replace(demo_config(), ledger=LedgerSpec(url=url))

    with closing(Builder(config)) as builder:
        gateway = Gateway(builder())
        yield gateway, url
        gateway.state.close()


def chats(gateway: Gateway, count: int) -> None:
    for _ in range(count):
        assert asyncio.run(ask(gateway, "/v1/chat/completions", BODY)).status == 200
    gateway.state.runtime.ledger.flush()


def test_an_earlier_gateway_goes_on_beside_a_later_schema_and_after_a_failover(
    served: tuple[Gateway, str], caplog: pytest.LogCaptureFixture
) -> None:
    gateway, url = served
    chats(gateway, 3)
    number = migrated(url)
    chats(gateway, 3)
    disconnected(url)
    chats(gateway, 1)  # finds that its connection is gone
    chats(gateway, 3)
    ledger = gateway.state.runtime.ledger
    until(lambda: not gateway.state.faults)
    assert (ledger.count(), ledger.lost) == (10, 0)
    newest = next(iter(ledger.decisions())).id
    assert asyncio.run(ask(gateway, f"/v1/decisions/{newest}", b"", method="GET")).status == 200
    assert f"has schema {number} (pointsman " in caplog.text
    assert "this program continues with schema" in caplog.text


def test_what_a_break_ends_says_who_and_since_when(served: tuple[Gateway, str]) -> None:
    gateway, url = served
    chats(gateway, 3)
    from pointsman.stores.ledger.postgres._schema import SCHEMA

    number = migrated(url, readable_from=SCHEMA.number + 1)
    disconnected(url)
    chats(gateway, 3)
    until(lambda: "later version" in gateway.state.faults["ledger"])
    fault = gateway.state.faults["ledger"]
    assert re.search(rf"it has schema {number} \(pointsman \S+, \d{{4}}-\d\d-\d\d ", fault)
    assert f"which programs from schema {number} on can use; this program has schema {SCHEMA.number}" in fault
    metrics = asyncio.run(ask(gateway, "/metrics", b"", method="GET")).body.decode()
    waiting = re.search(r"^pointsman_ledger_waiting (\S+)$", metrics, re.MULTILINE)
    assert waiting
    assert float(waiting[1]) >= 6  # decisions and attempts


def as_of_an_earlier_program(url: str) -> None:
    """The tables as schema 3 has them: nothing says who may use them."""
    with closing(connected(url)) as connection:
        connection.execute("UPDATE version SET number = 3")
        from pointsman.stores.ledger.postgres._schema import SCHEMA

        for migration in reversed(SCHEMA.migrations[3:]):
            for statement in migration:
                made = re.match(r"CREATE TABLE (\w+)|ALTER TABLE (\w+) ADD COLUMN (\w+)", statement)
                if made is None:
                    assert statement.startswith("CREATE INDEX ")  # it goes with its table
                    continue
                undo = f"DROP TABLE {made[1]}" if made[1] else f"ALTER TABLE {made[2]} DROP COLUMN {made[3]}"
                connection.execute(undo.encode())


def test_what_ends_earlier_versions_is_left_to_a_command(postgres: Postgres) -> None:
    from pointsman.stores.ledger.postgres import PostgresLedger
    from pointsman.stores.ledger.postgres._schema import SCHEMA

    url = postgres.database()
    with closing(PostgresLedger(url)) as ledger:
        ledger.append(a_decision("kept", at=NOW))
    as_of_an_earlier_program(url)
    with closing(PostgresLedger(url)) as ledger:
        with pytest.raises(StoreUnavailable, match="has schema 3; this program has schema") as refused:
            ledger.check()
        assert "pointsman ledger migrate" in refused.value.hint
    checked = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--json", "--ledger", url])
    assert checked.exit_code == 1
    told = json.loads(checked.output)
    assert (told["schema"], told["of_this_version"], told["is_break"]) == (3, SCHEMA.number, True)
    done = CliRunner().invoke(app, ["ledger", "migrate", "--ledger", url])
    assert done.exit_code == 0, done.output
    assert "earlier versions cannot use it any more" in " ".join(done.output.split())
    again = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--ledger", url])
    assert (again.exit_code, "nothing to migrate" in again.output) == (0, True)
    with closing(PostgresLedger(url)) as ledger:
        assert ledger.get("kept") is not None


def with_a_later_schema(path: Path, monkeypatch: pytest.MonkeyPatch, *, readable_from: int) -> None:
    with monkeypatch.context() as later:
        later.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, ADDED))
        later.setattr(sqlite_schema, "READABLE_FROM", readable_from)
        with closing(SqliteLedger(path)) as ledger:
            ledger.append(a_decision("later", at=NOW))


def test_an_earlier_version_uses_a_file_that_a_later_one_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    old = SqliteLedger(path)
    old.append(a_decision("before", at=NOW))
    old.flush()
    with_a_later_schema(path, monkeypatch, readable_from=sqlite_schema.READABLE_FROM)
    old.append(a_decision("beside", at=NOW + 1))
    old.close()
    with closing(SqliteLedger(path)) as again:
        again.append(a_decision("after", at=NOW + 2))
        again.append(an_attempt("after"))
        assert {each.id for each in again.decisions()} == {"before", "later", "beside", "after"}
        assert again.lost == 0


def test_an_earlier_version_refuses_a_file_that_a_later_one_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    number = len(sqlite_schema.MIGRATIONS) + 1
    with_a_later_schema(path, monkeypatch, readable_from=number)
    with (
        closing(SqliteLedger(path)) as old,
        pytest.raises(StoreUnavailable, match=f"it has schema {number} "),
    ):
        old.count()
    refused = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--ledger", str(path)])
    assert f"from schema {number} on can use" in str(refused.exception)


def test_a_file_is_migrated_by_the_command_and_checked_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        ledger.append(a_decision("d", at=NOW))
    with closing(sqlite3.connect(path)) as older:
        older.execute(f"PRAGMA user_version = {WITHOUT_META}")
        for migration in sqlite_schema.MIGRATIONS[WITHOUT_META:]:
            for statement in migration:
                if made := re.match(r"CREATE (TABLE|TRIGGER) (\w+)", statement):
                    older.execute(f"DROP {made[1]} {made[2]}")
                if made := re.match(r"(ALTER TABLE \w+) ADD (COLUMN \w+)", statement):
                    older.execute(f"{made[1]} DROP {made[2]}")
    before = path.read_bytes()
    checked = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--ledger", str(path)])
    assert (checked.exit_code, path.read_bytes() == before) == (1, True)
    assert CliRunner().invoke(app, ["ledger", "migrate", "--ledger", str(path)]).exit_code == 0
    again = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--ledger", str(path)])
    assert (again.exit_code, "nothing to migrate" in again.output) == (0, True)


def test_postgresql_is_not_shared_with_programs_that_do_not_know_tokens_written(postgres: Postgres) -> None:
    """Such a program adds hours up, and writes rows again, without them."""
    from pointsman.stores.ledger.postgres import PostgresLedger
    from pointsman.stores.ledger.postgres._schema import SCHEMA, prepare

    url = postgres.database()
    written = next(place for place, each in enumerate(SCHEMA.migrations) if "written" in str(each))
    with closing(connected(url)) as connection:
        prepare(connection, "here", Schema(SCHEMA.migrations[:written], 4))
    with closing(PostgresLedger(url)) as ledger:
        with pytest.raises(StoreUnavailable, match="cannot use"):
            ledger.check()
        assert ledger.migrate().number == written
        ledger.check()


_ADDITIVE = re.compile(
    r"CREATE (UNIQUE )?(TABLE|INDEX|SEQUENCE)\b|ALTER TABLE \w+ ADD COLUMN \w+ (?=.*DEFAULT|(?!.*NOT NULL))",
    re.DOTALL,
)


def test_migrations_after_the_last_break_only_add() -> None:
    pytest.importorskip("psycopg")
    from pointsman.stores.ledger.postgres._schema import SCHEMA

    later: Sequence[Sequence[str]] = (
        *SCHEMA.migrations[SCHEMA.readable_from - 1 :],
        *sqlite_schema.MIGRATIONS[sqlite_schema.READABLE_FROM - 1 :],
    )
    assert later
    for statement in (each for migration in later for each in migration):
        assert _ADDITIVE.match(statement), f"raise READABLE_FROM, or only add: {statement}"
    assert _ADDITIVE.match("ALTER TABLE a ADD COLUMN b integer NOT NULL DEFAULT 0")
    assert not _ADDITIVE.match("ALTER TABLE a ADD COLUMN b integer NOT NULL")
    assert not _ADDITIVE.match("DROP TABLE a")
