"""Every ledger passes the same checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pointsman.capabilities import CapabilityDecision, Strategy
from pointsman.stores.ledger import DecisionFilter, Ledger, MemoryLedger, SqliteLedger
from pointsman.stores.ledger.lines import JsonLinesLedger
from pointsman.testing import a_decision, ledger_checks

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


def test_a_decision_whose_summary_fails_is_in_the_list_of_its_session(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ArithmeticError("a fault in a summary")

    monkeypatch.setattr("pointsman.stores.ledger.turns._marks", broken)
    chosen = CapabilityDecision(strategy=Strategy.LOCAL, selected=("a_tool",))
    for name, capabilities in (("a", None), ("b", chosen), ("c", None)):
        made = a_decision(name, at=float(ord(name)), session="s")
        ledger.append(replace(made, capabilities=capabilities))
    assert [each.id for each in ledger.decisions(session="s")] == ["c", "b", "a"]
    assert [row.id for row in ledger.session("s")] == ["a", "b", "c"]
    assert [row.id for row in ledger.search(DecisionFilter(session="s")).rows] == ["c", "b", "a"]
    assert sum(each.turns for each in ledger.totals().turns) == 3
    assert ledger.lost == 0
