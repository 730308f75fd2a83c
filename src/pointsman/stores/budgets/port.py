"""The BudgetStore port: counters of limits with reservations of requests in progress; and those in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple, Protocol

#: Seconds for which a process may use its share of what may be spent while no store can be asked.
SHARE_SECONDS: Final = 3_600.0
#: Stored windows of one limit, counted in the order in which they were first used: no change of a
#: clock removes one. A hundred days of a budget per day; a past minute is not needed after the next.
KEPT_WINDOWS: Final = 100
_KEPT_MINUTES: Final = 5
#: Shares are counted in millionths, so that they add up exactly.
MILLION: Final = 1_000_000


def series(counter: str) -> str:
    """Return the common name of all windows of a counter's limit: the name without the window's start."""
    return counter.rpartition("/")[0]


def kept_windows(counter: str) -> int:
    """Return how many windows of a counter's limit are stored."""
    return _KEPT_MINUTES if series(counter).endswith("/minute") else KEPT_WINDOWS


def share_of(others: int, taken: int) -> int:
    """Return the share of one more process, in millionths: a fair part, of the free shares.

    Args:
        others: How many other processes there are.
        taken: Millionths that they have.
    """
    return max(min(MILLION // (others + 1), MILLION - taken), 0)


class Claim(NamedTuple):
    """The amount of one limit that one request may use."""

    counter: str  # names limit and window: "money/key/alice/1767225600"
    amount: int  # whole units of the counter: requests, tokens, or billionths of the currency
    limit: int  # the counter's highest value
    seconds: float  # after which a cache may forget the counter
    lasting: bool = False  # money: recorded durably, and hardly spent while no store can be asked


class Reserved(NamedTuple):
    """What became of the claims of one reservation."""

    totals: tuple[int, ...]  # of their counters, in the order of the claims, after it
    refused: int = -1  # place of the first claim without room; -1: all were reserved
    held: int = 0  # of the refused claim's total, what requests in progress have reserved

    @property
    def ok(self) -> bool:
        """Whether all claims were reserved."""
        return self.refused < 0


def reserved(claims: Sequence[Claim], totals: Sequence[int]) -> Reserved:
    """Return what becomes of claims where their counters have these totals: all are added, or none."""
    for place, (claim, total) in enumerate(zip(claims, totals, strict=True)):
        if total + claim.amount > claim.limit:
            return Reserved(tuple(totals), place)
    return Reserved(tuple(total + claim.amount for claim, total in zip(claims, totals, strict=True)))


class Settlement(NamedTuple):
    """The end of a reservation: the used amount replaces the reserved one."""

    reservation: str
    used: Mapping[str, int]  # by counter; every one that was claimed
    claims: Sequence[Claim] = ()  # of a reservation that the store was not asked for


class Spent(NamedTuple):
    """The amount that one process has settled of one counter since its start; it only grows."""

    counter: str
    writer: str
    amount: int


class Shares(Protocol):
    """The limit of each process during an outage, and the end of a store."""

    def join(self, process: str, /) -> float:
        """Return the share, from 0 to 1, of what all processes may spend while no store can be asked.

        It is the process's own for ``SHARE_SECONDS``: no other gets it, also when the process is killed.
        """

    def leave(self, process: str, /) -> None:
        """Give the share back: all that was spent is recorded."""

    def close(self) -> None:
        """Release connections."""


class Book(Shares, Protocol):
    """The durable record of spent money. Every method may raise ``StoreUnavailable``.

    Each process records a separate total of each counter, so that recording twice changes nothing, and a
    counter's total is the sum over all processes.
    """

    def record(self, spent: Sequence[Spent], /) -> None:
        """Record totals; a lower one than is recorded changes nothing."""

    def spent(self, counters: Sequence[str], /) -> Mapping[str, Mapping[str, int]]:
        """Return the recorded amount of each counter, by process."""


class BudgetStore(Shares, Protocol):
    """Every method may raise ``StoreUnavailable``. A counter that is not known is 0."""

    @property
    def waits(self) -> bool:
        """Whether a call may wait for another machine or process; an event loop then uses a thread."""

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none. Nothing comes between.

        Args:
            reservation: Id, used once: the process that has joined, "-" and a number.
            claims: At least one; each of another counter.
        """

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations, all or none.

        A reservation that is not known held nothing: all that was used is added. A counter that is neither
        known nor among the claims of the settlement stays unknown: its window is long over.
        """

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return the used and reserved amount of each counter."""


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
            found = reserved(claims, [self._totals.get(claim.counter, 0) for claim in claims])
            if found.ok:
                self._take(reservation, claims, found)
                return found
            held, counter = chain.from_iterable(self._held.values()), claims[found.refused].counter
            return found._replace(held=sum(claim.amount for claim in held if claim.counter == counter))

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
            self._take(reservation, claims, found)

    def close(self) -> None:
        """Nothing is open."""

    def _take(self, reservation: str, claims: Sequence[Claim], found: Reserved) -> None:
        for claim, total in zip(claims, found.totals, strict=True):
            if claim.counter not in self._totals:
                heappush(self._ends, (self._clock() + claim.seconds, claim.counter))
            self._totals[claim.counter] = total
        if found.ok:
            self._held[reservation] = claims

    def _forget(self) -> None:
        ends = self._ends
        if ends and ends[0][0] <= (now := self._clock()):
            while ends and ends[0][0] <= now:
                self._totals.pop(heappop(ends)[1], None)
