"""Public test doubles, and the checks that every implementation of a port must pass."""

from __future__ import annotations

from pointsman.ledger import MemoryLedger
from pointsman.testing.decider import ScriptedDecider
from pointsman.testing.ledger import a_decision, an_attempt, ledger_checks
from pointsman.testing.sessions import session_store_checks

__all__ = [
    "MemoryLedger",
    "ScriptedDecider",
    "a_decision",
    "an_attempt",
    "ledger_checks",
    "session_store_checks",
]
