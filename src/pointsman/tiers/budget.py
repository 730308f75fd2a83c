"""What asking models for tiers may cost: a share of the requests, and money.

Counts go in, "may" or "may not" comes out; whoever drives keeps the counts and says what time it is.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["Spending", "VerificationBudget"]

#: Seconds after which counting starts anew.
DAY: Final = 86_400.0


class Spending(msgspec.Struct, frozen=True, gc=False):
    """What was asked and paid since ``opened_at``."""

    opened_at: float = 0.0  # seconds since the epoch
    requests: int = 0
    asked: int = 0
    money: float = 0.0  # in the currency of the prices


class VerificationBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Limits a day. ``None`` for money means only the share limits."""

    share: float = 0.15  # of requests; as documented for [tiers.verify]
    money_per_day: float | None = None

    def request(self, spending: Spending, now: float) -> Spending:
        """Count a request, whether or not it asks: once each, before ``refuses``."""
        if now - spending.opened_at >= DAY:
            spending = Spending(opened_at=now)
        return msgspec.structs.replace(spending, requests=spending.requests + 1)

    def refuses(self, spending: Spending, price: float) -> str:
        """Why this request may not ask for ``price``; empty when it may."""
        if spending.asked >= self.share * spending.requests:
            return f"{spending.asked} of {spending.requests} requests have asked, the share is {self.share:g}"
        if self.money_per_day is not None and spending.money + price > self.money_per_day:
            return f"{spending.money:.4f} of {self.money_per_day:g} is spent"
        return ""

    def ask(self, spending: Spending, price: float) -> Spending:
        """Count a question and what it cost."""
        return msgspec.structs.replace(spending, asked=spending.asked + 1, money=spending.money + price)
