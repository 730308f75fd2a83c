"""``fit kinds``, ``report kinds`` and the column of ``eval tiers``."""

import json
from contextlib import closing
from pathlib import Path

from typer.testing import CliRunner

from pointsman import Pointsman
from pointsman.cli import app
from pointsman.stores.ledger import SqliteLedger
from support.outcomes import made_up


def outcomes(tmp_path: Path) -> Path:
    data = tmp_path / "outcomes.jsonl"
    rows = [{"prompt": row.prompt, "weak": row.weak, "strong": row.strong} for row in made_up(60)]
    data.write_text("\n".join(map(json.dumps, rows)))
    return data


def test_kinds_are_fitted_and_measured(tmp_path: Path) -> None:
    data, file = outcomes(tmp_path), tmp_path / "kinds.json"
    said = CliRunner().invoke(app, ["fit", "kinds", "--data", str(data), "--out", str(file), "--count", "4"])
    assert said.stdout.splitlines()[-1].startswith("4 kinds of 60 prompts")
    asked = ["eval", "tiers", "--data", str(data), "--json"]
    shown = CliRunner().invoke(app, [*asked, "--kinds", str(file)])
    assert "made from this file" in shown.stderr
    rankers = [row["ranker"] for row in json.loads(shown.stdout)["rows"]]
    assert rankers[-2:] == ["kinds", "kinds + default"]
    without = json.loads(CliRunner().invoke(app, [*asked, "--kinds", "off"]).stdout)
    assert "kinds" not in [row["ranker"] for row in without["rows"]]


def test_an_empty_ledger_has_no_kinds(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    found = CliRunner().invoke(app, ["report", "kinds", "--ledger", str(ledger)])
    assert found.exception is not None or "near no kind" in found.stdout


def test_a_ledger_without_kinds_says_where_they_are_switched_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        Pointsman(ledger=ledger).decide("Write a poem about rivers.", session="s")
    lines = CliRunner().invoke(app, ["report", "kinds", "--ledger", str(path)]).stdout.splitlines()
    assert lines[0] == "1 user message near no kind"
    assert lines[1].startswith("kinds under [tiers] finds them")
