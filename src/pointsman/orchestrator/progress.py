"""State updates after a node has run, with counters. Shared by every driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pointsman.orchestrator._facts import ErrorClassification, ErrorSeverity
from pointsman.orchestrator._recorder import DECLINED, with_step
from pointsman.orchestrator.state import INFRASTRUCTURE, TERMINAL, AgentState, results_of, step_index

__all__ = ["failed", "missing", "refused", "succeeded", "waited"]


def succeeded(
    state: Mapping[str, Any], node: str, update: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """The update of a node that returned ``update`` after ``seconds`` of work."""
    done: dict[str, Any] = {**update, **waited(state, seconds)}
    if node in TERMINAL:
        done |= {"control_outcome": node, "control_has_error": False}
    elif node not in INFRASTRUCTURE:
        done["planning_current_step_index"] = step_index(state) + 1
        done |= with_step(state, node, _result(update, node), failed=False)
    return done


def failed(
    state: Mapping[str, Any], node: str, classification: ErrorClassification, seconds: float, result: str = ""
) -> AgentState:
    """The update of a node that raised, ``seconds`` after it began; ``result`` is what its step came to."""
    info = {"capability_name": node, "classification": classification.to_state()}
    step = with_step(state, node, result or classification.user_message, failed=True)
    return {"control_has_error": True, "control_error_info": info, **waited(state, seconds), **step}


def refused(state: Mapping[str, Any], node: str) -> AgentState:
    """The update of a step a person did not allow: the plan has to do without it."""
    told = ErrorClassification(ErrorSeverity.REPLANNING, f"the person did not allow {node}")
    return failed(state, node, told, 0.0, DECLINED)


def missing(state: Mapping[str, Any], node: str) -> AgentState:
    """The update of a step that calls what can be selected but not run."""
    told = ErrorClassification(ErrorSeverity.REPLANNING, f'there is no capability "{node}"')
    return failed(state, node, told, 0.0)


def _result(update: Mapping[str, Any], node: str) -> object:
    """The result that a capability's update adds, which is its last."""
    made = [entry for entry in results_of(update).values() if entry.get("capability") == node]
    return made[-1].get("value") if made else None


def waited(state: Mapping[str, Any], seconds: float) -> AgentState:
    """Count ``seconds`` of work or waiting against the deadline."""
    return {"control_elapsed_seconds": float(state.get("control_elapsed_seconds") or 0.0) + max(seconds, 0.0)}
