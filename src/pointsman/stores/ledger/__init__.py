"""The ledger: decisions, attempts and outcomes, appended off the request path."""

from __future__ import annotations

from pointsman.stores.ledger._memory import MemoryLedger
from pointsman.stores.ledger._queued import QueuedLedger
from pointsman.stores.ledger._retention import Retention
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._sqlite import SqliteLedger
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Entry,
    Ledger,
    Outcome,
    Outcomes,
    Owner,
    PassedRequest,
    PolicyText,
    PolicyUse,
    PromptText,
    Record,
    RunEntry,
    Search,
    Shadow,
    ShadowAnswer,
    ShadowDecision,
    Upkeep,
    Writes,
)
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position, Spender, Totals
from pointsman.wire.format import CompletionSummary

__all__ = [
    "Attempt",
    "ComparedAnswers",
    "CompletionSummary",
    "DecisionFilter",
    "DecisionRow",
    "Entry",
    "Ledger",
    "MemoryLedger",
    "Outcome",
    "Outcomes",
    "Owner",
    "Page",
    "PassedRequest",
    "PolicyText",
    "PolicyUse",
    "Position",
    "PromptText",
    "QueuedLedger",
    "Record",
    "Retention",
    "RunEntry",
    "Search",
    "Shadow",
    "ShadowAnswer",
    "ShadowDecision",
    "Spender",
    "SpillFile",
    "SqliteLedger",
    "Totals",
    "Upkeep",
    "Writes",
]
