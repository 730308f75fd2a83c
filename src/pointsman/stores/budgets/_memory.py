"""Budgets in this process: counters in a dict. They begin at 0 with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final

from pointsman.stores.budgets.port import Claim, Reserved, Settlement

__all__ = ["MemoryBudgets"]


class MemoryBudgets:
    """Counters by name. One is forgotten after its time, so their number follows the configured limits."""

    waits: Final = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing used. ``clock``: seconds that no change of the wall clock moves."""
        self._clock: Final = clock
        self._lock: Final = threading.Lock()  # settlements may come from other threads
        self._totals: Final[dict[str, int]] = {}
        self._ends: Final[list[tuple[float, str]]] = []  # a heap: when each counter is forgotten
        self._held: Final[dict[str, Sequence[Claim]]] = {}  # by reservation

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        with self._lock:
            self._forget()
            totals = self._totals
            now = tuple(totals.get(claim.counter, 0) for claim in claims)
            for place, claim in enumerate(claims):
                if now[place] + claim.amount > claim.limit:
                    return Reserved(now, place)
            for claim, total in zip(claims, now, strict=True):
                self._set(claim, total + claim.amount)
            self._held[reservation] = claims
        return Reserved(tuple(total + claim.amount for claim, total in zip(claims, now, strict=True)))

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations: the used amount replaces the reserved one."""
        with self._lock:
            for reservation, used, _ in settlements:
                held = {claim.counter: claim.amount for claim in self._held.pop(reservation, ())}
                for counter, amount in used.items():
                    if (total := self._totals.get(counter)) is not None:
                        self._totals[counter] = max(total + amount - held.get(counter, 0), 0)

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return the used and reserved amount of each counter."""
        return tuple(self._totals.get(counter, 0) for counter in counters)

    def join(self, process: str, /) -> float:  # noqa: ARG002 - of the port
        """Return the whole: no other process counts here."""
        return 1.0

    def leave(self, process: str, /) -> None:
        """Do nothing: there is no share to give back."""

    def knows(self, counter: str) -> bool:
        """Whether a counter has been heard of."""
        return counter in self._totals

    def note(self, reservation: str, claims: Sequence[Claim], found: Reserved) -> None:
        """Take over a reservation and its counters from another store."""
        with self._lock:
            self._forget()
            for claim, total in zip(claims, found.totals, strict=True):
                self._set(claim, total)
            if found.ok:
                self._held[reservation] = claims

    def close(self) -> None:
        """Nothing is open."""

    def _set(self, claim: Claim, total: int) -> None:
        if claim.counter not in self._totals:
            heappush(self._ends, (self._clock() + claim.seconds, claim.counter))
        self._totals[claim.counter] = total

    def _forget(self) -> None:
        ends = self._ends
        if ends and ends[0][0] <= (now := self._clock()):
            while ends and ends[0][0] <= now:
                self._totals.pop(heappop(ends)[1], None)
