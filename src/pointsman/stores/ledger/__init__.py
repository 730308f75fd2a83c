"""The ledger: decisions, attempts and outcomes, appended off the request path to a file or a database."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pointsman.decision.decision import TextMode
from pointsman.errors import MissingExtra
from pointsman.stores.ledger._queued import QueuedLedger
from pointsman.stores.ledger._retention import Retention
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._sqlite import MemoryLedger, SqliteLedger
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

if TYPE_CHECKING:
    from pointsman.stores.ledger.postgres import PostgresLedger

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
    "is_postgres",
    "open_postgres",
]

_SCHEMES: Final = ("postgresql://", "postgres://")


def is_postgres(place: str) -> bool:
    """Whether it is the address of a PostgreSQL database."""
    return place.startswith(_SCHEMES)


def open_postgres(
    url: str,
    *,
    password: str | None = None,
    queue: int = 10_000,
    text: TextMode = "off",
    retention: Retention = Retention(max_mb=None),  # noqa: B008 - a frozen value
    spill: SpillFile | None = None,
) -> PostgresLedger:
    """Return the ledger at an address. Connects with the first use.

    Raises:
        MissingExtra: psycopg is not installed.
        ConfigError: it is no address of PostgreSQL.
    """
    if find_spec("psycopg") is None:
        raise MissingExtra("postgres", needed_for="a ledger in PostgreSQL")
    from pointsman.stores.ledger.postgres import PostgresLedger

    return PostgresLedger(url, password=password, queue=queue, text=text, retention=retention, spill=spill)
