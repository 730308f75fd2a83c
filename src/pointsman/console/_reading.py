"""What the pages read of the ledger."""

from __future__ import annotations

from typing import Final

from pointsman.console._view import GatewayView
from pointsman.reports.queue import Queued, queue
from pointsman.reports.summary import priced
from pointsman.stores.ledger.export import record
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position

__all__ = ["label_queue", "labelled", "newest", "search"]

#: Newest decisions among which the queue of labels is made, and labels that are counted at most.
QUEUED_OF: Final = 500
COUNTED: Final = 10_000


def newest(view: GatewayView, limit: int) -> tuple[DecisionRow, ...]:
    """Return the newest decisions, the newest first."""
    return search(view, DecisionFilter(), None, limit).rows


def search(view: GatewayView, wanted: DecisionFilter, before: Position | None, limit: int) -> Page:
    """Return a page of decisions, the newest first, with their costs at the configured prices."""
    models = view.config.models
    found = view.ledger.search(wanted, before=before, limit=limit, models=models)
    return found._replace(rows=priced(found.rows, models))


def label_queue(view: GatewayView) -> list[Queued]:
    """Return what is most worth a label, among the newest decisions without one."""
    rows = newest(view, QUEUED_OF)
    found = (view.ledger.get(row.id) for row in rows)
    return queue(record(view.ledger, decision) for decision in found if decision is not None)


def labelled(view: GatewayView) -> int:
    """Return how many decisions have a label, counted up to ``COUNTED``."""
    return len(search(view, DecisionFilter(labelled=True), None, COUNTED).rows)
