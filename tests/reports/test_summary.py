"""Figures of the console and of the command line come from one place."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.guidance import Arm, Firing, GuidanceDecision, Rung
from pointsman.reports.savings import SavingsCalculator
from pointsman.reports.usage import all_totals, now, priced, usage_by_model
from pointsman.stores.ledger import DecisionFilter, Ledger, MemoryLedger, Retention, SqliteLedger
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.vocabulary import Mode, ModelSpec

MODELS = {
    name: ModelSpec(name, "main", name, input_per_million=price, output_per_million=price)
    for name, price in (("small", 1e6), ("large", 1e7))
} | {"free": ModelSpec("free", "main", "free")}

CONFIG = """
[upstreams.main]
base_url = "http://localhost:1/v1"
[models.small]
upstream = "main"
id = "small"
input_per_million = 1000000.0
output_per_million = 1000000.0
[models.large]
upstream = "main"
id = "large"
input_per_million = 10000000.0
output_per_million = 10000000.0
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
"""


def filled(ledger: Ledger) -> Ledger:
    firing = Firing(1, 0, Rung.HINT, "loop-breaker", "doom-loop", 0.9, "twice", delivered=True)
    for number, model in enumerate(("small", "large", "free", "small")):
        name = f"d{number}"
        made = a_decision(name, at=60.0 * number)
        if number == 3:
            made = replace(made, guidance=GuidanceDecision(mode=Mode.ON, arm=Arm.TREATED, firing=firing))
        ledger.append(made)
        if number == 1:
            ledger.append(an_answer(name, model="small", status=500, error="status"))
        ledger.append(an_answer(name, model=model, number=2, cached_tokens=0))
    ledger.append(a_decision("waiting", at=200.0))
    ledger.flush()
    return ledger


def test_now() -> None:
    ledger = filled(MemoryLedger())
    found = now(ledger, MODELS, 200.0, period=150.0)
    assert (found.since, found.requests, found.is_all) == (50.0, 4, True)
    assert (found.stuck, found.failed, found.waiting) == (1, 0, 1)
    assert [(each.at, each.requests, each.input, each.cost, each.unpriced) for each in found.minutes] == [
        (60.0, 1, 100, 1_210.0, 0),
        (120.0, 1, 100, 0.0, 1),
        (180.0, 2, 100, 110.0, 0),
    ]
    assert now(MemoryLedger(), MODELS, 200.0).minutes == ()


def test_rows_have_their_costs() -> None:
    rows = priced(filled(MemoryLedger()).search(DecisionFilter()).rows, MODELS)
    assert {row.id: row.cost for row in rows} == {
        "d0": 110.0,
        "d1": 1_210.0,  # with the attempt that failed
        "d2": None,
        "d3": 110.0,
        "waiting": None,
    }


def test_usage_by_model() -> None:
    found = {each.model: each for each in usage_by_model(filled(MemoryLedger()).totals(), MODELS)}
    assert {name: (each.turns, each.input, each.cost) for name, each in found.items()} == {
        "": (1, 0, None),
        "free": (1, 100, None),
        "large": (1, 100, 1_100.0),
        "small": (2, 200, 220.0),
    }
    assert found["small"].stuck == 1


@pytest.mark.parametrize("upgraded", [False, True])
def test_the_command_line_prints_what_a_page_shows(
    tmp_path: Path, upgraded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the records too, where a ledger of an earlier version has no sums yet."""
    path, config = tmp_path / "ledger.sqlite", tmp_path / "pointsman.toml"
    config.write_text(CONFIG)
    ledger = SqliteLedger(path, retention=Retention(None, None))
    filled(ledger)
    page = SavingsCalculator(MODELS, "large").total(ledger.totals())
    days = SavingsCalculator(MODELS, "large").by(ledger.totals(), "day")
    ledger.close()
    if upgraded:
        unsummarized: Callable[[SqliteLedger], int] = lambda _: 1  # noqa: E731
        monkeypatch.setattr(SqliteLedger, "unsummarized", unsummarized)
    command = ["report", "savings", "--baseline", "large", "--ledger", str(path), "--config", str(config)]
    printed = CliRunner().invoke(app, [*command, "--json"])
    assert printed.exit_code == 0, printed.output
    shown = msgspec.json.decode(printed.stdout)
    assert {name: shown[name] for name in page.to_json()} == msgspec.to_builtins(page.to_json())
    assert (page.turns, page.counted, page.no_price, page.no_answer) == (5, 3, 1, 1)
    assert page.net == pytest.approx(sum(each.net for each in days.values()))


def test_a_ledger_with_sums_is_not_read_through() -> None:
    ledger = filled(MemoryLedger())
    assert all_totals(ledger) == ledger.totals()
