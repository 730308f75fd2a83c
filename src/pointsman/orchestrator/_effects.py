"""Named state updates, so that the transition table stays data."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pointsman.orchestrator._facts import ErrorClassification, ErrorSeverity
from pointsman.orchestrator.state import END, AgentState


class Effect(StrEnum):
    """Everything a row of the table can change, other than the route."""

    COUNT_RETRY = "count retry"  # one more try; the counter outlives the error until something succeeds
    RESET_RETRIES = "reset retries"  # the last node succeeded
    FORGET_ERROR = "forget error"  # the failure is being dealt with
    SELECT_AGAIN = "select again"  # what was chosen and planned goes; why it must be chosen again stays
    COUNT_PLAN = "count plan"  # counted when asked for, so that a plan which never comes counts too
    KEEP_REASON = "keep reason"  # why the last plan did not do, for the next one's prompt
    EXPLAIN_STOP = "explain stop"  # the error node needs something to tell the person
    KILL = "kill"  # nothing may run after this; the error stays in the state, unswallowed


def apply(effect: Effect, state: Mapping[str, Any], detail: str) -> AgentState:
    """The update one effect is responsible for; ``detail`` is the move's explanation."""
    match effect:
        case Effect.COUNT_RETRY:
            return {**_no_error(), "control_retry_count": _next(state, "control_retry_count")}
        case Effect.RESET_RETRIES:
            return {"control_retry_count": 0}
        case Effect.FORGET_ERROR:
            return {**_no_error(), "control_retry_count": 0}
        case Effect.SELECT_AGAIN:
            return {
                "planning_active_capabilities": None,
                "control_needs_reclassification": False,
                "control_reclassification_reason": detail,
                "control_reclassification_count": _next(state, "control_reclassification_count"),
                **_no_plan(),
            }
        case Effect.COUNT_PLAN:
            return {"control_plans_created_count": _next(state, "control_plans_created_count"), **_no_plan()}
        case Effect.KEEP_REASON:
            return {"control_replanning_reason": detail, "control_needs_reclassification": False}
        case Effect.EXPLAIN_STOP:
            told = ErrorClassification(ErrorSeverity.CRITICAL, detail).to_state()
            return {"control_error_info": {"capability_name": "router", "classification": told}}
        case Effect.KILL:
            return {"control_is_killed": True, "control_kill_reason": detail, "control_outcome": END}


def _no_error() -> AgentState:
    return {"control_has_error": False, "control_error_info": None}


def _no_plan() -> AgentState:
    return {"planning_execution_plan": None, "planning_current_step_index": 0}


def _next(state: Mapping[str, Any], key: str) -> int:
    return int(state.get(key) or 0) + 1
