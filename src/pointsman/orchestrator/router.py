"""The router: a pure reading of the state. It never waits, never changes what it is given, and always ends.

Why it ends: every node run is counted against ``max_steps``; when any bound is reached the only targets left
are the error node and the end; and after a terminal node has finished, or the error node has failed, the next
move is the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pointsman.orchestrator.effects import apply
from pointsman.orchestrator.limits import DEFAULT_LIMITS, Limits
from pointsman.orchestrator.severity import ErrorClassification, ErrorSeverity
from pointsman.orchestrator.state import (
    END,
    AgentState,
    active_capabilities,
    current_step,
    current_task,
    execution_plan,
    step_index,
)
from pointsman.orchestrator.table import CURRENT_STEP, SAME_NODE, TABLE, Situation
from pointsman.vocabulary import Reason

__all__ = ["Move", "decide", "situation"]


@dataclass(frozen=True, slots=True)
class Move:
    """Where to go next. ``update`` and the route are committed together, or counters are lost."""

    next: str  # a node, a capability, or END
    update: AgentState
    reason: Reason
    delay: float = 0.0  # seconds to wait first; waiting is the driver's business


def decide(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Move:
    """Decide the next move of a run.

    Args:
        state: an ``AgentState``; never changed. Absent keys mean "not yet".
        limits: the bounds of the run.
    """
    found = situation(state, limits)
    rule = TABLE[found]
    detail = rule.why.format(**_facts(state, limits))
    update: AgentState = {}
    for effect in rule.effects:
        update.update(apply(effect, state, detail))
    target = _target(rule.target, state)
    if target != END:
        update["control_current_node"] = target
        update["control_steps_taken_count"] = _count(state, "control_steps_taken_count") + 1
    delay = _retry_delay(state, limits) if found is Situation.RETRY else 0.0
    return Move(target, update, Reason(f"routing.{found}", detail), delay)


def situation(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Situation:
    """Which row of the table applies: errors, then stops, then progress."""
    if state.get("control_has_error"):
        return _error(state, limits)
    return _stop(state, limits) or _progress(state, limits)


def _error(state: Mapping[str, Any], limits: Limits) -> Situation:
    node, classification = _failure(state)
    if node == "error":
        return Situation.ERROR_NODE_FAILED
    if classification is None or not node:
        return Situation.UNCLASSIFIED
    match classification.severity:
        case ErrorSeverity.FATAL:
            return Situation.FATAL
        case ErrorSeverity.CRITICAL:
            return Situation.CRITICAL
        case ErrorSeverity.RETRIABLE:
            return Situation.RETRY if _may_retry(state, limits, node) else Situation.RETRIES_SPENT
        case ErrorSeverity.REPLANNING:
            return _replan(state, limits)
        case ErrorSeverity.RECLASSIFICATION:
            return _reclassify(state, limits)


def _stop(state: Mapping[str, Any], limits: Limits) -> Situation | None:
    if state.get("control_outcome"):
        return Situation.FINISHED
    if state.get("control_is_killed"):
        return Situation.KILLED
    if _elapsed(state) >= limits.max_execution_time_seconds:
        return Situation.DEADLINE
    if _count(state, "control_steps_taken_count") >= limits.max_steps:
        return Situation.STEPS_SPENT
    return None


def _progress(state: Mapping[str, Any], limits: Limits) -> Situation:
    if state.get("control_direct_chat"):
        return Situation.DIRECT_CHAT
    if not current_task(state):
        return _unless_stalled(state, Situation.NO_TASK)
    if state.get("control_needs_reclassification"):
        return _reclassify(state, limits)
    active = active_capabilities(state)
    if active is None:
        return _unless_stalled(state, Situation.NO_SELECTION)
    if not active:
        return Situation.EMPTY_SELECTION
    if execution_plan(state) is None:
        spent = not _plans_left(state, limits)
        return Situation.PLANS_SPENT if spent else _unless_stalled(state, Situation.NO_PLAN)
    return _step(state, limits, active)


def _step(state: Mapping[str, Any], limits: Limits, active: list[str]) -> Situation:
    step = current_step(state)
    if step is None:
        return Situation.PLAN_USED_UP
    if step.get("capability") in {*active, "respond", "clarify"}:
        return Situation.STEP
    return Situation.STEP_REFUSED if _plans_left(state, limits) else Situation.PLANS_SPENT


def _reclassify(state: Mapping[str, Any], limits: Limits) -> Situation:
    if state.get("control_capability_bypass"):
        # Selecting again would give the same set, for ever; another plan over that set may still do.
        return _replan(state, limits)
    left = _count(state, "control_reclassification_count") < limits.max_reclassifications
    return Situation.RECLASSIFY if left and _may_go_on(state, limits) else Situation.RECLASSIFICATIONS_SPENT


def _replan(state: Mapping[str, Any], limits: Limits) -> Situation:
    left = _plans_left(state, limits) and _may_go_on(state, limits)
    return Situation.REPLAN if left else Situation.REPLANS_SPENT


def _unless_stalled(state: Mapping[str, Any], found: Situation) -> Situation:
    """A node that has just run without an error and is needed again would be needed for ever."""
    return Situation.STALLED if state.get("control_current_node") == TABLE[found].target else found


def _may_retry(state: Mapping[str, Any], limits: Limits, node: str) -> bool:
    count = _count(state, "control_retry_count")
    return count < limits.retries(node) and _may_go_on(state, limits, _retry_delay(state, limits))


def _may_go_on(state: Mapping[str, Any], limits: Limits, wait: float = 0.0) -> bool:
    """An error does not suspend the other bounds: no retry of a killed run, none past its deadline."""
    return (
        not state.get("control_is_killed")
        and _elapsed(state) + wait < limits.max_execution_time_seconds
        and _count(state, "control_steps_taken_count") < limits.max_steps
    )


def _plans_left(state: Mapping[str, Any], limits: Limits) -> bool:
    return _count(state, "control_plans_created_count") < limits.max_planning_attempts


def _retry_delay(state: Mapping[str, Any], limits: Limits) -> float:
    node, _ = _failure(state)
    return limits.policy(node).delay(_count(state, "control_retry_count"))


def _failure(state: Mapping[str, Any]) -> tuple[str, ErrorClassification | None]:
    """The failing node and its classification, as far as they can be read."""
    info = state.get("control_error_info")
    if not isinstance(info, Mapping):
        return "", None
    return str(info.get("capability_name") or ""), ErrorClassification.from_state(info.get("classification"))


def _target(target: str, state: Mapping[str, Any]) -> str:
    if target == SAME_NODE:
        return _failure(state)[0]
    if target == CURRENT_STEP:
        return str((current_step(state) or {})["capability"])
    return target


def _facts(state: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """What the table's explanations may mention."""
    node, classification = _failure(state)
    step = current_step(state) or {}
    return {
        "node": node or state.get("control_current_node") or "a step",
        "message": (classification and classification.user_message)
        or state.get("control_reclassification_reason")
        or "no reason given",
        "retry": _count(state, "control_retry_count") + 1,
        "retries": limits.retries(node),
        "reclassifications": limits.max_reclassifications,
        "plans": limits.max_planning_attempts,
        "steps": limits.max_steps,
        "seconds": limits.max_execution_time_seconds,
        "outcome": state.get("control_outcome", ""),
        "kill": state.get("control_kill_reason") or "asked to stop",
        "last": state.get("control_current_node", ""),
        "index": step_index(state) + 1,
        "length": len(execution_plan(state) or []),
        "step": step.get("capability", "nothing"),
    }


def _count(state: Mapping[str, Any], key: str) -> int:
    return int(state.get(key) or 0)


def _elapsed(state: Mapping[str, Any]) -> float:
    return float(state.get("control_elapsed_seconds") or 0.0)
