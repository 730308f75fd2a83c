"""Floor 6: what was decided, tried and became of it, appended off the request path."""

from __future__ import annotations

from pointsman.ledger.memory import MemoryLedger
from pointsman.ledger.port import (
    Attempt,
    Entry,
    Ledger,
    Outcome,
    PromptText,
    Record,
    Said,
    Shadow,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.ledger.retention import Retention
from pointsman.ledger.sqlite import SqliteLedger

__all__ = [
    "Attempt",
    "Entry",
    "Ledger",
    "MemoryLedger",
    "Outcome",
    "PromptText",
    "Record",
    "Retention",
    "Said",
    "Shadow",
    "ShadowAnswer",
    "ShadowDecision",
    "SqliteLedger",
]
