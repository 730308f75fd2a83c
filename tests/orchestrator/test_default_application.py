"""The built-in application: what it calculates, what it refuses, and what it selects."""

import asyncio
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pointsman.capabilities import LocalScorer
from pointsman.orchestrator import Agent
from pointsman.orchestrator.default_application import OfflineModel, arithmetic, default_application
from pointsman.vocabulary import Prompt


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("What is 17 * 23?", 391),
        ("compute 2^10", 1024),
        ("3 x 4", 12),
        ("7 ÷ 2 please", 3.5),
        ("what is 1,000 * 3", 3000),
        ("-(2 + 3) * 2", -10),
        ("7 // 2", 3),
        ("7 % 4", 3),
    ],
)
def test_an_expression_has_its_value(text: str, value: float) -> None:
    assert arithmetic(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "5",
        "",
        "1/0",
        "9^9^9^9",
        "2**999",
        "10^64 * 10^64",
        "(-8) ^ 0.5",
        "((((((1+",
        "__import__('os')",
    ],
)
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        arithmetic(text)


@given(st.text(alphabet="0123456789+-*/%^x().,÷ ", max_size=300))
def test_any_expression_has_a_value_or_is_refused(text: str) -> None:
    try:
        value = arithmetic(text)
    except ValueError:  # no other error
        value = 0.0
    assert abs(value) <= 1e100


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("(12.5 + 3) * 4", {"calculate"}),
        ("Which weekday is it?", {"current_time"}),
        ("Write me a poem about cats", set()),
        ("hi", set()),
    ],
)
def test_the_local_score_tells_the_tasks_apart(task: str, wanted: set[str]) -> None:
    scores = LocalScorer(default_application().registry).probabilities(task)
    assert {name for name, score in scores.items() if score >= 0.5} == wanted


def test_without_a_capability_the_answer_says_that_there_is_no_model() -> None:
    text = asyncio.run(OfflineModel().complete(Prompt("Answer the person. Results: none", "hi"), timeout=1))
    assert "no model" in text.lower()


def test_what_cannot_be_calculated_ends_in_an_answer_that_says_why() -> None:
    application = default_application()
    object.__setattr__(application, "model", OfflineModel())
    state = asyncio.run(Agent(application).run("What is 1 / 0?"))
    assert state["control_outcome"] == "error"
    assert "division by zero" in state["response"]
    assert json.loads(json.dumps(state)) == state
