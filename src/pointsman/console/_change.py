"""The page Change: why one hour cost more than another."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from pointsman.console._filters import time_of
from pointsman.console._spending import Kept, read_spending
from pointsman.console._view import GatewayView, Page, Unusable, Visit
from pointsman.printable import TextTable
from pointsman.reports.change import change_between
from pointsman.reports.savings import SavingsCalculator, usual_baseline
from pointsman.reports.spending import DIVISIONS, Division, spending_by

__all__ = ["Changes"]

_HOUR: Final = 3_600.0
_DAY: Final = 24 * _HOUR
#: Rows of each table of spenders.
_SHOWN: Final = 5
_COLUMNS: Final = ("name", "amount", "detail")


class _Moved(NamedTuple):
    """The costs of one project, program, person or role in both hours."""

    key: str
    name: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


class Changes:
    """Makes the page, and caches past hours."""

    def __init__(self) -> None:
        self._kept: Final = Kept()

    def page(self, visit: Visit) -> Page:
        """Show two hours side by side.

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
        moved = self._moved(view, before, after)
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
        return Page("change.html", context, data, TextTable.of(_COLUMNS, rows))

    def _moved(self, view: GatewayView, before: float, after: float) -> Mapping[Division, list[_Moved]]:
        money = SavingsCalculator.of(view.engine.policy)
        parts = [
            read_spending(self._kept, view, money, [(at, at + _HOUR)], 0.0).parts[0] for at in (before, after)
        ]
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
            found[by] = sorted(rows, key=lambda row: (-abs(row.more), row.name))[:_SHOWN]
        return found


def _hour(asked: float | None, usual: float) -> float:
    """The first second of an hour."""
    return (usual if asked is None else asked) // _HOUR * _HOUR
