"""Outcomes reported from outside: read and checked in one place, and admitted by the ledger's entries."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from numbers import Real
from typing import Final

import msgspec

from pointsman.decision.decision import Decision
from pointsman.decoding import whole_text
from pointsman.errors import TooManyOutcomes, UnknownDecision
from pointsman.remembering import Bounded
from pointsman.stores.ledger.port import Outcome

__all__ = [
    "CALLER",
    "LENGTHS",
    "MAX_OUTCOMES",
    "ReportedOutcome",
    "read_line",
    "read_report",
    "report",
    "unknown",
]

#: How the sources of outcomes begin that ordinary callers posted, where keys have roles.
CALLER: Final = "caller:"
#: Outcomes of one decision that are taken from outside: a judge, a test run and a person each say it a few
#: times at most. With ``LENGTHS`` one decision has at most some 350 kB of them.
MAX_OUTCOMES: Final = 20
#: Most characters of each field. A comment holds a page; the others name something.
LENGTHS: Final = {"decision": 200, "label": 200, "source": 100, "model": 200, "comment": 4_000}


class ReportedOutcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report about one decision: a score, a label, or both."""

    score: float | None = None
    label: str = ""
    comment: str = ""
    model: str = ""  # the shadow model of the answer


class _Line(ReportedOutcome, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: str
    source: str = "import"


_decode_report: Final = msgspec.json.Decoder(ReportedOutcome).decode
_decode_line: Final = msgspec.json.Decoder(_Line).decode


def read_report(body: bytes, *, decision: str, at: float, caller: str = "") -> Outcome:
    """Read a report about one decision.

    Args:
        body: JSON.
        decision: Its id.
        at: Seconds since the epoch.
        caller: Key of an ordinary caller, if keys have roles: its name becomes a part of the source.

    Raises:
        ValueError: it is not JSON of this shape, or out of bounds; the message names the field.
    """
    outcome = _checked(Outcome(decision=decision, at=at, **msgspec.structs.asdict(_decode_report(body))))
    source = f"{CALLER}{caller}"[: LENGTHS["source"]]
    return msgspec.structs.replace(outcome, source=source) if caller else outcome


def report(decision: str, *, score: float | None, label: str, comment: str, model: str, at: float) -> Outcome:
    """Return an outcome that a program reports; ``at`` is in seconds since the epoch.

    Raises:
        ValueError: it is out of bounds; the message names the field.
    """
    given: object = score  # a number of NumPy, or whether a test passed
    said = {
        "decision": decision,
        "score": float(given) if isinstance(given, Real) else given,
        "label": label,
        "comment": comment,
        "model": model,
        "at": at,
    }
    try:
        outcome = msgspec.convert(said, Outcome)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    texts = {name: whole_text(getattr(outcome, name)) for name in ("label", "comment", "model")}
    return _checked(msgspec.structs.replace(outcome, **texts))


def read_line(line: bytes, *, at: float) -> Outcome:
    """Read one line of a file of outcomes. Raises as ``read_report`` does."""
    return _checked(Outcome(at=at, **msgspec.structs.asdict(_decode_line(line))))


def _checked(outcome: Outcome) -> Outcome:
    if not outcome.decision:
        raise ValueError('"decision" must not be empty')
    if outcome.score is not None and not 0 <= outcome.score <= 1:  # nor is NaN
        raise ValueError(f'"score" must be a number from 0 to 1, not {outcome.score:g}')
    for field, limit in LENGTHS.items():
        if len(getattr(outcome, field)) > limit:
            raise ValueError(f'"{field}" is longer than {limit:,} characters')
    if outcome.score is None and not outcome.label:
        raise ValueError('an outcome needs a "score" or a "label"')
    return outcome


def unknown(decision: str) -> UnknownDecision:
    """Return the error for an id that the ledger does not hold."""
    return UnknownDecision(f'there is no decision "{decision[: LENGTHS["decision"]]}"')


class Admission:
    """Which decisions wait to be written, and how many outcomes the decisions lately reported on have.

    An outcome follows its decision at once, when the file holds neither. A number is remembered for the
    ``size`` decisions last reported on: when that is as many as entries may wait, every outcome that is not
    in the file yet is counted in one of them.
    """

    def __init__(self, size: int) -> None:
        self._waiting: Final[dict[str, str]] = {}  # callers by the ids of decisions
        self._counts: Final = Bounded[str, int](size)  # the last reported on is the last
        self.lock: Final = threading.Lock()  # held from looking at a count to adding to it
        self.waits: Final = self._waiting.__setitem__  # called for every request: one operation on a dict

    def written(self, decisions: Iterable[Decision]) -> None:
        """They are in the file, or lost: they wait no more."""
        for decision in decisions:
            self._waiting.pop(decision.id, None)

    def is_waiting(self, decision: str, caller: str) -> bool:
        """Whether a decision of a caller is queued; an empty ``caller`` means any.

        Ask before the file is read: a decision is in the file before it ceases to wait.
        """
        whose = self._waiting.get(decision)
        return whose is not None and caller in ("", whose)

    def admit(self, decision: str, written: int) -> None:
        """Count one more outcome of a decision of which the file holds ``written``.

        Raises:
            TooManyOutcomes: it has all it may have.
        """
        count = max(written, self._counts.get(decision, 0))
        if count >= MAX_OUTCOMES:
            raise TooManyOutcomes(
                f'decision "{decision}" has {count} outcomes, and takes {MAX_OUTCOMES} at most'
            )
        self._counts.keep(decision, count + 1)
