"""Plans: only what was selected, only results that exist, always an answer."""

import pytest

from pointsman.orchestrator._plan import step_inputs
from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity, check_plan

ACTIVE = ["find_city", "weather"]


def test_a_good_plan_is_returned_with_every_field() -> None:
    plan = check_plan(
        [
            {"capability": "find_city", "context_key": "city", "task_objective": "which city"},
            {"capability": "weather", "context_key": "report", "inputs": [{"CITY": "city"}]},
            {"capability": "respond", "inputs": ["report"]},
        ],
        active=ACTIVE,
    )
    assert [step["inputs"] for step in plan["steps"]] == [[], ["city"], ["report"]]
    assert [step["task_objective"] for step in plan["steps"]] == ["which city", "", ""]
    assert plan["steps"][2]["context_key"] == "3_respond"


def test_a_plan_without_an_answer_gets_one() -> None:
    assert [s["capability"] for s in check_plan([{"capability": "weather"}], active=ACTIVE)["steps"]] == [
        "weather",
        "respond",
    ]
    assert len(check_plan([{"capability": "clarify"}], active=[])["steps"]) == 1


@pytest.mark.parametrize(
    ("steps", "severity", "message"),
    [
        ("weather", ErrorSeverity.REPLANNING, "not a list"),
        (["weather"], ErrorSeverity.REPLANNING, "not a list"),
        ([], ErrorSeverity.REPLANNING, "no steps"),
        ([{"capability": "email"}], ErrorSeverity.RECLASSIFICATION, '"email"'),
        ([{"task_objective": "no name"}], ErrorSeverity.RECLASSIFICATION, '""'),
        (
            [
                {"capability": "weather", "inputs": ["city"]},
                {"capability": "find_city", "context_key": "city"},
            ],
            ErrorSeverity.REPLANNING,
            "available keys: old_report",
        ),
        (
            [{"capability": "weather", "context_key": "k"}, {"capability": "find_city", "context_key": "k"}],
            ErrorSeverity.REPLANNING,
            "two steps write",
        ),
    ],
)
def test_a_bad_plan_says_what_is_wrong(steps: object, severity: ErrorSeverity, message: str) -> None:
    with pytest.raises(ClassifiedError, match=message) as caught:
        check_plan(steps, active=ACTIVE, context=["old_report"])
    assert caught.value.classification.severity is severity


def test_results_of_earlier_turns_may_be_read() -> None:
    steps = [{"capability": "weather", "inputs": ["old_report"]}]
    assert check_plan(steps, active=ACTIVE, context=["old_report"])


def test_inputs_may_be_keys_or_typed_keys() -> None:
    assert step_inputs({"inputs": [{"A": "x", "B": "y"}, "z"]}) == ["x", "y", "z"]
    assert step_inputs({}) == []
