"""The BudgetStore port: counters of limits, with a reservation for each request in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["LEASE", "BudgetStore", "Claim", "Reserved", "Settlement"]

#: Seconds after which a reservation that nobody settled holds nothing: longer than any answer takes.
LEASE: Final = 3_600


class Claim(NamedTuple):
    """What one request may use of one limit."""

    counter: str  # names limit and window: "money/key/alice/1767225600"
    amount: int  # whole units of the counter: requests, tokens, or billionths of the currency
    limit: int  # the counter's highest value
    seconds: float  # after which the counter may be forgotten


class Reserved(NamedTuple):
    """What became of the claims of one reservation."""

    totals: tuple[int, ...]  # of their counters, in the order of the claims, after it
    refused: int = -1  # place of the first claim without room; -1: all were reserved

    @property
    def ok(self) -> bool:
        """Whether all claims were reserved."""
        return self.refused < 0


class Settlement(NamedTuple):
    """The end of a reservation: what was used takes the place of what was reserved."""

    reservation: str
    used: Mapping[str, int]  # by counter; every one that was claimed


class BudgetStore(Protocol):
    """Every method may raise ``StoreUnavailable``. A counter that is not known is 0."""

    @property
    def waits(self) -> bool:
        """Whether a call may wait for another machine or process; an event loop then uses a thread."""
        ...

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none. Nothing comes between.

        Args:
            reservation: Id, used once.
            claims: At least one; each of another counter.
        """
        ...

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations, all or none.

        A counter whose window is forgotten stays unknown. A reservation that is not known, because it was
        made elsewhere or has expired, held nothing: all that was used is added.
        """
        ...

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return what is used and reserved of each counter."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
