"""Budget stores: how much of each limit is used, and by which requests in progress."""

from __future__ import annotations

from pointsman.stores.budgets._memory import MemoryBudgets
from pointsman.stores.budgets._sqlite import SqliteBudgets
from pointsman.stores.budgets._valkey import ValkeyBudgets
from pointsman.stores.budgets.port import BudgetStore, Claim, Reserved, Settlement

__all__ = [
    "BudgetStore",
    "Claim",
    "MemoryBudgets",
    "Reserved",
    "Settlement",
    "SqliteBudgets",
    "ValkeyBudgets",
]
