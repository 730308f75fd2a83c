"""The pages Home and Change: costs and savings over time, by project, program, person and role; two hours."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple, TypeVar

from pointsman.console._filters import time_of
from pointsman.console._now import client_lines
from pointsman.console._svg import Money, money_bars
from pointsman.console._view import GatewayView, Page, Unusable, Visit
from pointsman.printable import TextTable
from pointsman.remembering import Bounded
from pointsman.reports.change import change_between
from pointsman.reports.savings import (
    DIVISIONS,
    Division,
    Savings,
    SavingsCalculator,
    SpendingRow,
    merged,
    spending_by,
    usual_baseline,
)
from pointsman.reports.usage import USAGE_ASKED
from pointsman.stores.ledger import DecisionFilter, Spender, Totals

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
        #: Until when (monotonic), of which configuration, and the figures.
        self._found: Final = Bounded[object, tuple[float, object, object]](_MOST)

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
                self._found.keep(key, (now + stays, of, made))
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


_DAY: Final = 24 * _HOUR
#: Rows of each table of spenders.
_MOVED: Final = 5
_CHANGE_COLUMNS: Final = ("name", "amount", "detail")


class _Moved(NamedTuple):
    """The costs of one project, program, person or role in both hours."""

    key: str
    name: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


def changes(visit: Visit, kept: Kept) -> Page:
    """Show two hours side by side, with cached figures of past ones.

    Raises:
        Unusable: a time cannot be read, the hours are the same, or no model has a price.
    """
    view = visit.view
    after = _hour(time_of("to", visit.asked("to")), time.time())
    before = _hour(time_of("from", visit.asked("from")), after - _HOUR)
    if before == after:
        raise Unusable("both hours are the same", hint='"from" and "to" are two hours')
    baseline = usual_baseline(view.config.models)
    if not baseline:
        raise Unusable("no model has a price, so no cost can be compared")
    found = change_between(view.ledger, view.engine.policy, before, after, _HOUR)
    moved = _moved(view, kept, before, after)
    context = {
        "found": found,
        "most": max((abs(each.amount) for each in found.contributions), default=0.0) or 1.0,
        "moved": moved,
        "before": before,
        "after": after,
        "others": {"the hour before": after - _HOUR, "the day before": after - _DAY,
                   "a week before": after - 7 * _DAY},
        "here": {"from": f"{before:.0f}", "to": f"{after:.0f}"},
    }  # fmt: skip
    rows = [(each.name, each.amount, each.detail) for each in found.contributions]
    data = {**found.to_json(), "by": {by: [each._asdict() for each in of] for by, of in moved.items()}}
    return Page("change.html", context, data, TextTable.of(_CHANGE_COLUMNS, rows))


def _moved(view: GatewayView, kept: Kept, before: float, after: float) -> Mapping[Division, list[_Moved]]:
    money = SavingsCalculator.of(view.engine.policy)
    parts = [read_spending(kept, view, money, [(at, at + _HOUR)], 0.0).parts[0] for at in (before, after)]
    found: dict[Division, list[_Moved]] = {}
    for by in DIVISIONS:
        then, now = ({row.key: row for row in spending_by(by, part)} for part in parts)
        rows = [
            _Moved(
                key,
                (now.get(key) or then[key]).name,
                then[key].money.paid if key in then else 0.0,
                now[key].money.paid if key in now else 0.0,
            )
            for key in {**then, **now}
        ]
        found[by] = sorted(rows, key=lambda row: (-abs(row.more), row.name))[:_MOVED]
    return found


def _hour(asked: float | None, usual: float) -> float:
    """The first second of an hour."""
    return (usual if asked is None else asked) // _HOUR * _HOUR


#: Days of each period; 0: the last 24 hours, by the hour. A day is one of UTC, today is the last of them.
HOME_PERIODS: Final[Mapping[str, int]] = {"24h": 0, "7d": 7, "30d": 30}
_USUAL: Final = "7d"
#: Seconds in which a page reads what spenders spent, beside all else.
_PATIENCE: Final = 0.05
#: Rows of each table.
_SHOWN: Final = 8
_COLUMNS: Final = ("by", "key", "name", "requests", "paid", "baseline", "saved")


class _Found(NamedTuple):
    period: str
    since: float
    until: float
    total: Savings
    before: Savings  # of the period before, which is as long
    bars: tuple[Money, ...]
    sums: Mapping[Spender, Savings]  # of the parts that were read
    missing: int  # parts that are left to be read


def home(visit: Visit, kept: Kept) -> Page:
    """Show the money of a period, with cached figures of its parts.

    Raises:
        Unusable: there is no such period.
    """
    view = visit.view
    asked = visit.asked("last")
    if asked and asked not in HOME_PERIODS:
        raise Unusable(f'"last" must be one of {", ".join(HOME_PERIODS)}')
    baseline = usual_baseline(view.config.models)
    found = _found(view, kept, asked) if baseline else None
    # To count a million decisions costs more than to find one.
    is_empty = not view.ledger.search(DecisionFilter(), limit=1).rows and view.ledger.count() == 0
    shown: dict[Division, Sequence[SpendingRow]] = (
        {by: spending_by(by, found.sums) for by in DIVISIONS} if found else {}
    )
    context = {
        "found": found,
        "baseline": baseline,
        "usage_asked": USAGE_ASKED,
        "period": found.period if found else _USUAL,
        "periods": list(HOME_PERIODS),
        "chart": money_bars(found.bars, "hour" if found.period == "24h" else "date") if found else None,
        "spending": {by: rows[:_SHOWN] for by, rows in shown.items()},
        "more": {by: len(rows) - _SHOWN for by, rows in shown.items()},
        "here": visit.here,
        "clients": client_lines(visit) if is_empty else [],
        "unsummarized": view.ledger.unsummarized(),
    }
    rows = [
        (by, each.key, each.name, each.money.turns, each.money.paid, each.money.expected, each.money.net)
        for by, each_of in shown.items()
        for each in each_of
    ]
    return Page("home.html", context, _plain(found, shown) if found else {}, TextTable.of(_COLUMNS, rows))


def _found(view: GatewayView, kept: Kept, asked: str) -> _Found:
    at, money = time.time(), SavingsCalculator.of(view.engine.policy)
    period = asked or _USUAL
    found = _read_days(view, kept, money, period, at)
    if not asked and sum(each.requests > 0 for each in found[1]) < 2:
        period = "24h"  # the first day
        found = _read_days(view, kept, money, period, at)
    since, until = _bounds(period, at)
    spent = read_spending(kept, view, money, _chunks(since, until, period), _PATIENCE)
    total, bars = found
    if period == "24h":
        bars = _hours(spent, since)
    first = 2 * since - until
    before = kept.get(
        ("before", first, since),
        view.config,
        lambda: money.total(view.ledger.totals(since=first, until=since)),
        since,
    )
    return _Found(period, since, until, total, before, bars, merged(spent.parts), spent.missing)


def _read_days(
    view: GatewayView, kept: Kept, money: SavingsCalculator, period: str, at: float
) -> tuple[Savings, tuple[Money, ...]]:
    since, until = _bounds(period, at)
    return kept.get(
        ("days", since, until),
        view.config,
        lambda: _days(money, view.ledger.totals(since=since, until=until), since, until),
    )


def _bounds(period: str, at: float) -> Chunk:
    """The first second of a period, and the one after it."""
    days = HOME_PERIODS[period]
    if not days:
        until = (at // _HOUR + 1) * _HOUR
        return until - _DAY, until
    until = (at // _DAY + 1) * _DAY
    return until - days * _DAY, until


def _chunks(since: float, until: float, period: str) -> list[Chunk]:
    step = _HOUR if period == "24h" else _DAY
    return [
        (since + step * number, since + step * (number + 1)) for number in range(int((until - since) / step))
    ]


def _days(
    money: SavingsCalculator, totals: Totals, since: float, until: float
) -> tuple[Savings, tuple[Money, ...]]:
    found = money.by(totals, "day")
    total = money.total(Totals((), ()))
    for each in found.values():
        total.add(each)
    days = [(at, datetime.fromtimestamp(at, UTC).date().isoformat()) for at, _ in _chunks(since, until, "")]
    return total, tuple(_money(at, found.get(day, Savings(money.baseline))) for at, day in days)


def _hours(spent: Spent, since: float) -> tuple[Money, ...]:
    first = since + _HOUR * spent.missing
    sums = []
    for part in spent.parts:
        total = Savings("")
        for each in part.values():
            total.add(each)
        sums.append(total)
    return tuple(_money(first + _HOUR * number, each) for number, each in enumerate(sums))


def _money(at: float, of: Savings) -> Money:
    return Money(at, of.paid, of.net, of.turns)


def _plain(found: _Found, shown: Mapping[Division, Sequence[SpendingRow]]) -> dict[str, object]:
    return {
        "period": found.period,
        "since": found.since,
        "until": found.until,
        "total": found.total.to_json(),
        "before": found.before.to_json(),
        "bars": [each._asdict() for each in found.bars],
        "by": {by: [each.to_json() for each in rows] for by, rows in shown.items()},
        "missing_parts": found.missing,
    }
