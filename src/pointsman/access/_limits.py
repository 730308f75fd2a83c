"""One limit of a key or a team: its counter in the window of now, and its description."""

from __future__ import annotations

import calendar
import time
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from pointsman.config import KeySpec, TeamSpec
from pointsman.config.serving import Period
from pointsman.stores.budgets import Claim

# Windows of the calendar, in UTC: minutes, hours, days, weeks from Monday, months.

Every: TypeAlias = Period | Literal["minute"]

_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Seconds from a Monday to the epoch, which began on a Thursday.
_THURSDAY: Final = 3 * 86_400


class Window(NamedTuple):
    """From its first second to the one after its last, since the epoch."""

    start: int
    end: int


def window(every: Every, at: float) -> Window:
    """Return the window that a moment is in, in seconds since the epoch."""
    if every == "month":
        year, month = time.gmtime(at)[:2]
        after = (year + 1, 1) if month == 12 else (year, month + 1)
        return Window(_first_of(year, month), _first_of(*after))
    length = _SECONDS[every]
    shift = _THURSDAY if every == "week" else 0
    start = int((at + shift) // length) * length - shift
    return Window(start, start + length)


def _first_of(year: int, month: int) -> int:
    return calendar.timegm((year, month, 1, 0, 0, 0))


#: Counted parts of one unit of the currency.
UNIT: Final = 1_000_000_000
#: Seconds for which a counter is kept after its window at least: a clock that is set back finds it.
_KEPT: Final = 60


#: What is limited, and whose limit it is.
Kind: TypeAlias = Literal["money", "tokens", "requests"]
Level: TypeAlias = Literal["key", "team"]


class Limit:
    """A limit in windows of the calendar."""

    __slots__ = ("_now", "every", "kind", "level", "most", "name")

    def __init__(self, kind: Kind, level: Level, name: str, most: int, every: Every) -> None:
        """Take a limit of ``most`` units per window."""
        self.kind = kind
        self.level = level
        self.name = name  # of the key or the team
        self.most = most
        self.every = every
        self._now: tuple[Window, str] = (Window(0, 0), "")  # the latest window, and its counter

    def window(self, at: float) -> Window:
        """Return the window of a moment."""
        return self._at(at)[0]

    def counter(self, at: float) -> str:
        """Return the name of the counter of a moment's window."""
        return self._at(at)[1]

    def claim(self, amount: int, at: float) -> Claim:
        """Return the claim to an amount, in whole units."""
        found, counter = self._at(at)
        kept = found.end - at + max(found.end - found.start, _KEPT)
        return Claim(counter, amount, self.most, kept, lasting=self.kind == "money")

    def _at(self, at: float) -> tuple[Window, str]:
        if not self._now[0].start <= at < self._now[0].end:
            found = window(self.every, at)
            counter = f"{self.kind}/{self.level}/{self.name}/{self.every}/{found.start}"
            self._now = (found, counter)
        return self._now

    def left(self, total: int) -> str:
        """Describe the rest after ``total`` units: "0.25 of 20.00 per day"."""
        left = max(self.most - total, 0)
        if self.kind == "money":
            return f"{money_text(left)} of {money_text(self.most)} per {self.every}"
        return f"{left} of {self.most} {self.kind} per {self.every}"

    def amount(self, units: int) -> str:
        """Say an amount: "0.48", "1200 tokens"."""
        return money_text(units) if self.kind == "money" else f"{units} {self.kind}"

    def __str__(self) -> str:
        """Name it: ``the budget of team "research"``."""
        what = "budget" if self.kind == "money" else f"{self.kind}_per_minute"
        return f'the {what} of {self.level} "{self.name}"'


def limits_of(level: Level, spec: KeySpec | TeamSpec) -> tuple[Limit, ...]:
    """Return the limits of a key or a team; none by default."""
    found = []
    if spec.requests_per_minute is not None:
        found.append(Limit("requests", level, spec.name, spec.requests_per_minute, "minute"))
    if spec.tokens_per_minute is not None:
        found.append(Limit("tokens", level, spec.name, spec.tokens_per_minute, "minute"))
    if spec.budget is not None:
        most = round(spec.budget.money * UNIT)
        found.append(Limit("money", level, spec.name, most, spec.budget.per))
    return tuple(found)


def money_text(units: int) -> str:
    """Write an amount of money, counted in billionths: two digits after the point, more for small amounts."""
    money = units / UNIT
    return f"{money:.2f}" if money >= 1 or not units else f"{money:.6f}".rstrip("0").ljust(4, "0")


def time_text(at: float) -> str:
    """Write a moment as RFC 3339 does, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
