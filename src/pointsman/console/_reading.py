"""What the pages read of the ledger."""

from __future__ import annotations

from pointsman.console._view import GatewayView
from pointsman.reports.summary import priced
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position

__all__ = ["newest", "search"]


def newest(view: GatewayView, limit: int) -> tuple[DecisionRow, ...]:
    """Return the newest decisions, the newest first."""
    return search(view, DecisionFilter(), None, limit).rows


def search(view: GatewayView, wanted: DecisionFilter, before: Position | None, limit: int) -> Page:
    """Return a page of decisions, the newest first, with their costs at the configured prices."""
    models = view.config.models
    found = view.ledger.search(wanted, before=before, limit=limit, models=models)
    return found._replace(rows=priced(found.rows, models))
