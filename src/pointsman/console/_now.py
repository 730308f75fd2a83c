"""The page Now: decisions as they come, and the load of the gateway."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.console._names import names_of
from pointsman.console._reading import newest
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.diagnostics.clients import CallerKey, judge_clients, lines_to_copy
from pointsman.printable import TextTable
from pointsman.reports.summary import Minute
from pointsman.reports.summary import now as summarise

__all__ = ["SHOWN", "client_lines", "figures", "last_hour", "now"]

#: Decisions shown, and read for the figures of the last minute.
SHOWN: Final = 50
_READ: Final = 500
_MINUTE: Final = 60.0
_HOUR: Final = 3_600.0


class Figures(NamedTuple):
    """The tiles above the list."""

    active: int
    requests: int  # in the last minute, as the next four
    tokens: int
    cost: float
    unpriced: int  # answers without a known cost
    stuck: int
    p50: float | None  # milliseconds of overhead since the start
    p99: float | None
    open_circuits: Sequence[str]
    faults: Mapping[str, str]
    lost: int  # entries the ledger could not keep


def now(visit: Visit) -> Page:
    """Show the newest decisions; scripts then update them."""
    view = visit.view
    rows = newest(view, SHOWN)
    context = {
        "figures": figures(view),
        "rows": rows,
        "names": names_of(view.ledger, (row.session for row in rows)),
        "clients": [] if rows else client_lines(visit),
    }
    return Page("now.html", context)


def last_hour(visit: Visit) -> Page:
    """Return requests, tokens and cost of each minute of the last hour, for the chart and for programs."""
    view, at = visit.view, time.time()
    found = summarise(view.ledger, view.config.models, at)
    begin = max(found.since, at - _HOUR) // _MINUTE
    minutes = {minute.at // _MINUTE: minute for minute in found.minutes}
    shown = [minutes.get(number) for number in _numbers(begin, at)]
    series = {
        "requests / min": [each.requests if each else 0 for each in shown],
        "tokens / min, thousands": [(each.input + each.output) / 1e3 if each else 0 for each in shown],
    }
    data = {
        "now": found,
        "x": [number * _MINUTE for number in _numbers(begin, at)],
        "series": [{"name": name, "values": values} for name, values in series.items()],
    }
    rows = [msgspec.structs.astuple(minute) for minute in found.minutes]
    return Page("now.html", {}, data, TextTable.of(Minute.__struct_fields__, rows))


def _numbers(begin: float, at: float) -> range:
    return range(int(begin), int(at // _MINUTE) + 1)


def figures(view: GatewayView) -> Figures:
    """Return the figures of the last minute; of a shorter time, extrapolated, if there were very many."""
    at = time.time()
    found = summarise(view.ledger, view.config.models, at, period=_MINUTE, most=_READ, sample=0)
    factor = 1.0 if found.is_all else _MINUTE / max(at - found.since, 0.001)
    return Figures(
        view.active,
        round(factor * found.requests),
        round(factor * sum(each.input + each.output for each in found.minutes)),
        factor * sum(each.cost for each in found.minutes),
        round(factor * sum(each.unpriced for each in found.minutes)),
        round(factor * found.stuck),
        *view.overhead,
        sorted(view.open_circuits),
        view.faults,
        view.ledger.lost,
    )


def client_lines(visit: Visit) -> list[dict[str, object]]:
    """Return the line to copy for each client, and why others do not work."""
    config = visit.view.config
    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.fits]
    lines = lines_to_copy(config, working, visit.address, CallerKey(is_asked=bool(config.server.keys)))
    return [
        {
            "name": verdict.client.name,
            "fits": verdict.fits,
            "line": lines.get(verdict.client.name, ""),
            "detail": verdict.warning or ("" if verdict.fits else verdict.detail),
            "hint": "" if verdict.fits else verdict.hint,
        }
        for verdict in verdicts
    ]
