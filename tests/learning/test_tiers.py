"""``pointsman eval tiers``: rows by contract, by bench, at equal quality, and a router that saw the data."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import PromptOutcome, read_outcomes
from pointsman.learning.fit import fit_tiers
from pointsman.learning.metrics import gap_curve
from pointsman.learning.rankers import by_length
from support.outcomes import made_up
from support.tier_profiles import DATA, needs_data

pytestmark = pytest.mark.slow

ROWS = [
    replace(row, bench=bench)
    for bench in ("one", "two")
    for row in made_up(120, seed=len(bench) + ord(bench[0]))
]
BASELINES = ["random", "length", "seed", "default", "oracle"]


def written(file: Path, rows: list[PromptOutcome]) -> Path:
    lines = [json.dumps({key: value for key, value in asdict(row).items() if key != "group"}) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def run(folder: Path, *arguments: str) -> Result:
    data = written(folder / "data.jsonl", ROWS)
    return CliRunner().invoke(app, ["eval", "tiers", "--data", str(data), *arguments])


def test_rows_have_the_keys_agreed_and_every_baseline(tmp_path: Path) -> None:
    said = json.loads(run(tmp_path, "--json", "--kinds", "off").stdout)
    assert list(said) == ["rows"]
    assert [row["ranker"] for row in said["rows"]] == BASELINES
    for row in said["rows"]:
        assert {"ranker", "n", "apgr", "low", "high", "cpt50", "cpt80"} <= set(row)
        assert row["low"] <= row["apgr"] <= row["high"]
        low, high = row["intervals"]["cpt50"]
        assert low <= row["cpt50"] <= high
        assert row["calibration_error"] is None


def test_every_bench_is_measured_apart(tmp_path: Path) -> None:
    rows = json.loads(run(tmp_path, "--json").stdout)["rows"]
    assert {row["n"] for row in rows} == {240}
    assert {name: part["n"] for name, part in rows[0]["benches"].items()} == {"one": 120, "two": 120}
    shown = run(tmp_path).stdout
    assert [line for line in shown.splitlines() if line in {"all prompts", "one", "two"}] == [
        "all prompts",
        "one",
        "two",
    ]


def test_cost_at_equal_quality_follows_the_share_of_strong_calls(tmp_path: Path) -> None:
    arguments = ("--quality", "0.9", "--price-weak", "1", "--price-strong", "10")
    rows = {
        row["ranker"]: row["equal_quality"]
        for row in json.loads(run(tmp_path, *arguments, "--json").stdout)["rows"]
    }
    for equal in rows.values():
        assert equal["quality"] == 0.9
        assert equal["cost"]["value"] == pytest.approx(0.1 + 0.9 * equal["strong_share"]["value"])
    assert rows["oracle"]["cost"]["high"] < rows["random"]["cost"]["low"]
    assert "cost, of the strong model's" in run(tmp_path, *arguments).stdout
    assert "share of strong calls" in run(tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--price-weak", "1"], "both prices"),
        (["--price-weak", "2", "--price-strong", "2"], "not more expensive"),
    ],
)
def test_prices_that_make_no_sense(tmp_path: Path, arguments: list[str], message: str) -> None:
    error = run(tmp_path, *arguments).exception
    assert isinstance(error, PointsmanError)
    assert message in str(error)


def test_a_head_has_a_calibration_error_and_is_known_by_what_it_was_fitted_on(tmp_path: Path) -> None:
    learned_router = tmp_path / "mine.json"
    learned_router.write_bytes(msgspec.json.encode(fit_tiers(ROWS).learned_router))
    result = run(tmp_path, "--learned-router", str(learned_router), "--json")
    row = json.loads(result.stdout)["rows"][-1]
    assert row["ranker"] == "learned_router"
    for model in ("weak", "strong"):
        error = row["calibration_error"][model]
        assert 0 <= error["low"] <= error["high"] < 0.3
    assert "fitted on these very prompts" in result.stderr
    learned_router.write_bytes(msgspec.json.encode(fit_tiers(ROWS[:200]).learned_router))
    assert (
        "fitted on these very prompts, or on some of them"
        in run(tmp_path, "--learned-router", str(learned_router)).stderr
    )
    learned_router.write_bytes(msgspec.json.encode(fit_tiers(made_up(200, seed=5)).learned_router))
    fresh = run(tmp_path, "--learned-router", str(learned_router))
    assert "fitted on" not in fresh.stderr
    assert "calibration error of the learned_router: weak" in fresh.stdout


def test_without_a_better_model_it_says_so(tmp_path: Path) -> None:
    data = written(tmp_path / "same.jsonl", [PromptOutcome("a", 1.0, 1.0), PromptOutcome("b", 0.0, 0.0)])
    result = CliRunner().invoke(app, ["eval", "tiers", "--data", str(data)])
    assert "not better than the weak one" in result.stdout
    said = CliRunner().invoke(app, ["eval", "tiers", "--data", str(data), "--json"])
    assert {row["apgr"] for row in json.loads(said.stdout)["rows"]} == {None}


@pytest.mark.data
@needs_data
def test_length_ranks_mmlu_and_gsm8k_as_the_issue_says() -> None:
    every = read_outcomes(DATA / "strong_weak.jsonl.gz")
    for bench, apgr in (("mmlu", 0.614), ("gsm8k", 0.558)):
        rows = [row for row in every if row.bench == bench]
        curve = gap_curve(by_length(rows), [row.weak for row in rows], [row.strong for row in rows])
        assert curve.apgr == pytest.approx(apgr, abs=0.0005)
