"""Public test doubles, and contract checks of the ports that a program can implement itself."""

from __future__ import annotations

from pointsman.stores.ledger import MemoryLedger
from pointsman.testing.ledger import a_decision, a_run_entry, an_attempt, ledger_checks
from pointsman.testing.models import (
    HANG,
    REPLY,
    Scene,
    ScriptedModel,
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
    "ScriptedModel",
    "a_decision",
    "a_run_entry",
    "an_attempt",
    "build_context",
    "build_context_with_errors",
    "build_trajectory",
    "chat_model_checks",
    "ledger_checks",
    "session_store_checks",
]
