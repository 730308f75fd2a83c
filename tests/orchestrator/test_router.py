"""The router's table, row by row: the seed's flow, every severity, every limit, and the near misses."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointsman.compat.routing import router_conditional_edge
from pointsman.orchestrator._facts import Facts
from pointsman.orchestrator.machine import (
    DEFAULT_LIMITS,
    END,
    TABLE,
    TRANSITIONS,
    ErrorClassification,
    ErrorSeverity,
    Event,
    Limits,
    Phase,
    RetryPolicy,
    Situation,
    decide,
    event_in,
    phase_of,
)
from pointsman.orchestrator.state import INFRASTRUCTURE
from pointsman.orchestrator.table import CURRENT_STEP, GUARDS, PHASES, SAME_NODE, check_complete

PLAN = {"steps": [{"capability": "current_weather"}, {"capability": "respond"}]}
READY = {
    "task_current_task": "Check weather",
    "planning_active_capabilities": ["current_weather", "respond"],
    "planning_execution_plan": PLAN,
}


def failing(severity: ErrorSeverity, node: str = "current_weather", **state: object) -> dict[str, object]:
    classification = ErrorClassification(severity, "no data").to_state()
    error = {"capability_name": node, "classification": classification}
    return READY | {"control_has_error": True, "control_error_info": error} | state


def test_the_seeds_router_decision_flow() -> None:
    state: dict[str, object] = {"task_current_task": "Check weather"}
    assert router_conditional_edge(state) == "classifier"
    state["planning_active_capabilities"] = ["current_weather", "respond"]
    assert router_conditional_edge(state) == "orchestrator"
    state["planning_execution_plan"] = PLAN
    assert router_conditional_edge(state) == "current_weather"
    state["planning_current_step_index"] = 1
    assert router_conditional_edge(state) == "respond"


def test_the_seeds_reclassification_message_is_kept() -> None:
    move = decide(failing(ErrorSeverity.RECLASSIFICATION))
    assert move.next == "classifier"
    assert (
        move.update["control_reclassification_reason"]
        == "Capability current_weather requested reclassification: no data"
    )
    assert move.update["control_reclassification_count"] == 1
    assert move.update["planning_active_capabilities"] is None
    assert move.update["planning_execution_plan"] is None
    assert move.update["control_has_error"] is False


@pytest.mark.parametrize(
    ("state", "situation"),
    [
        ({}, Situation.NO_TASK),
        ({"control_direct_chat": True}, Situation.DIRECT_CHAT),
        ({"task_current_task": "x"}, Situation.NO_SELECTION),
        ({"task_current_task": "x", "control_current_node": "classifier"}, Situation.STALLED),
        ({"task_current_task": "x", "planning_active_capabilities": []}, Situation.EMPTY_SELECTION),
        (READY | {"planning_execution_plan": None}, Situation.NO_PLAN),
        (READY | {"planning_execution_plan": {"steps": []}}, Situation.NO_PLAN),
        (READY | {"planning_execution_plan": "nonsense"}, Situation.NO_PLAN),
        (
            READY | {"planning_execution_plan": None, "control_plans_created_count": 1},
            Situation.NO_PLAN,
        ),
        (
            READY | {"planning_execution_plan": None, "control_plans_created_count": 2},
            Situation.PLANS_SPENT,
        ),
        (READY, Situation.STEP),
        (READY | {"planning_current_step_index": 2}, Situation.PLAN_USED_UP),
        (READY | {"planning_current_step_index": -1}, Situation.PLAN_USED_UP),
        (READY | {"planning_active_capabilities": ["stocks"]}, Situation.STEP_REFUSED),
        (
            READY | {"planning_active_capabilities": ["stocks"], "control_plans_created_count": 2},
            Situation.PLANS_SPENT,
        ),
        (READY | {"control_needs_reclassification": True}, Situation.RECLASSIFY),
        (READY | {"control_is_killed": True}, Situation.KILLED),
        (READY | {"control_is_killed": True, "control_outcome": "error"}, Situation.FINISHED),
        (READY | {"control_elapsed_seconds": 299.9}, Situation.STEP),
        (READY | {"control_elapsed_seconds": 300.0}, Situation.DEADLINE),
        (READY | {"control_steps_taken_count": 99}, Situation.STEP),
        (READY | {"control_steps_taken_count": 100}, Situation.STEPS_SPENT),
        (READY | {"control_has_error": True}, Situation.UNCLASSIFIED),
        (
            READY | {"control_has_error": True, "control_error_info": {"capability_name": "x"}},
            Situation.UNCLASSIFIED,
        ),
        (failing(ErrorSeverity.CRITICAL), Situation.CRITICAL),
        (failing(ErrorSeverity.FATAL), Situation.FATAL),
        (failing(ErrorSeverity.RETRIABLE), Situation.RETRY),
        (failing(ErrorSeverity.RETRIABLE, control_retry_count=2), Situation.RETRY),
        (failing(ErrorSeverity.RETRIABLE, control_retry_count=3), Situation.RETRIES_SPENT),
        (failing(ErrorSeverity.RETRIABLE, "classifier", control_retry_count=3), Situation.RETRY),
        (failing(ErrorSeverity.RETRIABLE, "classifier", control_retry_count=4), Situation.RETRIES_SPENT),
        (failing(ErrorSeverity.RETRIABLE, control_is_killed=True), Situation.RETRIES_SPENT),
        (failing(ErrorSeverity.RETRIABLE, control_elapsed_seconds=299.4), Situation.RETRY),
        (failing(ErrorSeverity.RETRIABLE, control_elapsed_seconds=299.6), Situation.RETRIES_SPENT),
        (failing(ErrorSeverity.RETRIABLE, "error"), Situation.ERROR_NODE_FAILED),
        (failing(ErrorSeverity.REPLANNING), Situation.REPLAN),
        (failing(ErrorSeverity.REPLANNING, control_plans_created_count=2), Situation.REPLANS_SPENT),
        (failing(ErrorSeverity.REPLANNING, control_steps_taken_count=100), Situation.REPLANS_SPENT),
        (failing(ErrorSeverity.RECLASSIFICATION), Situation.RECLASSIFY),
        (
            failing(ErrorSeverity.RECLASSIFICATION, control_reclassification_count=1),
            Situation.RECLASSIFICATIONS_SPENT,
        ),
        (failing(ErrorSeverity.RECLASSIFICATION, control_capability_bypass=True), Situation.REPLAN),
    ],
)
def test_situations(state: dict[str, object], situation: Situation) -> None:
    before = copy.deepcopy(state)
    move = decide(state)
    assert move.reason.code == f"routing.{situation}"
    assert state == before
    json.dumps(move.update)


def test_every_situation_is_reached_by_the_table_above() -> None:
    marks = test_situations.pytestmark  # type: ignore[attr-defined]
    assert {case[1] for case in marks[0].args[1]} == set(Situation)


def test_every_transition_is_taken_by_the_table_above() -> None:
    stalled = {"task_current_task": "x", "planning_active_capabilities": ["a"]}
    more = [
        {"control_current_node": "task_extraction"},
        stalled | {"control_current_node": "orchestrator"},
    ]
    marks = test_situations.pytestmark  # type: ignore[attr-defined]
    runs = [Facts(state, DEFAULT_LIMITS) for state in [*(case[0] for case in marks[0].args[1]), *more]]
    assert {(phase := phase_of(run), event_in(phase, run)) for run in runs} == set(TRANSITIONS)


@pytest.mark.parametrize("pair", [(Phase.RETRIABLE, Event.SPENT), (Phase.READY, Event.OPEN)])
def test_a_machine_without_a_pair_is_refused(pair: tuple[Phase, Event]) -> None:
    without = {key: situation for key, situation in TRANSITIONS.items() if key != pair}
    with pytest.raises(TypeError, match=f"transitions: missing .*{pair[0]}"):
        check_complete(without, TABLE)


def test_a_pair_that_cannot_occur_is_refused() -> None:
    more = {**TRANSITIONS, (Phase.FATAL, Event.SPENT): Situation.FATAL}
    with pytest.raises(TypeError, match=r"superfluous .*fatal"):
        check_complete(more, TABLE)


def test_a_situation_without_a_rule_is_refused() -> None:
    rules = dict(TABLE)
    del rules[Situation.RETRY]
    with pytest.raises(TypeError, match=r"rules of situations: missing .*retry"):
        check_complete(TRANSITIONS, rules)


@pytest.mark.parametrize(
    ("node", "delays"),
    [
        ("current_weather", [0.5, 0.75, 1.125]),
        ("task_extraction", [1.0, 1.5, 2.25]),
        ("classifier", [1.0, 1.8, 3.24, 5.832]),
        ("orchestrator", [2.0, 4.0, 8.0, 16.0]),
    ],
)
def test_retries_wait_longer_each_time_and_stop(node: str, delays: list[float]) -> None:
    for count, delay in enumerate(delays):
        move = decide(failing(ErrorSeverity.RETRIABLE, node, control_retry_count=count))
        assert move.next == node
        assert move.delay == pytest.approx(delay)
        assert move.update["control_retry_count"] == count + 1
    assert decide(failing(ErrorSeverity.RETRIABLE, node, control_retry_count=len(delays))).next == "error"


def test_a_step_is_never_retried_more_than_the_run_allows() -> None:
    patient = {"current_weather": RetryPolicy(max_retries=9)}
    limits = Limits(max_step_retries=1, policies=patient)
    assert decide(failing(ErrorSeverity.RETRIABLE), limits).next == "current_weather"
    assert decide(failing(ErrorSeverity.RETRIABLE, control_retry_count=1), limits).next == "error"


def test_a_fatal_failure_ends_the_run_and_stays_visible() -> None:
    state = failing(ErrorSeverity.FATAL)
    move = decide(state)
    assert move.next == END
    after = state | move.update
    assert after["control_has_error"]
    assert after["control_is_killed"]
    assert decide(after).next == END


def test_the_error_node_is_told_why_a_run_was_stopped() -> None:
    move = decide(READY | {"control_is_killed": True, "control_kill_reason": "user pressed stop"})
    told = move.update["control_error_info"]
    assert told is not None
    assert told["classification"]["user_message"] == "the run was stopped: user pressed stop"


def test_an_orchestrators_reason_for_reclassification_is_kept() -> None:
    flagged = READY | {
        "control_needs_reclassification": True,
        "control_reclassification_reason": "the plan needs a map",
        "control_current_node": "orchestrator",
    }
    reason = decide(flagged).update["control_reclassification_reason"]
    assert reason == "Capability orchestrator requested reclassification: the plan needs a map"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_reason_for_reclassification_is_not_wrapped_twice(times: int) -> None:
    """The source's router writes the reason with its prefix, and so may a capability."""
    wrapped = "Capability mail requested reclassification: " * times + "no inbox"
    flagged = READY | {"control_needs_reclassification": True, "control_reclassification_reason": wrapped}
    told = ErrorClassification(ErrorSeverity.RECLASSIFICATION, wrapped).to_state()
    raised = READY | {
        "control_has_error": True,
        "control_error_info": {"capability_name": "mail", "classification": told},
    }
    for state in (flagged, raised):
        reason = decide(state).update["control_reclassification_reason"]
        assert reason == "Capability mail requested reclassification: no inbox"


