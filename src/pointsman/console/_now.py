"""The page Now: decisions as they come, and what the gateway is busy with."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.console._reading import newest
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.diagnostics.client_lines import CallerKey, lines_to_copy
from pointsman.diagnostics.clients import judge_clients
from pointsman.stores.ledger.reading import DecisionRow

__all__ = ["SHOWN", "figures", "now"]

#: Decisions shown, and read for the figures of the last minute.
SHOWN: Final = 50
_READ: Final = 2_000
_MINUTE: Final = 60.0


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
    """Show the newest decisions; scripts then keep them current."""
    view = visit.view
    rows = newest(view, _READ)
    context = {
        "figures": figures(view, rows),
        "rows": rows[:SHOWN],
        "clients": [] if rows else _clients(visit),
    }
    return Page("now.html", context)


def figures(view: GatewayView, rows: Sequence[DecisionRow]) -> Figures:
    """Return the figures of the last minute; ``rows`` are the newest decisions."""
    since = time.time() - _MINUTE
    recent = [row for row in rows if row.at >= since]
    models = view.config.models
    costs = [
        models[row.model].cost(row.input, row.cached, row.output) if row.model in models else None
        for row in recent
        if row.result == "counted"
    ]
    return Figures(
        view.active,
        len(recent),
        sum(row.input + row.output for row in recent),
        sum(cost for cost in costs if cost is not None),
        sum(cost is None for cost in costs),
        sum(row.stuck for row in recent),
        *view.overhead,
        sorted(view.open_circuits),
        view.faults,
        view.ledger.lost,
    )


def _clients(visit: Visit) -> list[dict[str, object]]:
    """Return the line to copy for each client, and why others do not work."""
    config = visit.view.config
    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.works]
    lines = lines_to_copy(config, working, visit.address, CallerKey(is_asked=bool(config.server.keys)))
    return [
        {
            "name": verdict.client.name,
            "works": verdict.works,
            "line": lines.get(verdict.client.name, ""),
            "detail": verdict.warning or ("" if verdict.works else verdict.detail),
            "hint": "" if verdict.works else verdict.hint,
        }
        for verdict in verdicts
    ]
