"""``pointsman eval tiers --in``: the same figures as from lines."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from support.outcomes import made_up
from support.parquet import rows_in, write

pytestmark = pytest.mark.slow

ROWS = made_up(120, seed=3)
COLUMNS: dict[str, list[Any]] = {
    "prompt": [row.prompt for row in ROWS],
    "weak": [row.weak for row in ROWS],
    "strong": [row.strong for row in ROWS],
    "bench": [f"b{number % 2}" for number in range(len(ROWS))],
}


def evaluate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", "tiers", *map(str, arguments)])


def on_parquet(folder: Path, *arguments: object, **columns: Any) -> Result:
    file = write(folder / "data.parquet", **(columns or COLUMNS))
    return evaluate("--in", file, "--out", folder / "out", "--workers", "1", *arguments)


def test_the_figures_are_those_of_the_same_outcomes_as_lines(tmp_path: Path) -> None:
    lines = tmp_path / "data.jsonl"
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = on_parquet(tmp_path, "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == json.loads(evaluate("--data", lines, "--json").stdout)
    assert [row["length"] for row in rows_in(tmp_path / "out")] == [len(row.prompt) for row in ROWS]


def test_other_columns_and_rows_that_cannot_be_read(tmp_path: Path) -> None:
    prompts = pa.array([*COLUMNS["prompt"], None, "a", "b"], pa.string())
    columns = {
        "prompt": prompts,
        "small": [*COLUMNS["weak"], 0.0, 2.0, 0.0],
        "large": pa.array([*COLUMNS["strong"], 1.0, 1.0, None], pa.float64()),
    }
    ran = on_parquet(tmp_path, "--weak", "small", "--strong", "large", "--kinds", "off", "--json", **columns)
    assert ran.exit_code == 1
    assert {row["n"] for row in json.loads(ran.stdout)["rows"]} == {120}
    errors = [row["error"] for row in rows_in(tmp_path / "out")[-3:]]
    assert errors == ["the prompt is null", "a score is outside 0..1: 2", "a score is null"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"weak": [1], "strong": [1]}, 'there is no column "prompt"; expected is string'),
        (
            {"prompt": ["a"], "weak": ["1"], "strong": [1]},
            'column "weak" is of type string; expected is a number',
        ),
        ({"prompt": ["a"], "weak": [1]}, 'there is no column "strong"'),
        ({"prompt": pa.array([None], pa.string()), "weak": [1], "strong": [1]}, "no row could be read"),
    ],
    ids=range(4),
)
def test_wrong_columns(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    ran = on_parquet(tmp_path, **columns)
    assert isinstance(ran.exception, PointsmanError)
    assert message in str(ran.exception)


def test_outcomes_are_named_in_one_way(tmp_path: Path) -> None:
    assert "no outcomes to read" in str(evaluate().exception)
    assert "--data does not go with --in" in str(on_parquet(tmp_path, "--data", "x.jsonl").exception)
