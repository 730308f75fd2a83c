"""Every ledger passes the same checks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pointsman.stores.ledger import Ledger, MemoryLedger, SqliteLedger
from pointsman.testing import ledger_checks

LEDGERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda directory: SqliteLedger(directory / "made" / "ledger.sqlite"),
}


@pytest.fixture(params=LEDGERS)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    opened = LEDGERS[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("check", list(ledger_checks()), ids=lambda check: check.__name__.strip("_"))
def test_contract(check: Callable[[Ledger], None], ledger: Ledger) -> None:
    check(ledger)
