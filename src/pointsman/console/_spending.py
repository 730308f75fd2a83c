"""What each project, program, person and role spent: read by the hour or the day, and kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.console._view import GatewayView
from pointsman.reports.savings import Savings, SavingsCalculator
from pointsman.stores.ledger import Spender

__all__ = ["Chunk", "Spending", "Spent"]

#: Seconds for which what is over an hour ago stays as it was read: outcomes may come late.
_SETTLED: Final = 600.0
_HOUR: Final = 3_600.0
#: What is not settled is read again after so many times the time that it took.
_FACTOR: Final = 20.0
_KEPT: Final = 120

#: A part of a period: its first second and the one after it.
Chunk = tuple[float, float]
Part = Mapping[Spender, Savings]


class Spent(NamedTuple):
    """The parts of a period that were read."""

    parts: Sequence[Part]  # the oldest first
    missing: int  # that are left to be read


class _Kept(NamedTuple):
    until: float  # of the monotonic clock
    part: Part


class Spending:
    """Reads the sums of spenders, and keeps those of the hours and days that are over.

    A million decisions are read in some seconds: each page reads as many parts as it has time for.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._kept: Final[dict[Chunk, _Kept]] = {}
        self._of: tuple[object, str] = (None, "")  # configuration and baseline, whose prices were taken

    def read(
        self, view: GatewayView, money: SavingsCalculator, chunks: Iterable[Chunk], seconds: float
    ) -> Spent:
        """Read the parts of a period, the newest first, one at least.

        Args:
            view: The gateway.
            money: Counts the savings.
            chunks: The parts, the oldest first.
            seconds: After which no further part is begun.
        """
        end = time.monotonic() + seconds
        parts: list[Part] = []
        missing = 0
        with self._lock:
            if self._of[0] is not view.config or self._of[1] != money.baseline:
                self._kept.clear()
                self._of = view.config, money.baseline
            for chunk in reversed(list(chunks)):
                known = self._kept.get(chunk)
                if known is not None and known.until > time.monotonic():
                    parts.append(known.part)
                elif parts and time.monotonic() > end:
                    missing += 1
                else:
                    parts.append(self._read(view, money, chunk))
        return Spent(parts[::-1], missing)

    def _read(self, view: GatewayView, money: SavingsCalculator, chunk: Chunk) -> Part:
        since, until = chunk
        began = time.monotonic()
        found = view.ledger.spenders(since=since, until=until)
        part = {spender: money.total(totals) for spender, totals in found.items()}
        now = time.monotonic()
        stays = _SETTLED if until < time.time() - _HOUR else _FACTOR * (now - began)
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[chunk] = _Kept(now + stays, part)
        return part
