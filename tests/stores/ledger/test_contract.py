"""Every ledger passes the same checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pointsman.stores.ledger import Ledger, MemoryLedger, SqliteLedger
from pointsman.stores.ledger.lines import JsonLinesLedger
from pointsman.testing import ledger_checks

if TYPE_CHECKING:
    from support.engines import Postgres


def _postgres(request: pytest.FixtureRequest) -> Ledger:
    from pointsman.stores.ledger.postgres import PostgresLedger

    server: Postgres = request.getfixturevalue("postgres")
    ledger = PostgresLedger(server.database())
    ledger.check()  # the tables: no reading has to wait for them
    return ledger


def _sqlite(request: pytest.FixtureRequest) -> Ledger:
    directory: Path = request.getfixturevalue("tmp_path")
    return SqliteLedger(directory / "made" / "ledger.sqlite")


LEDGERS: dict[str, Callable[[pytest.FixtureRequest], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": _sqlite,
    "lines": lambda request: JsonLinesLedger(request.getfixturevalue("tmp_path") / "made" / "ledger.jsonl"),
    "postgres": _postgres,
}


@pytest.fixture(params=LEDGERS)
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    opened = LEDGERS[request.param](request)
    yield opened
    opened.close()


@pytest.mark.parametrize("check", list(ledger_checks()), ids=lambda check: check.__name__.strip("_"))
def test_contract(check: Callable[[Ledger], None], ledger: Ledger) -> None:
    check(ledger)
