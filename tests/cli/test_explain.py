"""``pointsman explain`` shows what fired, what it weighed, and what would have changed it."""

import json

import pytest
from typer.testing import CliRunner

from pointsman.cli import app

PROMPT = "prove step by step that there are infinitely many primes"


def explain(*args: str, stdin: str = "") -> str:
    result = CliRunner().invoke(app, ["explain", *args], input=stdin, env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_person_sees_tier_stage_weights_and_the_way_to_another_tier() -> None:
    shown = explain(PROMPT, "--profile", "seed")
    assert shown.startswith("REASONING  score 0.090, confidence 0.85\n")
    assert "decided by an override, profile seed\n" in shown
    assert PROMPT in shown
    assert "reasoningMarkers" in shown
    assert "prove, step by step" in shown
    assert "+0.170" in shown
    assert "without “prove”" in shown


def test_json_has_every_dimension_and_they_sum_to_the_score() -> None:
    shown = json.loads(explain(PROMPT, "--json", "--profile", "seed"))
    assert len(shown["contributions"]) == 15
    total = sum(part["contribution"] for part in shown["contributions"])
    assert abs(total - shown["decision"]["score"]) < 1e-9
    assert shown["changes"][0] == {"tier": "MEDIUM", "without": ["prove"], "tokens": 0}


def test_the_prompt_may_come_from_standard_input() -> None:
    shown = json.loads(explain("-", "--json", stdin="<system-reminder>use json</system-reminder>\nHello!"))
    assert shown["text"] == "Hello!"
    assert shown["extraction"] == ["tag:system-reminder"]


@pytest.mark.parametrize("prompt", ["", " \n", "\udcff\udcfe bytes that were no UTF-8"])
def test_a_prompt_without_words_and_one_of_odd_bytes(prompt: str) -> None:
    """Standard input that is not UTF-8 arrives as half surrogates."""
    shown = json.loads(explain(prompt, "--json"))
    assert shown["decision"]["tier"] == "MEDIUM"
    assert "\n\n\n" not in explain(prompt)


def test_markup_in_a_prompt_is_text() -> None:
    assert "[bold]hi[/] [red]" in explain("[bold]hi[/] [red]")
