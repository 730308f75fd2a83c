"""Public test doubles, and the checks that every implementation of a port must pass."""

from __future__ import annotations

from pointsman.stores.ledger import MemoryLedger
from pointsman.testing.ledger import a_decision, a_run_entry, an_attempt, ledger_checks
from pointsman.testing.models import (
    HANG,
    REPLY,
    Scene,
    ScriptedDecider,
    ScriptedModel,
    budget_store_checks,
    build_context,
    build_context_with_errors,
    build_trajectory,
    chat_model_checks,
    session_store_checks,
)

__all__ = [
    "HANG",
    "REPLY",
    "MemoryLedger",
    "Scene",
    "ScriptedDecider",
    "ScriptedModel",
    "a_decision",
    "a_run_entry",
    "an_attempt",
    "budget_store_checks",
    "build_context",
    "build_context_with_errors",
    "build_trajectory",
    "chat_model_checks",
    "ledger_checks",
    "session_store_checks",
]
