"""Changes that keep what is asked: alike on every machine, small, and counted by decision."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pointsman.evidence import detect_script
from pointsman.tiers.learned_router import LearnedScorer
from pointsman.vocabulary import Script
from support.benchmarks import benchmark
from support.learned_routers import blank
from support.outcomes import made_up

pytestmark = pytest.mark.slow

ROBUSTNESS = benchmark("robustness")

PROMPTS = [row.prompt for row in made_up(60)]


@given(st.sampled_from(sorted(ROBUSTNESS.CHANGES)), st.text(max_size=200), st.integers())
def test_a_change_depends_on_the_prompt_and_the_seed_alone(change: str, text: str, seed: int) -> None:
    assert ROBUSTNESS.CHANGES[change](text, Random(seed)) == ROBUSTNESS.CHANGES[change](text, Random(seed))


@given(st.text(max_size=400), st.integers())
def test_few_letters_slip(text: str, seed: int) -> None:
    before, after = ROBUSTNESS.CHANGES["typos"](text, Random(seed))
    assert before == text
    assert abs(len(after) - len(before)) <= -(-len(text.split()) // 20) + len(text) // 80 + 1


def test_a_word_in_twenty_slips() -> None:
    text = " ".join(["letters"] * 100)
    changed = [word for word in ROBUSTNESS.CHANGES["typos"](text, Random(1))[1].split() if word != "letters"]
    assert 3 <= len(changed) <= 5  # two of five swaps meet equal letters
    assert ROBUSTNESS.CHANGES["typos"]("a b c 12345", Random(1))[1] == "a b c 12345"


@pytest.mark.parametrize("language", ROBUSTNESS.FRAMES)
def test_a_frame_holds_the_prompt_and_is_of_its_language(language: str) -> None:
    assert ROBUSTNESS.FRAMES[language].count("{}") == 1
    latin = {"en", "es", "fr", "de", "pt"}
    assert (detect_script(ROBUSTNESS.FRAMES[language]) is Script.LATIN) == (language in latin)


def test_the_frame_is_translated_and_the_prompt_is_not() -> None:
    before, after = ROBUSTNESS.CHANGES["frame translated"]("Which {} of these?", Random(2))
    assert "Which {} of these?" in before
    assert "Which {} of these?" in after
    assert before != after


def test_every_decider_is_measured_under_every_change() -> None:
    rows = ROBUSTNESS.evaluate_robustness(PROMPTS, LearnedScorer(blank()))
    assert {(row.decider, row.change) for row in rows} == {
        (decider, change)
        for decider in ("seed", "default", "learned_router")
        for change in ROBUSTNESS.CHANGES
    }
    assert all(row.low <= row.unchanged <= row.high and row.n == 60 for row in rows)
    case = {row.decider: row.unchanged for row in rows if row.change == "lower case"}
    assert case["default"] == case["seed"] == 1
    assert rows == ROBUSTNESS.evaluate_robustness(PROMPTS, LearnedScorer(blank()))


def test_nothing_crosses_a_boundary_that_is_out_of_reach() -> None:
    rows = ROBUSTNESS.evaluate_robustness(PROMPTS, LearnedScorer(blank()), boundary=9.0)
    assert {row.unchanged for row in rows if row.decider == "learned_router"} == {1.0}


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": prompt, "more": 1}) for prompt in PROMPTS[:20]))
    shown = CliRunner().invoke(ROBUSTNESS.app, ["--data", str(file)]).stdout
    headings = [line.split("  ")[0] for line in shown.splitlines()]
    assert headings[: len(ROBUSTNESS.CHANGES) + 3] == [
        "unchanged, 20 prompts",
        *ROBUSTNESS.CHANGES,
        "mean of form alone",
        "",
    ]
    assert headings[-1] == "keyword gadgets: mean" or "no easy prompt" in headings[-1]
    said = CliRunner().invoke(ROBUSTNESS.app, ["--data", str(file), "--json", "--seed", "4"])
    assert len(json.loads(said.stdout)["rows"]) == 2 * len(ROBUSTNESS.CHANGES)
    file.write_text("{}")
    error = CliRunner().invoke(ROBUSTNESS.app, ["--data", str(file)]).exception
    assert "data.jsonl:1" in str(error)


EASY = ["What is the capital of Japan?", "Who is Grace Hopper?", "How many legs has a spider?"]


def test_keywords_beside_an_easy_prompt_raise_the_seed_and_not_the_default() -> None:
    rows = {(row.decider, row.gadget): row.raised for row in ROBUSTNESS.evaluate_gadgets(EASY)}
    assert {rows["default", gadget] for gadget in ROBUSTNESS.KEYWORD_GADGETS} == {0.0}
    assert rows["seed", "six in a code block"] > 0.5


def test_the_form_of_a_prompt_does_not_change_its_tier() -> None:
    prompts = [
        *EASY,
        "Explain how merge sort works, in detail.",
        "Prove that the square root of 2 is irrational.",
    ]
    rows = [
        row
        for row in ROBUSTNESS.evaluate_robustness(prompts)
        if row.decider == "default" and row.change in ROBUSTNESS.FORM
    ]
    assert {row.unchanged for row in rows if row.change != "typos"} == {1.0}


def test_easy_prompts_are_those_the_file_calls_so(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    lines = [{"prompt": "a", "weak": 1}, {"prompt": "b", "weak": False}, {"prompt": "c"}]
    file.write_text("\n".join(map(json.dumps, [*lines, {"prompt": "d", "expected_tier": "SIMPLE"}])))
    assert ROBUSTNESS.read_easy(file) == ["a", "d"]
    assert ROBUSTNESS.decided_simple([*EASY, "Prove it by induction."]) == EASY
    assert ROBUSTNESS.gadget_lines([])[0].startswith("no easy prompt")
