"""The BudgetStore port: counters of limits, with a reservation for each request in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

__all__ = ["KEPT_WINDOWS", "SHARE_SECONDS", "Book", "BudgetStore", "Claim", "Reserved", "Settlement", "Spent",
           "kept_windows", "series"]  # fmt: skip

#: Seconds for which a process may use its share of what may be spent while no store can be asked.
SHARE_SECONDS: Final = 3_600.0
#: Stored windows of one limit, counted in the order in which they were first used: no change of a
#: clock removes one. A hundred days of a budget per day; a past minute is not needed after the next.
KEPT_WINDOWS: Final = 100
_KEPT_MINUTES: Final = 5


def series(counter: str) -> str:
    """Return the common name of all windows of a counter's limit: the name without the window's start."""
    return counter.rpartition("/")[0]


def kept_windows(counter: str) -> int:
    """Return how many windows of a counter's limit are stored."""
    return _KEPT_MINUTES if series(counter).endswith("/minute") else KEPT_WINDOWS


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

    @property
    def ok(self) -> bool:
        """Whether all claims were reserved."""
        return self.refused < 0


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


class Book(Protocol):
    """The durable record of spent money. Every method may raise ``StoreUnavailable``.

    Each process records a separate total of each counter, so that recording twice changes nothing, and a
    counter's total is the sum over all processes.
    """

    def record(self, spent: Sequence[Spent], /) -> None:
        """Record totals; a lower one than is recorded changes nothing."""
        ...

    def spent(self, counters: Sequence[str], /) -> Mapping[str, Mapping[str, int]]:
        """Return the recorded amount of each counter, by process."""
        ...

    def join(self, process: str, /) -> float:
        """Return the share, from 0 to 1, of what all processes may spend while no store can be asked.

        It is the process's own for ``SHARE_SECONDS``: no other gets it, also when the process is killed.
        """
        ...

    def leave(self, process: str, /) -> None:
        """Give the share back: all that was spent is recorded."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


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

        A reservation that is not known held nothing: all that was used is added. A counter that is neither
        known nor among the claims of the settlement stays unknown: its window is long over.
        """
        ...

    def join(self, process: str, /) -> float:
        """Return the share of a process in an outage; see ``Book.join``."""
        ...

    def leave(self, process: str, /) -> None:
        """Give the share back."""
        ...

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return the used and reserved amount of each counter."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
