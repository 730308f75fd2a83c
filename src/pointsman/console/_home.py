"""The first page: costs and savings, over time, and by project, program, person and role."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pointsman.console._now import client_lines
from pointsman.console._spending import Chunk, Kept, Spent, read_spending
from pointsman.console._svg import Money, MoneyBars, money_bars
from pointsman.console._view import GatewayView, Page, Unusable, Visit
from pointsman.printable import TextTable
from pointsman.reports.savings import Savings, SavingsCalculator, usual_baseline
from pointsman.reports.spending import DIVISIONS, Division, SpendingRow, merged, spending_by
from pointsman.stores.ledger import Spender, Totals

__all__ = ["HOME_PERIODS", "Home"]

#: Days of each period; 0: the last 24 hours, by the hour. A day is one of UTC, today is the last of them.
HOME_PERIODS: Final[Mapping[str, int]] = {"24h": 0, "7d": 7, "30d": 30}
_USUAL: Final = "7d"
_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0
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


class Home:
    """Makes the page, and caches its figures."""

    def __init__(self) -> None:
        self._kept: Final = Kept()

    def page(self, visit: Visit) -> Page:
        """Show the money of a period.

        Raises:
            Unusable: there is no such period.
        """
        view = visit.view
        asked = visit.asked("last")
        if asked and asked not in HOME_PERIODS:
            raise Unusable(f'"last" must be one of {", ".join(HOME_PERIODS)}')
        baseline = usual_baseline(view.config.models)
        found = self._found(view, asked) if baseline else None
        is_empty = view.ledger.count() == 0
        shown: dict[Division, Sequence[SpendingRow]] = (
            {by: spending_by(by, found.sums) for by in DIVISIONS} if found else {}
        )
        context = {
            "found": found,
            "baseline": baseline,
            "period": found.period if found else _USUAL,
            "periods": list(HOME_PERIODS),
            "chart": _chart(found) if found else None,
            "spending": {by: rows[:_SHOWN] for by, rows in shown.items()},
            "more": {by: len(rows) - _SHOWN for by, rows in shown.items()},
            "here": {key: value for key, value in visit.query if value},
            "clients": client_lines(visit) if is_empty else [],
            "unsummarized": view.ledger.unsummarized(),
        }
        rows = [
            (by, each.key, each.name, each.money.turns, each.money.paid, each.money.expected, each.money.net)
            for by, each_of in shown.items()
            for each in each_of
        ]
        return Page("home.html", context, _plain(found, shown) if found else {}, TextTable.of(_COLUMNS, rows))

    def _found(self, view: GatewayView, asked: str) -> _Found:
        at, money = time.time(), SavingsCalculator.of(view.engine.policy)
        period = asked or _USUAL
        found = self._days(view, money, period, at)
        if not asked and sum(each.requests > 0 for each in found[1]) < 2:
            period = "24h"  # the first day
            found = self._days(view, money, period, at)
        since, until = _bounds(period, at)
        spent = read_spending(self._kept, view, money, _chunks(since, until, period), _PATIENCE)
        total, bars = found
        if period == "24h":
            bars = _hours(spent, since)
        first = 2 * since - until
        before = self._kept.get(
            ("before", first, since),
            view.config,
            lambda: money.total(view.ledger.totals(since=first, until=since)),
            since,
        )
        return _Found(period, since, until, total, before, bars, merged(spent.parts), spent.missing)

    def _days(
        self, view: GatewayView, money: SavingsCalculator, period: str, at: float
    ) -> tuple[Savings, tuple[Money, ...]]:
        since, until = _bounds(period, at)
        return self._kept.get(
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
    total = Savings(money.baseline)
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


def _chart(found: _Found) -> MoneyBars:
    return money_bars(found.bars, "hour" if found.period == "24h" else "date")


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
