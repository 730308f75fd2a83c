"""Filters of the lists: read from an address, written into one, and asked of the ledger."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from pointsman.console._view import GatewayView, Unusable, Visit
from pointsman.reports.usage import priced
from pointsman.stores.ledger.reading import FLAGS, DecisionFilter, DecisionRow, Page, Position
from pointsman.vocabulary import END_OF_TIME

#: Periods of the time picker, in seconds.
PERIODS: Final = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000}

_TEXTS: Final = ("session", "caller", "tier", "model", "role", "project", "client", "domain", "signal",
          "classifier", "capability", "label", "text")  # fmt: skip
#: Query parameters of a period, and of a search.
PERIOD: Final = ("last", "since", "until")
FILTERS: Final = (*_TEXTS, *FLAGS, "status", "cost", *PERIOD)
_SAID: Final = {"yes": True, "no": False}


def filter_of(visit: Visit) -> DecisionFilter:
    """Return the filter of an address.

    Raises:
        Unusable: a value is not of its field's kind.
    """
    named: dict[str, Any] = {name: visit.asked(name)[:400] for name in _TEXTS}
    named |= {name: _flag(name, visit.asked(name)) for name in FLAGS}
    since, until = period_of(visit)
    status = visit.asked("status")
    if status and not status.isdecimal():
        raise Unusable('"status" must be a status of HTTP, such as 200, or 0 for none')
    return DecisionFilter(
        **named,
        status=int(status[:6]) if status else None,
        cost_at_least=_number("cost", visit.asked("cost")),
        since=since,
        until=until,
    )


def period_of(visit: Visit) -> tuple[float | None, float | None]:
    """Return the period of an address: one of ``PERIODS`` up to now, or two times; None for an open end.

    Raises:
        Unusable: it is none.
    """
    last = visit.asked("last")
    if last:
        if last not in PERIODS:
            raise Unusable(f'"last" must be one of {", ".join(PERIODS)}')
        return time.time() - PERIODS[last], None
    return time_of("since", visit.asked("since")), time_of("until", visit.asked("until"))


def _flag(name: str, text: str) -> bool | None:
    if text and text not in _SAID:
        raise Unusable(f'"{name}" must be yes or no')
    return _SAID.get(text)


def _number(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise Unusable(f'"{name}" must be a number') from None


def time_of(name: str, text: str) -> float | None:
    """Read a time: seconds since the epoch, or a date, in UTC unless it names a zone."""
    if not text:
        return None
    try:
        at = _seconds(text)
    except ValueError:
        at = math.nan
    if not 0 <= at < END_OF_TIME:
        raise Unusable(f'"{name}" must be a date from 1970 to 9998, such as 2026-01-31 or 2026-01-31T14:00')
    return at


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def page_of(visit: Visit) -> Position | None:
    """Return where the page before ended; None for the first.

    Raises:
        Unusable: the address names no such place.
    """
    at, _, last = visit.asked("before").partition("_")
    if not at:
        return None
    number = _number("before", at)
    if number is None or not last:
        raise Unusable('"before" is written by the link to the next page')
    return number, last


def page_after(query: Sequence[tuple[str, str]], place: Position) -> Mapping[str, str]:
    """Return the query of the page after."""
    kept = {key: value for key, value in query if value and key != "before"}
    return {**kept, "before": f"{place[0]!r}_{place[1]}"}


def newest(view: GatewayView, limit: int) -> tuple[DecisionRow, ...]:
    """Return the newest decisions, the newest first."""
    return search(view, DecisionFilter(), None, limit).rows


def search(view: GatewayView, wanted: DecisionFilter, before: Position | None, limit: int) -> Page:
    """Return a page of decisions, the newest first, with their costs at the configured prices."""
    models = view.config.models
    found = view.ledger.search(wanted, before=before, limit=limit, models=models)
    return found._replace(rows=priced(found.rows, models))
