"""Floor 4: which step comes next."""

from __future__ import annotations

from pointsman.routing.limits import DEFAULT_LIMITS, Limits, RetryPolicy
from pointsman.routing.plan import check_plan
from pointsman.routing.router import Move, decide, router_conditional_edge
from pointsman.routing.severity import ClassifiedError, ErrorClassification, ErrorSeverity, classify_error
from pointsman.routing.start import start_turn
from pointsman.routing.state import END, AgentState, StateManager
from pointsman.routing.table import TABLE, Situation, diagram

__all__ = [
    "DEFAULT_LIMITS",
    "END",
    "TABLE",
    "AgentState",
    "ClassifiedError",
    "ErrorClassification",
    "ErrorSeverity",
    "Limits",
    "Move",
    "RetryPolicy",
    "Situation",
    "StateManager",
    "check_plan",
    "classify_error",
    "decide",
    "diagram",
    "router_conditional_edge",
    "start_turn",
]
