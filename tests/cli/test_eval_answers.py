"""``pointsman eval answers``: two cheap models, the strong one where they disagree, on stored answers."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError

A, B, STRONG = "a", "b", "strong"
PRICES = {model: {"input": price, "output": price} for model, price in ((A, 1), (B, 1), (STRONG, 10))}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["eval", "answers", *arguments])


def run_raising(*arguments: str) -> None:
    found = run(*arguments)
    if found.exception:
        raise found.exception


def answer(text: str | None, *, correct: bool, value: str | None = None) -> dict[str, Any]:
    return {"answer": text, "value": value, "correct": correct, "chars": 400}


def row(a: Any, b: Any, strong: Any, name: str = "sums") -> dict[str, Any]:
    return {"set": name, "id": 1, "prompt_chars": 400, "answers": {A: a, B: b, STRONG: strong}}


#: Agreed and right, agreed and wrong, disagreed, both null (never agree), equal by value alone.
ROWS = [
    row(answer("5.0", correct=True), answer("5.0", correct=True), answer("5.0", correct=True)),
    row(answer("6.0", correct=False), answer("6.0", correct=False), answer("5.0", correct=True)),
    row(answer("1.0", correct=False), answer("2.0", correct=True), answer("2.0", correct=True)),
    row(answer(None, correct=False), answer(None, correct=False), answer("7.0", correct=True)),
    row(
        answer('"x"', correct=True, value="'x'"),
        answer("x", correct=True, value="'x'"),
        answer("y", correct=False),
    ),
]


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    (folder / "prices.json").write_text(json.dumps(PRICES))
    file = folder / "answers.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


def test_the_figures_are_those_counted_by_hand(tmp_path: Path) -> None:
    result = run(
        written(tmp_path, ROWS),
        "--cheap",
        A,
        "--cheap",
        B,
        "--strong",
        STRONG,
        "--instruction-tokens",
        "0",
        "--json",
    )
    (found,) = json.loads(result.stdout)["sets"]
    assert (found["set"], found["n"]) == ("sums", 5)
    assert found["agreed"]["value"] == 0.6
    assert found["success_if_agreed"]["value"] == 0.6667
    assert [each["value"] for each in found["success_cheap"]] == [0.4, 0.6]
    assert found["success_strong"]["value"] == 0.8
    assert found["success_rule"]["value"] == 0.8
    assert found["success_minus_strong"]["value"] == 0.0
    # Each call is 100 + 100 tokens: 5 x (1 + 1) for the cheap ones, 2 x 10 for the strong one, over 5 x 10.
    assert found["cost"]["value"] == 0.6


def test_every_set_is_a_row_and_the_worst_stands_in_the_last_line(tmp_path: Path) -> None:
    others = [{**each, "set": "others"} for each in ROWS[1:2]]
    result = run(written(tmp_path, [*ROWS, *others]), "--cheap", A, "--cheap", B, "--strong", STRONG)
    assert result.exit_code == 0
    assert "worst others -1.0000" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cheap", A, "--strong", STRONG], "compares two cheap models, not 1"),
        (["--cheap", A, "--cheap", A, "--strong", STRONG], "must differ"),
        (["--cheap", A, "--cheap", "c", "--strong", STRONG], 'holds no answer of "c"'),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    with pytest.raises(PointsmanError, match=message):
        raise_of(run(written(tmp_path, ROWS), *arguments))


def test_a_model_without_a_price_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, ROWS)
    (tmp_path / "prices.json").write_text(json.dumps({A: PRICES[A], B: PRICES[B], STRONG: None}))
    with pytest.raises(PointsmanError, match="no price is known of strong"):
        raise_of(run(file, "--cheap", A, "--cheap", B, "--strong", STRONG))


def raise_of(result: Result) -> None:
    assert result.exception is not None
    raise result.exception


def test_rows_and_prices_that_cannot_be_meant_are_refused_or_named(tmp_path: Path) -> None:
    models = ["--cheap", A, "--cheap", B, "--strong", STRONG]
    fine = row(answer("5.0", correct=True), answer("5.0", correct=True), answer("5.0", correct=True))
    negative = {**fine, "answers": {**fine["answers"], A: {**answer("5.0", correct=True), "chars": -1}}}
    with pytest.raises(PointsmanError, match=r"chars"):
        run_raising(written(tmp_path, [negative]), *models)
    (tmp_path / "free.json").write_text(
        json.dumps({A: PRICES[A], B: PRICES[B], STRONG: {"input": -1, "output": 1}})
    )
    with pytest.raises(PointsmanError, match="not a number of at least 0"):
        run_raising(written(tmp_path, [fine]), *models, "--prices", str(tmp_path / "free.json"))
    (tmp_path / "free.json").write_text(
        json.dumps({A: PRICES[A], B: PRICES[B], STRONG: {"input": 0, "output": 0}})
    )
    found = run(written(tmp_path, [fine, fine]), *models, "--prices", str(tmp_path / "free.json"))
    assert found.exit_code == 0
    assert "nan" not in found.output
    assert "1 rows repeat" in found.output


def test_an_interval_of_the_difference_has_a_width_and_holds_the_truth_also_with_few_questions(
    tmp_path: Path,
) -> None:
    """Of draws of 20 with a loss of .03, 54 % hold none: there the bootstrap alone has no width."""
    right, wrong = answer("5.0", correct=True), answer("6.0", correct=False)
    models = ["--cheap", A, "--cheap", B, "--strong", STRONG]
    draw = random.Random(7)
    rows = []
    for number in range(2_000):
        said = wrong if draw.random() < 0.03 else right
        rows.append(row(said, said, right, f"draw {number % 100}"))
    result = run(written(tmp_path, rows), *models, "--json")
    found = [each["success_minus_strong"] for each in json.loads(result.stdout)["sets"]]
    assert sum(each["low"] <= -0.03 <= each["high"] for each in found) >= 95
    assert all(each["high"] - each["low"] > 0.1 for each in found)
    assert any(each["value"] == 0 for each in found)
    result = run(written(tmp_path, [row(right, right, right)] * 50), *models)
    assert "+0.0000 [-0.0713, +0.0713]" in result.stdout


def test_the_interval_of_the_cost_holds_the_truth_also_with_few_questions(tmp_path: Path) -> None:
    """Of draws of ten of which one in ten differs 35 % hold none: the bootstrap held the cost in 63 %."""
    right, other = answer("5.0", correct=True), answer("6.0", correct=True)
    models = ["--cheap", A, "--cheap", B, "--strong", STRONG]
    draw = random.Random(7)
    rows = [
        row(right, other if draw.random() < 0.1 else right, right, f"draw {number % 100}")
        for number in range(1_000)
    ]
    truth = [row(right, other if number == 0 else right, right) for number in range(10)]
    found = json.loads(run(written(tmp_path, rows), *models, "--json").stdout)["sets"]
    (whole,) = json.loads(run(written(tmp_path, truth), *models, "--json").stdout)["sets"]
    assert sum(each["cost"]["low"] <= whole["cost"]["value"] <= each["cost"]["high"] for each in found) >= 95


@pytest.mark.parametrize(
    ("agree", "cost", "low", "high"), [(True, 0.2, 0.2, 0.737), (False, 1.2, 0.663, 1.2)]
)
def test_the_interval_of_the_cost_counts_questions_by_what_they_cost(
    tmp_path: Path, agree: bool, cost: float, low: float, high: float
) -> None:
    """Nine and one ten times as dear tell as much as 19²/109 = 3.3 equal ones: z²/(3.3 + z²) is .537."""
    one, other = (answer(text, correct=True) for text in ("5.0", "5.0" if agree else "6.0"))
    long, other_long = ({**each, "chars": 4_000} for each in (one, other))
    small, dear = row(one, other, one), row(long, other_long, long) | {"prompt_chars": 4_000}
    models = ["--cheap", A, "--cheap", B, "--strong", STRONG]
    file = written(tmp_path, [*[small] * 9, dear])
    (found,) = json.loads(run(file, *models, "--instruction-tokens", "0", "--json").stdout)["sets"]
    assert found["cost"] == pytest.approx({"value": cost, "low": low, "high": high}, abs=5e-4)