def test_each_rule_fills_its_explanation() -> None:
    for situation, rule in TABLE.items():
        assert rule.why, situation


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_planning_attempts": 0},
        {"max_steps": 0},
        {"max_reclassifications": -1},
        {"max_execution_time_seconds": 0},
    ],
)
def test_limits_that_allow_no_run_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Limits(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"max_retries": -1}, {"delay_seconds": -1}, {"backoff_factor": 0.5}])
def test_retry_policies_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a retry policy needs"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


def test_default_limits_are_the_design_pages() -> None:
    limits = DEFAULT_LIMITS
    assert (limits.max_reclassifications, limits.max_planning_attempts, limits.max_steps) == (1, 2, 100)
    assert limits.max_execution_time_seconds == 300


BOXES = {
    END: "fin([end])",
    SAME_NODE: "same[[the node that failed]]",
    CURRENT_STEP: "step[[the step]]",
}


def diagram() -> str:
    """The machine as a Mermaid flowchart: an arrow for each target, a line on it for each way there."""
    lines = ["flowchart LR", "    router{router}"]
    for target in dict.fromkeys(rule.target for rule in TABLE.values()):
        labels = "<br>".join(_labels(target))
        lines.append(f'    router -->|"{labels}"| {BOXES.get(target, f"{target}[{target}]")}')
    lines += [f"    {node} --> router" for node in ("step", "same", *INFRASTRUCTURE)]
    return "\n".join(lines)


