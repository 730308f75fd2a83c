"""What the pages read of the ledger."""

from __future__ import annotations

from itertools import islice

from pointsman.console._view import GatewayView
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position, matches
from pointsman.stores.ledger.turns import rows_of

__all__ = ["newest", "search"]


def newest(view: GatewayView, limit: int) -> tuple[DecisionRow, ...]:
    """Return the newest decisions, the newest first."""
    return search(view, DecisionFilter(), None, limit).rows


def search(view: GatewayView, wanted: DecisionFilter, before: Position | None, limit: int) -> Page:
    """Return a page of decisions, the newest first, with their costs at the configured prices."""
    found = []
    records = list(view.ledger.records(limit=None, session=wanted.session))[-2000:]
    for row in reversed(list(rows_of(records))):
        if before is not None and (row.at, row.id) >= before:
            continue
        if matches(row, wanted, view.config.models):
            found.append(row)
    rows = tuple(islice(found, limit))
    return Page(rows, (rows[-1].at, rows[-1].id) if len(found) > limit else None)
