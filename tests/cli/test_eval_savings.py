"""``pointsman eval savings``: what a cut that was fixed beforehand saves beyond a coin of equal success."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import ConfigError, PointsmanError
from pointsman.learning.savings import Rule, coin_share
from support.outcomes import made_up, shuffled

PRICES = ("--price-weak", "0.2", "--price-strong", "1")


def run(file: str, *arguments: str, prices: tuple[str, ...] = PRICES) -> Result:
    return CliRunner().invoke(app, ["eval", "savings", "--data", file, *prices, *arguments])


def written(folder: Path, rows: list[dict[str, Any]]) -> str:
    file = folder / "outcomes.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


def by_length(count: int, **more: Any) -> list[dict[str, Any]]:
    """Every second prompt is short, and both models are right; at the long ones only the strong one is."""
    names = [
        f"question {''.join('abcdefghij'[int(digit)] for digit in f'{number:04}')} about tea"
        for number in range(count)
    ]  # prompts that differ in numbers alone are duplicates
    return [
        {"prompt": name, "weak": True, "strong": True, **more}
        if number % 2 == 0
        else {"prompt": f"{name} and {'very ' * 40}long", "weak": False, "strong": True, **more}
        for number, name in enumerate(names)
    ]


def routers(result: Result, source: str = "") -> dict[str, dict[str, Any]]:
    assert result.exception is None, result.exception
    found = {each["source"]: each for each in json.loads(result.stdout)["sources"]}
    return {row["router"]: row for row in found[source]["rows"]}


def figures(row: dict[str, Any]) -> tuple[float, ...]:
    names = ("success", "success_minus_strong", "cost", "saved_beyond_coin")
    return tuple(round(row[name]["value"], 4) for name in names)


def test_the_figures_are_those_counted_by_hand(tmp_path: Path) -> None:
    found = routers(run(written(tmp_path, by_length(600)), "--json"))
    assert figures(found["always strong"]) == (1.0, 0.0, 1.0, 0.0)
    assert figures(found["always weak"]) == (0.5, -0.5, 0.2, 0.0)
    # Half of the rows at .2 and half at 1; only always strong has the same success among the coins.
    assert figures(found["length"]) == (1.0, 0.0, 0.6, 0.4)
    assert found["length"]["saved_beyond_coin"]["low"] > 0.3
    # A coin may lose .01: its loss is half its share of weak calls, known to 1.28 standard errors.
    share = 0.01 / (0.5 + 1.2816 * 0.5 / 300**0.5)
    assert found["coin"]["weak_share"] == pytest.approx(share, abs=1e-4)
    assert found["coin"]["saved_beyond_coin"]["value"] == pytest.approx(0, abs=1e-9)


def test_the_cut_is_fixed_by_the_first_rows_alone(tmp_path: Path) -> None:
    rows = by_length(600)
    for row in rows[300:]:  # after the labels the weak model fails at what it could
        row["weak"] = False
    found = routers(run(written(tmp_path, rows), "--json"))
    assert figures(found["length"])[:3] == (0.5, -0.5, 0.6)
    # Always weak has lost everything: the coin of equal success serves half of the rows with it.
    assert figures(found["length"])[3] == 0.0


def test_costs_of_the_lines_count_with_what_caches_saved(tmp_path: Path) -> None:
    rows = by_length(600)
    for number, row in enumerate(rows):
        row["costs"] = {"weak": 0.25, "strong": 0.5 if number % 2 == 0 else 1.5}
    found = routers(run(written(tmp_path, rows), "--json", prices=()))
    assert figures(found["length"])[2:] == (0.875, 0.125)  # (.25 + 1.5) over (.5 + 1.5)


def test_every_source_fixes_its_own_cut_and_the_worst_stands_beside_the_mean(tmp_path: Path) -> None:
    easy = [{**row, "weak": True, "bench": "easy"} for row in by_length(450)]
    rows = [*by_length(450, bench="hard"), *easy, *by_length(20, bench="small")]
    random.Random(0).shuffle(rows)
    file = written(tmp_path, rows)
    result = run(file, "--json")
    assert figures(routers(result, "easy")["length"])[2] == 0.2
    assert figures(routers(result, "hard")["length"])[2] == pytest.approx(0.6, abs=0.06)
    assert json.loads(result.stdout)["too_few"] == {"small": 20}
    text = run(file).stdout
    assert "mean of 2 sources, worst source in brackets" in text
    assert "too few rows for a cut of their own: small (20)" in text


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_outcomes_claim_nothing(tmp_path: Path, seed: int) -> None:
    rows = [
        {"prompt": row.prompt, "weak": row.weak, "strong": row.strong}
        for row in shuffled(made_up(900, seed=seed), seed=seed)
    ]
    result = run(written(tmp_path, rows))
    assert "no router is shown to save more than a coin of equal success" in result.stdout


def test_a_learned_router_of_the_labels_saves_more_than_a_coin(tmp_path: Path) -> None:
    rows = [
        {"prompt": row.prompt, "weak": row.weak, "strong": row.strong, "bench": row.group}
        for row in made_up(1_200)
    ]
    wide = ("--margin", "0.05", "--labels", "500", "--splits", "3")
    result = run(written(tmp_path, rows), "--json", *wide)
    found = routers(result)
    assert found["learned router"]["saved_beyond_coin"]["low"] > 0.1
    assert (
        found["learned router"]["saved_beyond_coin"]["value"] > found["length"]["saved_beyond_coin"]["value"]
    )


@pytest.mark.parametrize("is_told", [True, False])
def test_projects_save_where_the_gain_is_theirs(tmp_path: Path, is_told: bool) -> None:
    """In one project the weak model is as good; nothing in a prompt says in which."""
    draw = random.Random(3)
    rows = [
        {**row, "weak": at % 3 == 0 or draw.random() < 0.4, "strong": True}
        | {"task": f"project {at % 3 if is_told else draw.randrange(3)}", "bench": "all"}
        for at, row in enumerate(by_length(1_500))
    ]
    for row in rows:
        row["prompt"] = row["prompt"].split(" and ")[0]
    found = routers(run(written(tmp_path, rows), "--json", "--labels", "700"))["group"]
    assert found["success_minus_strong"]["value"] == pytest.approx(0, abs=0.02)
    if is_told:
        assert found["weak_share"] > 0.25
        assert found["saved_beyond_coin"]["low"] > 0.15
    else:
        assert not found["saved_beyond_coin"]["low"] > 0


def test_labels_that_fix_no_cut_leave_always_strong(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = by_length(500)
    for row in rows:  # length says nothing, and the strong model is much better
        row["weak"], row["strong"] = draw.random() < 0.4, draw.random() < 0.9
    result = run(written(tmp_path, rows))
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("length")]
    assert line.split()[1:] == ["no", "always", "strong"]
    assert "300 labels fix no cut within 0.01: every router is always strong" in result.stdout


def test_copies_are_labels_or_served_and_never_both(tmp_path: Path) -> None:
    rows = by_length(400)
    found = json.loads(run(written(tmp_path, [*rows, *rows]), "--json").stdout)
    assert found["sources"][0]["served"] == 200
    drawn = json.loads(run(written(tmp_path, [*rows, *rows]), "--json", "--splits", "2").stdout)
    assert drawn["sources"][0]["served"] == 500


@pytest.mark.parametrize(
    ("rows", "prices", "message"),
    [
        (by_length(320), PRICES, "320 rows are too few: 300 fix the cut, and at least 100 others"),
        (by_length(500), (), "a cost needs prices"),
        (by_length(500), ("--price-weak", "0", "--price-strong", "0"), "not more expensive"),
        ([{**by_length(1)[0], "costs": {"weak": 1}}], (), '"costs" has no money of 0 or more for "strong"'),
        ([*by_length(1, costs={"weak": 1, "strong": 2}), *by_length(1)], (), 'row 2 has no "costs"'),
    ],
)
def test_what_cannot_be_measured_is_refused(
    tmp_path: Path, rows: list[dict[str, Any]], prices: tuple[str, ...], message: str
) -> None:
    result = run(written(tmp_path, rows), prices=prices)
    assert isinstance(result.exception, ConfigError | PointsmanError)
    assert message in result.exception.message


@pytest.mark.parametrize(("rows", "missing"), [(46, 354), (146, 254), (320, 80)])
def test_the_hint_names_the_rows_that_are_missing(tmp_path: Path, rows: int, missing: int) -> None:
    result = run(written(tmp_path, by_length(rows)))
    assert isinstance(result.exception, PointsmanError)
    assert result.exception.hint == f"{missing} more different prompts, or fewer --labels"


def test_a_learned_router_of_a_file_stands_beside_the_others(tmp_path: Path) -> None:
    rows = [{"prompt": r.prompt, "weak": r.weak, "strong": r.strong} for r in made_up(500)]
    file, router = written(tmp_path, rows), str(tmp_path / "mine.json")
    assert CliRunner().invoke(app, ["fit", "tiers", "--data", file, "--out", router]).exit_code == 0
    result = run(file, "--learned-router", router)
    assert "was fitted on these very prompts" in result.stderr
    assert any(line.startswith("mine.json") for line in result.stdout.splitlines())


def stored(folder: Path, *, words: bool = False, count: int = 600) -> tuple[str, ...]:
    """At every second question both cheap models are right; at the long ones they err, each its own way."""
    rows = []
    for number, row in enumerate(by_length(count)):
        right = number % 2 == 0
        said = {"cheap": str(number) if right else "a", "other": str(number) if right else "b"}
        answers = {
            model: {"answer": answer, "correct": right, "output_tokens": 100}
            for model, answer in said.items()
        } | {"best": {"answer": str(number), "correct": True, "output_tokens": 100}}
        more = {"prompt": row["prompt"]} if words else {}
        rows.append(
            {"set": "math", "id": number, "prompt_chars": len(row["prompt"]), "answers": answers, **more}
        )
    prices = {"cheap": {"input": 0, "output": 1}, "other": {"input": 0, "output": 1}}
    (folder / "prices.json").write_text(json.dumps({**prices, "best": {"input": 0, "output": 5}}))
    return (written(folder, rows), "--weak", "cheap", "--second", "other", "--strong", "best")


@pytest.mark.parametrize("words", [False, True])
def test_agreement_is_a_row_alone_and_behind_a_gate(tmp_path: Path, words: bool) -> None:
    found = routers(run(*stored(tmp_path, words=words), "--json", prices=()))
    assert figures(found["always weak"]) == (0.5, -0.5, 0.2, 0.0)
    assert figures(found["length"]) == (1.0, 0.0, 0.6, 0.4)
    # Two cheap answers to each question, and the strong one to half of them: .4 + .5.
    assert figures(found["agreement"]) == (1.0, 0.0, 0.9, 0.1)
    # The gate asks two models for the short half alone: .5 * .4 + .5.
    assert figures(found["agreement with the gate"]) == (1.0, 0.0, 0.7, 0.3)
    assert ("learned router" in found) is words
    assert ("rules" in found) is words


def test_the_gate_asks_the_strong_model_where_no_cut_is_shown(tmp_path: Path) -> None:
    """Two cheap models that make the same error at every second question agree on it."""
    file, *options = stored(tmp_path)
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
    for row in rows:
        row["answers"]["other"]["answer"] = row["answers"]["cheap"]["answer"]
        row["prompt_chars"] = 100
    found = routers(run(written(tmp_path, rows), *options, "--json", prices=()))
    assert figures(found["agreement"])[:3] == (0.5, -0.5, 0.4)
    assert found["agreement with the gate"]["fixed"] == 0
    assert figures(found["agreement with the gate"])[:3] == (1.0, 0.0, 1.0)


def test_agreement_of_a_model_with_itself_is_refused(tmp_path: Path) -> None:
    file, *_ = stored(tmp_path)
    found = run(file, "--weak", "cheap", "--second", "cheap", "--strong", "best", prices=())
    assert isinstance(found.exception, PointsmanError)
    assert "three different models" in found.exception.message


@pytest.mark.parametrize(("worse", "better"), [(0.02, 0.0), (0.05, 0.02), (0.1, 0.05), (0.2, 0.1)])
def test_the_bound_of_a_coin_holds_as_often_as_stated(worse: float, better: float) -> None:
    """Of 400 draws of 300 labels, 90 % hold but for chance (below 86 % in one test of 200)."""
    rule, held = Rule(), 0
    shares = [worse, better, 1 - worse - better]
    for lost, won, same in np.random.default_rng(0).multinomial(300, shares, 400):
        losses = np.r_[np.ones(lost), -np.ones(won), np.zeros(same)]
        held += coin_share(losses, np.arange(300), rule) * (worse - better) <= rule.margin
    assert held >= 0.86 * 400
