"""The page Label: one decision after another, the most informative first."""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

from pointsman.console._decision import outcome_of, record_of
from pointsman.console._jobs import Fits, can_fit, is_in_use
from pointsman.console._marks import marked
from pointsman.console._view import GatewayView, Page, Redirect, Visit
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import LEAST_FOR_POLICY, LEAST_FOR_TIERS
from pointsman.printable import TextTable
from pointsman.remembering import Bounded
from pointsman.reports.labels import Labels as LabelState
from pointsman.reports.labels import Queued, count_pairs, labels
from pointsman.reports.outcomes import Fittable, kept_answers, scored
from pointsman.reports.usage import kept_words
from pointsman.stores.ledger.export import record
from pointsman.tiers import explain

#: Seconds for which the queue is kept: to order it again after each label would cost a second each time.
_FRESH: Final = 30.0
#: Decisions that wait at once.
_QUEUED: Final = 500
#: Decisions put off that are remembered.
_MOST_SKIPPED: Final = 10_000
#: Modes of a text that keep its words.
_TEXT_KEPT: Final = frozenset({"redacted", "full"})


class Choice(NamedTuple):
    """One key of the keyboard, and its label."""

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
    """The queue of one gateway, and the decisions put off."""

    def __init__(self, fits: Fits) -> None:
        self._fits: Final = fits
        self._lock: Final = threading.Lock()
        self._state: LabelState | None = None
        self._scored: dict[str, Fittable] = {}  # of its decisions, and of those labelled since it was read
        self._given: set[str] = set()  # decisions labelled since it was read
        self._read_at = float("-inf")
        self._done: Final = Bounded[str, None](_MOST_SKIPPED)  # labelled or put off, the latest last

    def label(self, visit: Visit) -> Page | Redirect:
        """Record a label, or put a decision off, and show the next one."""
        wanted = visit.parts["id"]
        if "skip" not in visit.form:
            try:
                outcome_of(visit, record_of(visit))
            except PointsmanError as error:
                return self.page(visit, error)
            self.note(visit.view, wanted)
            if any(not each.is_labelled for each in kept_answers(record_of(visit))):
                return Redirect("/console/label")  # to the other answer
        with self._lock:
            self._done.keep(wanted, None)
        return Redirect("/console/label")

    def note(self, view: GatewayView, wanted: str) -> None:
        """Count a label that was given just now, on this page or another, without reading all again."""
        decision = view.ledger.get(wanted)
        found = scored(record(view.ledger, decision), callers=False) if decision is not None else None
        with self._lock:
            self._given.add(wanted)
            if found is not None:
                self._scored[wanted] = found

    def page(self, visit: Visit, error: PointsmanError | None = None) -> Page:
        """Show the next decision, and the error of a form that was sent before."""
        view = visit.view
        state, waiting, known, counted = self._waiting(view)
        item = _item(view, waiting[0]) if waiting else {"queued": None}
        pairs = count_pairs(counted.values())
        if item.get("is_half_labelled"):  # its prompt lacks no second model: the answer is on the screen
            others = (each for name, each in counted.items() if name != waiting[0].decision)
            pairs = pairs._replace(single=count_pairs(others).single)
        shadow = view.config.shadow
        context = {
            "waiting": len(waiting),
            "labelled": known,
            "pairs": pairs,
            "least_for_tiers": LEAST_FOR_TIERS,
            "least_for_policy": LEAST_FOR_POLICY,
            "is_complete": state.is_complete,
            "is_text_kept": view.config.ledger.text in _TEXT_KEPT,
            "choices": CHOICES,
            "latest_fit": next((job.id for job in self._fits.all()), ""),
            "is_fit_used": is_in_use(view.config),
            "can_fit": can_fit(),
            "error": error,
            "shadow_model": shadow.model if shadow.text in _TEXT_KEPT else None,
            **item,
        }
        data = {
            "labelled": known,
            "pairs": pairs._asdict(),
            "is_complete": state.is_complete,
            "queue": [each._asdict() for each in waiting],
        }
        table = TextTable.of(Queued._fields, [_row(each) for each in waiting])
        return Page("label.html", context, data, table, 400 if error else 200)

    def _waiting(self, view: GatewayView) -> tuple[LabelState, list[Queued], int, dict[str, Fittable]]:
        """The state as it was read, what waits, how many are labelled by now, and their scores."""
        with self._lock:
            now, state = time.monotonic(), self._state
            waiting = self._left(state)
            if state is None or not waiting or now - self._read_at >= _FRESH:
                self._state = state = labels(view.ledger, limit=_QUEUED)
                self._scored, self._given = dict(state.scored), set()
                self._read_at = now
                waiting = self._left(state)
            return state, waiting, len(state.labelled | self._given), dict(self._scored)

    def _left(self, state: LabelState | None) -> list[Queued]:
        return [each for each in state.queue if each.decision not in self._done] if state else []


def _row(queued: Queued) -> tuple[object, ...]:
    return tuple("; ".join(value) if isinstance(value, tuple) else value for value in queued)


def _item(view: GatewayView, queued: Queued) -> dict[str, object]:
    decision = view.ledger.get(queued.decision)
    if decision is None:  # removed since the queue was read
        return {"queued": None}
    found = record(view.ledger, decision)
    words = kept_words(found.text)
    pieces = None
    if words is not None:
        pieces = marked(
            words,
            explain(view.engine.scorer_of(decision.input), view.engine.scanner.scan(words)).contributions,
        )
    answers = kept_answers(found)
    place = next((number for number, each in enumerate(answers, 1) if not each.is_labelled), None)
    return {
        "queued": queued,
        "decision": decision,
        "pieces": pieces,
        "answers": answers,
        "place": place,
        "is_half_labelled": place is not None and any(each.is_labelled for each in answers),
    }
