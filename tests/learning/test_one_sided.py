"""Outcomes of one model a prompt, as a gateway has them: what they show, and what they cannot."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config import load
from pointsman.errors import ConfigError, PointsmanError
from pointsman.gateway.build import Builder
from pointsman.learning.datasets import LEAST_CHANCE, PromptOutcome, read_served
from pointsman.learning.learning import Corpus
from pointsman.learning.one_sided import Observed, share_needed, sides_of
from support.servers import gateway
from support.waiting import until

#: What the models of the journey are asked, and whether the small one can do it.
WORDS = {
    "Greet the guest {} and wish a good day": True,
    "Derive a bound on {}": False,
}
CONFIG = """
[upstreams.demo]
base_url = "demo:"
[models]
small = { upstream = "demo", id = "demo-small" }
large = { upstream = "demo", id = "demo-large" }
[tiers]
simple = DRAWN
medium = DRAWN
complex = DRAWN
reasoning = DRAWN
[server]
port = 0
[ledger]
path = "FOLDER/ledger.sqlite"
text = "full"
""".replace("DRAWN", '[{ model = "small", weight = 0.6 }, { model = "large", weight = 0.4 }]')


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def asked() -> Iterator[tuple[str, bool]]:
    names = [
        first + second for first in "bcdfghjklm" for second in ("ana", "olo", "iri", "ete", "uru", "yny")
    ]
    for name in names:
        for words, can in WORDS.items():
            yield words.format(name), can


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ``outcomes export`` writes of traffic that the weights of the tiers dealt to two models."""
    folder = tmp_path_factory.mktemp("one_sided")
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.replace("FOLDER", str(folder)))
    said = []
    with gateway(Builder(lambda: load(file))()) as running:
        for words, can in asked():
            body = {"model": "auto", "messages": [{"role": "user", "content": words}]}
            found = httpx.post(f"{running.url}/v1/chat/completions", json=body).raise_for_status().headers
            score = float(can or found["x-pointsman-model"] == "large")
            said.append({"decision": found["x-pointsman-decision-id"], "score": score})
        outcomes, ledger = folder / "said.jsonl", ("--ledger", folder / "ledger.sqlite")
        outcomes.write_text("".join(json.dumps(each) + "\n" for each in said))
        until(lambda: run("outcomes", "import", outcomes, *ledger).exit_code == 0)
    exported = run("outcomes", "export", *ledger).stdout
    return [json.loads(line) for line in exported.splitlines()]


def fitted(lines: list[dict[str, Any]], folder: Path) -> Result:
    data = folder / "outcomes.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    models = ("--weak", "small", "--strong", "large", "--features", "hashed")
    return run("fit", "tiers", "--data", data, "--out", folder / "router.json", *models, "--json")


def test_only_the_turn_that_a_conversation_begins_with_has_chances(tmp_path: Path) -> None:
    """A later turn keeps the model: that it equals what is drawn is no draw, whoever names the tier."""
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    turns = ["Greet the guest", "Derive a bound on it", "Name the author of it"]
    said, models, messages = [], set(), []
    with gateway(Builder(lambda: load(file))()) as running:
        for words, tier in zip(turns, ("auto", "auto", "complex"), strict=True):
            messages.append({"role": "user", "content": words})
            found = httpx.post(
                f"{running.url}/v1/chat/completions",
                json={"model": tier, "messages": messages},
                headers={"x-pointsman-session": "one"},
            ).raise_for_status()
            models.add(found.headers["x-pointsman-model"])
            said.append({"decision": found.headers["x-pointsman-decision-id"], "score": 1.0})
            messages.append(found.json()["choices"][0]["message"])
        assert len(models) == 1, "all tiers have the same models, and one session draws the same of them"
        outcomes, ledger = tmp_path / "said.jsonl", ("--ledger", tmp_path / "ledger.sqlite")
        outcomes.write_text("".join(json.dumps(each) + "\n" for each in said))

        def exported() -> list[dict[str, Any]]:
            run("outcomes", "import", outcomes, *ledger)
            return [json.loads(line) for line in run("outcomes", "export", *ledger).stdout.splitlines()]

        until(lambda: len(exported()) == len(turns))
        found_chances = {line["prompt"]: line.get("chances") for line in exported()}
    assert found_chances == dict(zip(turns, ({"small": 0.6, "large": 0.4}, None, None), strict=True))


