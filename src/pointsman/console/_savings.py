"""The page Savings: net money against a baseline, by day, tier and model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

import msgspec

from pointsman.console._filters import PERIODS, period_of
from pointsman.console._quality import configured_curve
from pointsman.console._view import Page, Unusable, Visit
from pointsman.decision.policy import Policy
from pointsman.errors import PointsmanError
from pointsman.printable import TextTable
from pointsman.remembering import grouped
from pointsman.reports.savings import Savings, SavingsCalculator, usual_baseline
from pointsman.reports.usage import UsageRow, usage_by_model
from pointsman.stores.ledger import Totals
from pointsman.stores.ledger.reading import PartTotals, TurnTotals
from pointsman.vocabulary import Tier

_USUAL: Final = "30d"
_COLUMNS: Final = (
    "day", "turns", "counted", "at_baseline", "baseline_cache", "answers", "retries", "verification",
    "shadow", "judging", "hints", "expected", "paid", "net",
)  # fmt: skip


_PRICES: Final = "set input_per_million and output_per_million of a model in [models]"
Group = TypeVar("Group", TurnTotals, PartTotals)


class _Found(NamedTuple):
    total: Savings
    days: Mapping[str, Savings]
    tiers: Mapping[str, Savings]
    models: Mapping[str, Savings]
    usage: tuple[UsageRow, ...]


def savings_page(visit: Visit) -> Page:
    """Show the savings of a period."""
    view = visit.view
    models = {name: model for name, model in view.config.models.items() if model.is_priced}
    error: PointsmanError | None = None
    found: _Found | None = None
    zone = 0
    baseline = visit.asked("baseline") or usual_baseline(models)
    try:
        if not baseline:
            raise Unusable("no model has a price, so no saving can be counted", hint=_PRICES)
        zone = _zone(visit)
        found = _found(view.engine.policy, baseline, _totals(visit, zone), zone)
    except PointsmanError as mistake:
        if mistake.status == 503:
            raise
        if not visit.path.endswith("/savings"):  # JSON and CSV: what was asked cannot be answered
            raise Unusable(mistake.message, hint=mistake.hint) from None
        error = mistake
    context = {
        "found": found,
        "zone": zone,
        "curve": configured_curve(view)[0],
        "chart": msgspec.json.encode(_series(found)).decode() if found else "",
        "baseline": baseline,
        "priced": list(models),
        "period": visit.asked("last") or ("" if visit.asked("since") else _USUAL),
        "periods": list(PERIODS),
        "here": visit.here,
        "error": error,
        "unsummarized": view.ledger.unsummarized(),
    }
    data = _plain(found) if found else {}
    days = found.days if found else {}
    rows = [(day, *(getattr(each, name) for name in _COLUMNS[1:])) for day, each in days.items()]
    return Page("savings.html", context, data, TextTable.of(_COLUMNS, rows), 400 if error and models else 200)


def _found(policy: Policy, baseline: str, totals: Totals, zone: int) -> _Found:
    money = SavingsCalculator.of(policy, baseline)
    days = money.by(totals, "day", zone)
    totals = _without_days(totals)
    tiers = money.by(totals, "tier")
    ranked = {name: tiers[name] for name in sorted(tiers, key=["", *Tier].index)}
    by_model = money.by(totals, "model")
    return _Found(money.total(totals), days, ranked, by_model, usage_by_model(totals, policy.models))


def _without_days(found: Totals) -> Totals:
    """Add up the same over all days: a month has thirty times as many groups, and each costs 20 µs."""
    turns = _in_all(TurnTotals, found.turns, "turns")
    return Totals(tuple(turns), tuple(_in_all(PartTotals, found.parts, "parts")))


def _in_all(kind: type[Group], groups: Iterable[Group], first: str) -> Iterator[Group]:
    """Add up groups that have the same fields after the hour and before ``first``, the first of the sums."""
    place = kind.__struct_fields__.index(first)
    values = map(msgspec.structs.astuple, groups)
    for key, sums in grouped((each[1:place], each[place:]) for each in values).items():
        yield kind(0, *key, *map(sum, zip(*sums, strict=True)))


def _totals(visit: Visit, zone: int) -> Totals:
    since, until = period_of(visit)
    if since is None and until is None:
        since = time.time() - PERIODS[_USUAL]
    return visit.view.ledger.totals(
        since=-math.inf if since is None else since, until=math.inf if until is None else until, zone=zone
    )


def _zone(visit: Visit) -> int:
    """Hours that the reader's clock is ahead of UTC, where the address has them; links have none."""
    asked = visit.asked("zone")
    if asked and not (len(asked) <= 3 and asked.removeprefix("-").isdecimal() and -14 <= int(asked) <= 14):
        raise Unusable('"zone" must be a number of hours from -14 to 14')
    return int(asked) if asked else 0


def _series(found: _Found) -> dict[str, object]:
    """The series of the chart: money of each day."""
    days = found.days.values()
    series = {
        "saved": [each.net for each in days],
        "paid": [each.paid for each in days],
        "baseline": [each.expected for each in days],
    }
    return {
        "x": [datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() for day in found.days],
        "series": [{"name": name, "values": values} for name, values in series.items()],
    }


def _plain(found: _Found) -> dict[str, object]:
    return {
        "total": found.total.to_json(),
        "days": {day: each.to_json() for day, each in found.days.items()},
        "tiers": {tier: each.to_json() for tier, each in found.tiers.items()},
        "models": {model: each.to_json() for model, each in found.models.items()},
        "usage": found.usage,
        **_series(found),
    }
