"""What a process may spend while the store of budgets cannot be asked.

All processes together spend at most a tenth of a budget without it, whatever fails and however often: each
has a share of that tenth, and spends it once until the store has counted it. Of a rate limit, which nobody
pays for, the processes share the whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pointsman.errors import StoreUnavailable
from pointsman.stores.budgets import SHARE_SECONDS, Claim, MemoryBudgets, Reserved, Settlement

__all__ = ["TENTH", "Outage"]

#: Part of a budget that all processes together may spend while the store cannot be asked.
TENTH: Final = 0.1


class Outage:
    """Reserves within what this process knows, and within its share. For any thread."""

    def __init__(self, known: MemoryBudgets, clock: Callable[[], float]) -> None:
        """Begin without a share. ``known``: the totals that were heard last; ``clock``: seconds."""
        self._known: Final = known
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._share = 0.0
        self._until = float("-inf")
        self._spent: Final[dict[str, int]] = {}  # by counter: reserved or used, and not yet counted there
        self._reserved: Final[dict[str, Sequence[Claim]]] = {}

    def share(self, share: float, began: float) -> None:
        """Take the share that the store has given at a moment of the clock, or later."""
        with self._lock:
            self._share, self._until = share, began + SHARE_SECONDS

    def reserve(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        """Reserve all claims, or none, without the store.

        Raises:
            StoreUnavailable: the share of this process is used up, so nobody can vouch for a budget.
        """
        with self._lock:
            for claim in claims:
                spent = self._spent.get(claim.counter, 0)
                if spent + claim.amount > self._most(claim):
                    raise StoreUnavailable(
                        "no store can vouch for a budget, and this process has spent its share for an outage",
                        hint="the store of budgets has to answer; see [access]",
                    )
            found = self._known.reserve(reservation, claims)
            if found.ok:
                self._reserved[reservation] = claims
                for claim in claims:
                    self._spent[claim.counter] = self._spent.get(claim.counter, 0) + claim.amount
        return found

    def settled(self, reservation: str, used: Mapping[str, int]) -> Sequence[Claim]:
        """Note the end of a reservation; return its claims if the store was not asked for it."""
        if not self._reserved:
            return ()
        with self._lock:
            claims = self._reserved.pop(reservation, ())
            for claim in claims:
                self._spent[claim.counter] += used.get(claim.counter, 0) - claim.amount
        return claims

    def delivered(self, settlements: Sequence[Settlement]) -> None:
        """Note that the store has counted settlements: what they used is spent without it no longer."""
        with self._lock:
            for _, used, claims in settlements:
                for claim in claims:
                    left = self._spent.get(claim.counter, 0) - used.get(claim.counter, 0)
                    if left > 0:
                        self._spent[claim.counter] = left
                    else:
                        self._spent.pop(claim.counter, None)

    def _most(self, claim: Claim) -> float:
        """Return the most that may be spent of a counter without the store."""
        has_share = self._clock() < self._until
        if claim.lasting:
            return claim.limit * TENTH * self._share if has_share else 0.0
        return claim.limit * self._share if has_share and self._share else float(claim.limit)
