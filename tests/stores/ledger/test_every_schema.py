"""A ledger of every schema since commit 2cff89a is upgraded, and says what it said before.

``data/ledger_2cff89a.sqlite`` has schema 3. Each later number is that file, brought so far by the migrations
of the programs that had it: migrations are appended and never changed.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.stores.ledger import SqliteLedger
from pointsman.stores.ledger._retention import Retention
from pointsman.stores.ledger._schema import MIGRATIONS
from pointsman.testing.ledger import a_decision

WRITTEN = Path(__file__).parent / "data" / "ledger_2cff89a.sqlite"
FIRST = 3
FOREVER = Retention(keep_days=None)


def of_schema(number: int, folder: Path) -> Path:
    """The ledger as a program of this schema had left it."""
    file = Path(shutil.copy(WRITTEN, folder / f"{number}.sqlite"))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FIRST,)
        for statement in (each for migration in MIGRATIONS[FIRST:number] for each in migration):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    return file


def told(file: Path) -> list[object]:
    """What the ledger of a file says: every decision, and the sums of all time."""
    with closing(SqliteLedger(file, retention=FOREVER)) as ledger:
        return [ledger.count(), list(ledger.decisions(limit=None)), ledger.totals(since=0.0)]


@pytest.mark.parametrize("number", range(FIRST, len(MIGRATIONS) + 1))
def test_a_ledger_of_every_schema_is_upgraded(number: int, tmp_path: Path) -> None:
    (tmp_path / "straight").mkdir()
    file, straight = of_schema(number, tmp_path), of_schema(FIRST, tmp_path / "straight")
    before = CliRunner().invoke(app, ["ledger", "migrate", "--check", "--ledger", str(file)])
    assert before.exit_code == (0 if number == len(MIGRATIONS) else 1), before.output
    migrated = CliRunner().invoke(app, ["ledger", "migrate", "--ledger", str(file)])
    assert migrated.exit_code == 0, migrated.output
    found = told(file)
    assert found[0] == 24
    assert found == told(straight)
    with closing(SqliteLedger(file, retention=FOREVER)) as ledger:
        ledger.append(a_decision("of-today"))
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    with closing(SqliteLedger(file, retention=FOREVER)) as ledger:
        assert ledger.count() == 25
