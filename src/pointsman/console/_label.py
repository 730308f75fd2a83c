"""The page Label: one decision after another, those first that an outcome tells most about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pointsman.console._decision import outcome_of
from pointsman.console._marks import marked
from pointsman.console._reading import label_queue, labelled
from pointsman.console._view import GatewayView, Page, Redirect, Visit
from pointsman.errors import PointsmanError
from pointsman.reports.queue import Queued
from pointsman.reports.usage import HASHED
from pointsman.stores.ledger.export import record
from pointsman.tiers import explain

__all__ = ["LEAST", "Labels"]

#: Seconds for which the queue is kept: to order it again after each label would cost a second each time.
_FRESH: Final = 30.0
#: Outcomes of different prompts that training needs at least: ``learning.fit.LEAST_ROWS``, whose module needs
#: an extra.
LEAST: Final = 40
#: Decisions put off that are remembered.
_MOST_SKIPPED: Final = 10_000


class Choice(NamedTuple):
    """One key of the keyboard, and what it says."""

    key: str
    score: float
    label: str


CHOICES: Final = (
    Choice("1", 0.0, "bad"),
    Choice("2", 0.25, "poor"),
    Choice("3", 0.5, "fair"),
    Choice("4", 0.75, "good"),
    Choice("5", 1.0, "excellent"),
)


class Labels:
    """The queue of one gateway, and what was put off."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._queue: list[Queued] = []
        self._read_at = float("-inf")
        self._done: dict[str, None] = {}  # labelled or put off, the latest last

    def page(self, visit: Visit) -> Page:
        """Show the next decision."""
        return self._page(visit)

    def label(self, visit: Visit) -> Page | Redirect:
        """Keep a label, or put a decision off, and go on to the next."""
        wanted = visit.parts["id"]
        if "skip" not in visit.form:
            try:
                outcome_of(visit, wanted)
            except PointsmanError as error:
                return self._page(visit, error)
        with self._lock:
            self._done[wanted] = None
            while len(self._done) > _MOST_SKIPPED:
                del self._done[next(iter(self._done))]
        return Redirect("/console/label")

    def _page(self, visit: Visit, error: PointsmanError | None = None) -> Page:
        view = visit.view
        waiting = self._waiting(view)
        known = labelled(view)
        context = {
            "waiting": len(waiting),
            "labelled": known,
            "choices": CHOICES,
            "error": error,
            "least": LEAST,
            **(_item(view, waiting[0]) if waiting else {"queued": None}),
        }
        data = {"labelled": known, "queue": [each._asdict() for each in waiting]}
        return Page("label.html", context, data, status=400 if error else 200)

    def _waiting(self, view: GatewayView) -> list[Queued]:
        with self._lock:
            now = self._clock()
            waiting = [each for each in self._queue if each.decision not in self._done]
            if not waiting or now - self._read_at >= _FRESH:
                self._queue, self._read_at = label_queue(view), now
                waiting = [each for each in self._queue if each.decision not in self._done]
            return waiting


def _item(view: GatewayView, queued: Queued) -> dict[str, object]:
    decision = view.ledger.get(queued.decision)
    if decision is None:  # removed since the queue was read
        return {"queued": None}
    found = record(view.ledger, decision)
    words = found.text if found.text and not found.text.startswith(HASHED) else None
    pieces = None
    if words is not None:
        pieces = marked(words, explain(view.engine.scorer, view.engine.scanner.scan(words)).contributions)
    return {"queued": queued, "found": found, "decision": decision, "pieces": pieces}
