"""Cached figures of pages, and the spending of each project, program, person and role by hour or day."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pointsman.console._view import GatewayView
from pointsman.reports.savings import Savings, SavingsCalculator
from pointsman.stores.ledger import Spender

__all__ = ["Chunk", "Kept", "Spent", "read_spending"]

#: Seconds for which figures of a period that ended over an hour ago are kept: outcomes may come late.
_SETTLED: Final = 600.0
_HOUR: Final = 3_600.0
#: Other figures are kept for so many times the time that they took.
_FACTOR: Final = 20.0
_MOST: Final = 120

#: A part of a period: its first second and the one after it.
Chunk = tuple[float, float]
Part = Mapping[Spender, Savings]
T = TypeVar("T")


class Kept:
    """A cache of figures, so that an open page seldom reads the ledger."""

    def __init__(self) -> None:
        self.lock: Final = threading.RLock()
        self._found: Final[dict[object, tuple[float, object, object]]] = {}  # until (monotonic), of, figures

    def has(self, key: object, of: object) -> bool:
        """Whether there are figures."""
        until, whose, _ = self._found.get(key, (0.0, None, None))
        return until > time.monotonic() and whose is of

    def get(self, key: object, of: object, make: Callable[[], T], until: float = math.inf) -> T:
        """Return cached figures, or make them.

        Args:
            key: Names them.
            of: The configuration that they were made with.
            make: Makes them.
            until: End of their period, seconds since the epoch.
        """
        with self.lock:
            if not self.has(key, of):
                began = time.monotonic()
                made = make()
                now = time.monotonic()
                stays = _SETTLED if until < time.time() - _HOUR else _FACTOR * (now - began)
                if len(self._found) >= _MOST:
                    del self._found[next(iter(self._found))]
                self._found[key] = now + stays, of, made
                return made
            return self._found[key][2]  # type: ignore[return-value]


class Spent(NamedTuple):
    """The parts of a period that were read."""

    parts: Sequence[Part]  # the oldest first
    missing: int  # that are left to be read


def read_spending(
    kept: Kept, view: GatewayView, money: SavingsCalculator, chunks: Iterable[Chunk], seconds: float
) -> Spent:
    """Read the spending of all spenders in the parts of a period, the newest first, one at least.

    A million decisions are read in some seconds: each page reads as many parts as it has time for.

    Args:
        kept: Caches the parts.
        view: The gateway.
        money: Counts the savings.
        chunks: The parts, the oldest first.
        seconds: After which no further part is begun.
    """
    end = time.monotonic() + seconds
    parts: list[Part] = []
    missing = 0

    def read(chunk: Chunk) -> Part:
        found = view.ledger.spenders(since=chunk[0], until=chunk[1])
        return {spender: money.total(totals) for spender, totals in found.items()}

    with kept.lock:
        for chunk in reversed(list(chunks)):
            key = chunk, money.baseline
            if parts and time.monotonic() > end and not kept.has(key, view.config):
                missing += 1
            else:
                parts.append(kept.get(key, view.config, partial(read, chunk), chunk[1]))
    return Spent(parts[::-1], missing)
