"""Whole runs: the loops of the original, side by side with ours, and random ones that must all end."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pointsman.compat.routing import StateManager
from pointsman.orchestrator.machine import END, ErrorClassification, ErrorSeverity, Limits, decide
from pointsman.orchestrator.progress import failed, succeeded, waited
from support.examples import share

State = dict[str, Any]
Node = Callable[[State], State]  # returns an update or raises Failure


class Failure(Exception):
    def __init__(self, severity: ErrorSeverity) -> None:
        super().__init__(severity)
        self.classification = ErrorClassification(severity, "it broke")


def fails(severity: ErrorSeverity) -> Node:
    def node(state: State) -> State:
        raise Failure(severity)

    return node


def in_turn(*nodes: Node) -> Node:
    """Behave like each of ``nodes`` once, then like the last."""
    left = list(nodes)
    return lambda state: (left.pop(0) if len(left) > 1 else left[0])(state)


def plans(*names: str) -> Node:
    return lambda state: {"planning_execution_plan": {"steps": [{"capability": name} for name in names]}}


GOOD: dict[str, Node] = {
    "task_extraction": lambda state: {"task_current_task": "Check weather"},
    "classifier": lambda state: {"planning_active_capabilities": ["current_weather"]},
    "orchestrator": plans("current_weather", "respond"),
    "current_weather": lambda state: {},
    "respond": lambda state: {"response": "sunny"},
    "clarify": lambda state: {"response": "where?"},
    "error": lambda state: {"response": "sorry"},
}


def run(nodes: Mapping[str, Node], state: State | None = None, limits: Limits | None = None) -> list[str]:
    """Drive ``decide`` with in-memory nodes; the visited nodes, END included."""
    state = dict(StateManager.create_fresh_state("weather?")) | (state or {})
    visited: list[str] = []
    for _ in range(500):
        move = decide(state, limits or Limits())
        state |= {**waited(state, move.delay), **move.update}
        visited.append(move.next)
        if move.next == END:
            return visited
        try:
            state |= succeeded(state, move.next, nodes[move.next](state), 0.0)
        except Failure as failure:
            state |= failed(state, move.next, failure.classification, 0.0)
        json.dumps(state)
    raise AssertionError(f"no end in sight: {visited[-6:]}")


def naive_run(nodes: Mapping[str, Node], limit: int = 50) -> list[str]:
    """The seed's router exactly as written, under a framework that discards what an edge writes.

    Every node's failure is recorded, and no node clears the error of another: as in the original.
    """
    state: State = {"messages": []}
    visited: list[str] = []
    while len(visited) < limit:
        target = _naive_edge(dict(state))
        visited.append(target)
        if target in {"respond", "clarify", "error", "fatal"}:
            return visited
        try:
            state |= nodes[target](state)
            if target == "current_weather":
                state["planning_current_step_index"] = state.get("planning_current_step_index", 0) + 1
        except Failure as failure:
            state |= {
                "control_has_error": True,
                "failed": target,
                "severity": failure.classification.severity,
            }
    raise RecursionError


def _naive_edge(state: State) -> str:
    if state.get("control_has_error"):
        count = state.get("control_retry_count", 0)
        if state["severity"] == ErrorSeverity.RETRIABLE:
            if count < 3:
                state["control_retry_count"] = count + 1  # written inside an edge: discarded
                return str(state["failed"])
            return "error"
        if state["severity"] == ErrorSeverity.RECLASSIFICATION:
            return "classifier" if state.get("control_reclassification_count", 0) < 1 else "error"
        if state["severity"] == ErrorSeverity.REPLANNING:
            return "orchestrator" if state.get("control_plans_created_count", 0) < 2 else "error"
        return "error"
    if not state.get("task_current_task"):
        return "task_extraction"
    if not state.get("planning_active_capabilities"):
        return "classifier"
    if not state.get("planning_execution_plan"):
        return "orchestrator"
    steps = state["planning_execution_plan"]["steps"]
    return str(steps[state.get("planning_current_step_index", 0)]["capability"])


#: (what the broken nodes are, where the run goes after task extraction). Built anew for each run.
LOOPS: dict[str, tuple[Callable[[], dict[str, Node]], list[str]]] = {
    "counters written in an edge are lost: a step that keeps failing": (
        lambda: {"current_weather": fails(ErrorSeverity.RETRIABLE)},
        ["classifier", "orchestrator", *["current_weather"] * 4, "error", END],
    ),
    "a failing infrastructure node": (
        lambda: {"classifier": fails(ErrorSeverity.RETRIABLE)},
        [*["classifier"] * 5, "error", END],
    ),
    "one failure of the classifier followed by success": (
        lambda: {"classifier": in_turn(fails(ErrorSeverity.RETRIABLE), GOOD["classifier"])},
        ["classifier", "classifier", "orchestrator", "current_weather", "respond", END],
    ),
    "a capability that always asks for reclassification": (
        lambda: {"current_weather": fails(ErrorSeverity.RECLASSIFICATION)},
        ["classifier", "orchestrator", "current_weather"] * 2 + ["error", END],
    ),
    "an orchestrator that always asks to replan": (
        lambda: {"orchestrator": fails(ErrorSeverity.REPLANNING)},
        ["classifier", "orchestrator", "orchestrator", "error", END],
    ),
    "an orchestrator that never makes a plan": (
        lambda: {"orchestrator": lambda state: {}},
        ["classifier", "orchestrator", "error", END],
    ),
    "an empty selection": (
        lambda: {"classifier": lambda state: {"planning_active_capabilities": []}},
        ["classifier", "respond", END],
    ),
    "a task extraction that finds no task": (
        lambda: {"task_extraction": lambda state: {"task_current_task": ""}},
        ["error", END],
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_of_the_original_is_bounded(name: str) -> None:
    broken, expected = LOOPS[name]
    assert run(GOOD | broken())[1:] == expected


@pytest.mark.parametrize("name", LOOPS)
def test_the_original_runs_into_its_recursion_limit(name: str) -> None:
    with pytest.raises(RecursionError):
        naive_run(GOOD | LOOPS[name][0]())


def test_reclassification_under_bypass_becomes_replanning_and_ends() -> None:
    broken = GOOD | {"current_weather": fails(ErrorSeverity.RECLASSIFICATION)}
    visited = run(broken, {"control_capability_bypass": True})
    assert visited[-2:] == ["error", END]
    assert visited.count("classifier") == 1
    assert visited.count("orchestrator") == 2


def test_a_fatal_failure_is_not_swallowed() -> None:
    assert run(GOOD | {"current_weather": fails(ErrorSeverity.FATAL)})[-2:] == ["current_weather", END]
    naive = naive_run(GOOD | {"current_weather": fails(ErrorSeverity.FATAL)})
    assert naive[-1] == "error"  # like any other failure


def test_the_time_limit_is_read() -> None:
    slow = GOOD | {"current_weather": lambda state: {"control_elapsed_seconds": 400.0}}

    def orchestrator(state: State) -> State:
        return {"planning_execution_plan": {"steps": [{"capability": "current_weather"}] * 5}}

    def step(state: State) -> State:
        state["control_elapsed_seconds"] += 150.0
        return {}

    visited = run(slow | {"orchestrator": orchestrator, "current_weather": step})
    assert visited.count("current_weather") == 2
    assert visited[-2:] == ["error", END]


def test_a_success_resets_the_retry_counter() -> None:
    twice = in_turn(*[fails(ErrorSeverity.RETRIABLE)] * 3, lambda state: {})
    weather = GOOD | {
        "current_weather": twice,
        "orchestrator": plans("current_weather", "rain", "respond"),
        "classifier": lambda state: {"planning_active_capabilities": ["current_weather", "rain"]},
        "rain": in_turn(*[fails(ErrorSeverity.RETRIABLE)] * 3, lambda state: {}),
    }
    assert run(weather)[-2:] == ["respond", END]


def test_a_new_turn_does_not_meet_the_last_turns_error() -> None:
    old = {"control_has_error": True, "control_outcome": "error", "capability_context_data": {"k": 1}}
    fresh = StateManager.create_fresh_state("again", old)
    assert decide(old | fresh).next == "task_extraction"
    assert fresh["capability_context_data"] == {"k": 1}


def test_a_new_turn_begins_with_no_switch_set_and_nothing_counted() -> None:
    fresh = StateManager.create_fresh_state("go")
    controls = {key: value for key, value in fresh.items() if key.startswith("control_")}
    assert controls
    assert not any(controls.values())


EVENTS = st.one_of(
    st.sampled_from(["ok", "ok", "ok", "nothing", "empty", "unselected", "kill", "flag"]),
    st.sampled_from(list(ErrorSeverity)),
)


@pytest.mark.slow
@settings(max_examples=share(2))
@given(
    events=st.lists(st.tuples(EVENTS, st.floats(0, 80)), max_size=150),
    bypass=st.booleans(),
    limits=st.builds(
        Limits,
        max_reclassifications=st.integers(0, 3),
        max_planning_attempts=st.integers(1, 4),
        max_step_retries=st.integers(0, 4),
        max_steps=st.integers(1, 40),
    ),
)
def test_every_run_ends_within_its_limits(
    events: list[tuple[str, float]], bypass: bool, limits: Limits
) -> None:
    """Whatever its nodes do, a run ends in respond, clarify, error or end, and no bound is passed."""
    queue = iter(events)
    state: State = dict(StateManager.create_fresh_state("go")) | {"control_capability_bypass": bypass}
    visited: list[str] = []
    while True:
        move = decide(state, limits)
        assert decide(state, limits) == move  # deterministic
        # No wait and no work begins past the deadline, except telling the person.
        if move.next not in {"error", END}:
            begun = state["control_elapsed_seconds"] + move.delay
            assert begun < limits.max_execution_time_seconds
        state |= {**waited(state, move.delay), **move.update}
        visited.append(move.next)
        assert len(visited) <= limits.max_steps + 2  # the error node and the end come on top
        if move.next == END:
            break
        event, seconds = next(queue, ("ok", 0.0))
        _play(state, move.next, event, seconds)
    last = visited[-2] if len(visited) > 1 else END
    fatal = state["control_is_killed"] and state["control_has_error"]
    assert last in {"respond", "clarify", "error"} or fatal
    assert state["control_outcome"] in {"respond", "clarify", "error", END}
    assert state["control_reclassification_count"] <= limits.max_reclassifications
    assert state["control_plans_created_count"] <= limits.max_planning_attempts
    for node in set(visited) - {END}:
        rounds = limits.max_planning_attempts + limits.max_reclassifications
        assert _longest_streak(visited, node) <= (limits.retries(node) + 1) * rounds
    assert json.loads(json.dumps(state)) == state


def _play(state: State, node: str, event: str, seconds: float) -> None:
    if isinstance(event, ErrorSeverity):
        state |= failed(state, node, ErrorClassification(event, "it broke"), seconds)
        return
    if event == "kill":
        state["control_is_killed"] = True
    steps = ["current_weather", "rain", "respond"]
    made: dict[str, State] = {
        "task_extraction": {"task_current_task": "" if event == "empty" else "weather"},
        "classifier": {
            "planning_active_capabilities": [] if event == "empty" else ["current_weather", "rain"]
        },
        "orchestrator": {
            "planning_execution_plan": {
                "steps": [{"capability": name} for name in (["ghost"] if event == "unselected" else steps)]
            }
        },
    }
    update = {} if event == "nothing" else dict(made.get(node, {}))
    if event == "flag":
        update["control_needs_reclassification"] = True
    state |= succeeded(state, node, update, seconds)


def _longest_streak(visited: list[str], node: str) -> int:
    best = streak = 0
    for name in visited:
        streak = streak + 1 if name == node else 0
        best = max(best, streak)
    return best