def test_the_outcomes_of_a_draw_are_exported_with_its_chances_and_fitted(
    served: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert len(served) == 120
    assert all(len(line["scores"]) == 1 for line in served)
    assert all(line["chances"] == {"small": 0.6, "large": 0.4} for line in served)
    assert len({line["session"] for line in served}) == 120
    found = fitted(served, tmp_path)
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert said["prompts"] == {"paired": 0, "drawn": 120, "ruled": 0, "rare": 0}
    length, low, _ = said["claim"]["against"]["length"]
    assert length > 0
    assert low > 0  # the words say which half the small model cannot do


def test_outcomes_dealt_anew_show_nothing(served: list[dict[str, Any]], tmp_path: Path) -> None:
    draw, dealt = random.Random(5), [dict(line) for line in served]
    for model in ("small", "large"):
        own = [line for line in dealt if model in line["scores"]]
        values = [line["scores"][model] for line in own]
        draw.shuffle(values)
        for line, value in zip(own, values, strict=True):
            line["scores"] = {model: value}
    found = fitted(dealt, tmp_path)
    assert found.exit_code == 0, found.output
    assert not json.loads(found.stdout)["improvement"]


def test_outcomes_of_a_rules_choice_are_refused_with_the_share_that_is_needed(
    served: list[dict[str, Any]], tmp_path: Path
) -> None:
    found = fitted([{**line, "chances": {}} for line in served], tmp_path)
    assert found.exit_code != 0
    assert not (tmp_path / "router.json").exists()
    said = str(found.exception)
    assert "120 prompts have the outcome of one model, which a rule chose" in said
    assert "at least 600 prompts, half of them served by each model" in said


@pytest.mark.parametrize(
    ("strong", "sessions", "told"),
    [
        (0, 60, '60 outcomes of "small" in 60 different sessions and 0 outcomes of "large" in 0'),
        (1, 60, '59 outcomes of "small" in 59 different sessions and 1 outcomes of "large" in 1'),
        (30, 2, '30 outcomes of "small" in 1 different sessions and 30 outcomes of "large" in 1'),
    ],
)
def test_outcomes_of_too_few_sessions_are_refused_with_their_number(
    strong: int, sessions: int, told: str, tmp_path: Path
) -> None:
    names = [
        first + second for first in "bcdfghjklm" for second in ("ana", "olo", "iri", "ete", "uru", "yny")
    ]
    found = fitted(
        [
            {
                "prompt": f"Greet the guest {name}",
                "scores": {"large" if at < strong else "small": at % 2},
                "chances": {"small": 0.5, "large": 0.5},
                "session": str(at * sessions // len(names)),
            }
            for at, name in enumerate(names)
        ],
        tmp_path,
    )
    assert isinstance(found.exception, PointsmanError)
    assert told in str(found.exception)
    assert "each model needs outcomes in at least 10 different sessions" in str(found.exception)
    assert not (tmp_path / "router.json").exists()


def test_a_rules_outcomes_calibrate_beside_drawn_ones(served: list[dict[str, Any]], tmp_path: Path) -> None:
    found = fitted(
        [{**line, "chances": line["chances"] if at % 2 else {}} for at, line in enumerate(served)], tmp_path
    )
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["prompts"] == {"paired": 0, "drawn": 60, "ruled": 60, "rare": 0}


@pytest.mark.parametrize(("prompts", "share"), [(599, None), (600, 0.5), (1_000, 0.184), (6_000, 0.026)])
def test_the_share_that_is_worth_three_hundred_pairs(prompts: int, share: float | None) -> None:
    found = share_needed(prompts)
    assert found == (share if share is None else pytest.approx(share, abs=0.001))


def planted(count: int, chance: float, seed: int) -> tuple[list[PromptOutcome], list[PromptOutcome]]:
    """The outcomes of both models, and those that are seen: of hard prompts only the strong one is right."""
    draw, both = random.Random(seed), []
    for at in range(count):
        hard = at % 2 == 1
        words = f"{'prove' if hard else 'greet'} the {'theorem' if hard else 'guest'} number {'x' * at}"
        both.append(
            PromptOutcome(words, float(draw.random() > (0.7 if hard else 0.1)), float(draw.random() > 0.1))
        )
    nan, seen = float("nan"), []
    for row in both:
        strong = draw.random() < chance
        known = replace(row, weak=nan) if strong else replace(row, strong=nan)
        seen.append(replace(known, drawn=(1 - chance, chance)))
    return both, seen


@pytest.mark.parametrize("chance", [0.5, 0.2])
def test_the_means_of_doubly_robust_outcomes_are_those_of_both_models(chance: float) -> None:
    errors = []
    for seed in range(12):
        both, seen = planted(200, chance, seed)
        values = Observed.of(seen).filled(Corpus.of(seen), np.arange(200))
        errors.append(
            values.mean(axis=1) - [np.mean([r.weak for r in both]), np.mean([r.strong for r in both])]
        )
    assert np.abs(np.mean(errors, axis=0)).max() < 0.04
    paired = Observed.of(both)
    whole = paired.filled(Corpus.of(both), np.arange(200))
    assert whole[0].tolist() == pytest.approx([row.weak for row in both])


def test_outcomes_with_a_chance_below_a_tenth_are_not_compared_and_counted(
    served: list[dict[str, Any]], tmp_path: Path
) -> None:
    rare = {"small": 0.95, "large": 0.05}
    lines = [{**line, "chances": line["chances"] if at % 2 else rare} for at, line in enumerate(served)]
    found = fitted(lines, tmp_path)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["prompts"] == {"paired": 0, "drawn": 60, "ruled": 60, "rare": 60}
    _, seen = planted(50, LEAST_CHANCE, 0)
    assert sides_of(seen).drawn == 50
    _, seen = planted(50, LEAST_CHANCE / 2, 0)
    assert (sides_of(seen).drawn, sides_of(seen).rare) == (0, 50)


def test_prompts_of_one_session_are_one_cluster() -> None:
    rows = [PromptOutcome(f"prompt {'abcd'[at]}", 1.0, 0.0, session="xxyy"[at]) for at in range(4)]
    assert Corpus.of(rows).first.tolist() == [0, 0, 2, 2]
    rows[2] = replace(rows[2], prompt=rows[0].prompt)  # a duplicate leaves both sessions
    assert Corpus.of(rows).first.tolist() == [0, 1, 0, 3]
    assert Corpus.of([replace(row, session="") for row in rows]).first.tolist() == [0, 1, 0, 3]


def test_near_copies_chain_no_sessions() -> None:
    """Each session shares a prompt with the next one: no cluster has more rows than a session or a prompt."""
    rows = [
        PromptOutcome(text, 1.0, 0.0, session=name)
        for name, texts in (
            ("one", ["fix the parser", "continue", "go on please"]),
            ("two", ["continue", "rename the class", "thanks a lot"]),
            ("three", ["Thanks a lot!", "thanks a lot", "add a test"]),
            ("", ["add a test", "write a poem", "write a poem"]),
        )
        for text in texts
    ]
    assert Corpus.of(rows).first.tolist() == [0, 1, 0, 1, 4, 5, 5, 5, 8, 8, 10, 10]


def test_a_third_model_of_the_tier_leaves_the_chances_of_the_other_two(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    chances = {"small": 0.3, "large": 0.1, "other": 0.6}
    lines = [{"prompt": name, "scores": {name: 1}, "chances": chances} for name in chances]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_served(file, weak="small", strong="large")
    assert [row.prompt for row in rows] == ["small", "large"]
    assert [row.drawn for row in rows] == [pytest.approx((0.75, 0.25))] * 2


def test_lines_of_one_model_are_read_and_those_of_neither_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    lines: list[dict[str, Any]] = [
        {"prompt": "a", "scores": {"small": 1}, "chances": {"small": 0.9, "large": 0.1}},
        {"prompt": "b", "scores": {"small": 0, "large": 1}},
        {"prompt": "c", "scores": {"other": 1}},
        {"prompt": "d", "scores": {"large": 1}},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_served(file, weak="small", strong="large")
    assert [row.prompt for row in rows] == ["a", "b", "d"]
    assert [(row.is_paired, row.is_drawn) for row in rows] == [(False, True), (True, False), (False, False)]
    file.write_text(json.dumps({**lines[0], "chances": {"small": 0.9, "large": 0.9}}))
    with pytest.raises(ConfigError, match="no probabilities of one draw"):
        read_served(file, weak="small", strong="large")
