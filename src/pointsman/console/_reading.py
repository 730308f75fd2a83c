"""Queries of the pages to the ledger."""

from __future__ import annotations

from pointsman.console._view import GatewayView
from pointsman.reports.summary import priced
from pointsman.stores.ledger import Record
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position

__all__ = ["newest", "newest_records", "search"]


def newest(view: GatewayView, limit: int) -> tuple[DecisionRow, ...]:
    """Return the newest decisions, the newest first."""
    return search(view, DecisionFilter(), None, limit).rows


def newest_records(view: GatewayView, limit: int) -> list[Record]:
    """Return the newest decisions with all that belongs to each, the oldest first; more at equal times."""
    rows = view.ledger.search(DecisionFilter(), limit=limit).rows
    return list(view.ledger.records(since=rows[-1].at)) if rows else []


def search(view: GatewayView, wanted: DecisionFilter, before: Position | None, limit: int) -> Page:
    """Return a page of decisions, the newest first, with their costs at the configured prices."""
    models = view.config.models
    found = view.ledger.search(wanted, before=before, limit=limit, models=models)
    return found._replace(rows=priced(found.rows, models))
