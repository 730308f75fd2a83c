"""The state machine of an agent's run: the next node, within limits."""

from __future__ import annotations

from pointsman.orchestrator._diagram import diagram
from pointsman.orchestrator._phases import Event, Phase
from pointsman.orchestrator._plan import check_plan
from pointsman.orchestrator._severity import (
    ClassifiedError,
    ErrorClassification,
    ErrorSeverity,
    classify_error,
)
from pointsman.orchestrator._start import start_turn
from pointsman.orchestrator.limits import DEFAULT_LIMITS, Limits, RetryPolicy
from pointsman.orchestrator.router import Move, decide
from pointsman.orchestrator.state import END, AgentState
from pointsman.orchestrator.table import TABLE, TRANSITIONS, Situation

__all__ = [
    "DEFAULT_LIMITS",
    "END",
    "TABLE",
    "TRANSITIONS",
    "AgentState",
    "ClassifiedError",
    "ErrorClassification",
    "ErrorSeverity",
    "Event",
    "Limits",
    "Move",
    "Phase",
    "RetryPolicy",
    "Situation",
    "check_plan",
    "classify_error",
    "decide",
    "diagram",
    "start_turn",
]
