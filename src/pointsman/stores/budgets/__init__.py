"""Budget stores: how much of each limit is used, and by which requests in progress."""

from __future__ import annotations

from pointsman.stores.budgets._postgres import PostgresBook
from pointsman.stores.budgets._sqlite import SqliteBook, SqliteBudgets
from pointsman.stores.budgets._valkey import ValkeyBudgets
from pointsman.stores.budgets.port import (
    SHARE_SECONDS,
    Book,
    BudgetStore,
    Claim,
    MemoryBudgets,
    Reserved,
    Settlement,
    Spent,
)

__all__ = [
    "SHARE_SECONDS",
    "Book",
    "BudgetStore",
    "Claim",
    "MemoryBudgets",
    "PostgresBook",
    "Reserved",
    "Settlement",
    "Spent",
    "SqliteBook",
    "SqliteBudgets",
    "ValkeyBudgets",
]
