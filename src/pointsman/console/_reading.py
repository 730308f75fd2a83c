"""What the pages read of the ledger."""

from __future__ import annotations

from itertools import islice
from typing import Final

from pointsman.console._view import GatewayView
from pointsman.reports.queue import Queued, queue
from pointsman.stores.ledger.export import record
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Page, Position, matches
from pointsman.stores.ledger.turns import rows_of

__all__ = ["label_queue", "labelled", "newest", "search"]

#: Newest decisions among which the queue of labels is made, and labels that are counted at most.
QUEUED_OF: Final = 300
COUNTED: Final = 10_000


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


def label_queue(view: GatewayView) -> list[Queued]:
    """Return what is most worth a label, among the newest decisions without one."""
    rows = search(view, DecisionFilter(labelled=False), None, QUEUED_OF).rows
    found = (view.ledger.get(row.id) for row in rows)
    return queue(record(view.ledger, decision) for decision in found if decision is not None)


def labelled(view: GatewayView) -> int:
    """Return how many decisions have a label, counted up to ``COUNTED``."""
    return len(search(view, DecisionFilter(labelled=True), None, COUNTED).rows)
