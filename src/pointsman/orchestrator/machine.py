"""Floor 4: which step comes next."""

from __future__ import annotations

from pointsman.orchestrator.limits import DEFAULT_LIMITS, Limits, RetryPolicy
from pointsman.orchestrator.plan import check_plan
from pointsman.orchestrator.router import Move, decide
from pointsman.orchestrator.severity import (
    ClassifiedError,
    ErrorClassification,
    ErrorSeverity,
    classify_error,
)
from pointsman.orchestrator.start import start_turn
from pointsman.orchestrator.state import END, AgentState
from pointsman.orchestrator.table import TABLE, Situation, diagram

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
    "check_plan",
    "classify_error",
    "decide",
    "diagram",
    "start_turn",
]
