"""Access control: keys, teams and limits, and owners of objects stored upstream."""

from __future__ import annotations

from pointsman.access._access import (
    Access,
    KeyRow,
    LimitRow,
    Ownership,
    PaidQuestions,
    Use,
    build_access,
    open_budgets,
    overview,
    recorded_spending,
    store_kind,
    vouching,
)
from pointsman.access._budgets import Budgets
from pointsman.access._limits import Grant, Kind, Level, Limit, grants, money_text, time_text
from pointsman.access._spending import Hold, Spending

__all__ = [
    "Access",
    "Budgets",
    "Grant",
    "Hold",
    "KeyRow",
    "Kind",
    "Level",
    "Limit",
    "LimitRow",
    "Ownership",
    "PaidQuestions",
    "Spending",
    "Use",
    "build_access",
    "grants",
    "money_text",
    "open_budgets",
    "overview",
    "recorded_spending",
    "store_kind",
    "time_text",
    "vouching",
]