def _labels(target: str) -> Iterator[str]:
    for (phase, event), situation in TRANSITIONS.items():
        if TABLE[situation].target == target:
            yield f"{situation}: {_condition(phase, event)}"


def _condition(phase: Phase, event: Event) -> str:
    """What must hold for a transition: the phase's condition, then those of its guards in brackets."""
    found = " or ".join(condition.words for each, condition in PHASES if each is phase)
    guards = GUARDS.get(phase, ())
    if event is Event.OPEN:
        asked = ", ".join(guard.words for guard in guards)
    else:
        asked = " or ".join(guard.failing for guard in guards if guard.otherwise is event)
    return f"{found} [{asked}]" if asked else found


def test_the_documented_diagram_is_the_tables() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "routing.md"
    assert f"```mermaid\n{diagram()}\n```" in page.read_text(encoding="utf-8"), (
        "docs/explanation/routing.md: put what diagram() of this file returns there"
    )


@pytest.mark.parametrize(
    ("elapsed", "situation"),
    [(299.499, Situation.RETRY), (299.5, Situation.RETRIES_SPENT), (299.501, Situation.RETRIES_SPENT)],
)
def test_no_retry_begins_when_the_time_is_up(elapsed: float, situation: Situation) -> None:
    move = decide(failing(ErrorSeverity.RETRIABLE, control_elapsed_seconds=elapsed))  # the wait takes 0.5 s
    assert move.reason.code == f"routing.{situation}"


def test_every_move_to_a_node_counts_one_step_and_only_a_retry_waits() -> None:
    marks = test_situations.pytestmark  # type: ignore[attr-defined]
    for state, situation in marks[0].args[1]:
        move = decide(state)
        taken = state.get("control_steps_taken_count", 0)
        assert move.update.get("control_steps_taken_count", 0) == (0 if move.next == END else taken + 1)
        assert (move.delay > 0) is (situation is Situation.RETRY)
