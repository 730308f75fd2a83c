"""How sessions ended in which a hint was due, from what a ledger holds of outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from pointsman.guidance import Arm, Mode
from pointsman.reports.ending_effect import Ended
from pointsman.stores.ledger import Outcome, Record

__all__ = ["Endings", "endings"]

_IMPLICIT: Final = "implicit:"
#: Guidance itself may raise the tier, on one side only: that is no sign of how a session went.
_OF_GUIDANCE: Final = "implicit:escalation"


@dataclass(slots=True)
class Endings:
    """The same sessions twice: by what someone said, and by signs against an answer that were derived."""

    said: list[Ended]  # mean of the scores said from the first due hint on
    signs: list[Ended]  # 1 where no sign was seen from then on, else 0; empty where none were ever derived


@dataclass(slots=True)
class _Session:
    arm: Arm
    source: str = ""
    scores: list[float] = field(default_factory=list)
    signs: int = 0


def endings(records: Iterable[Record]) -> Endings:
    """Follow every session from the first hint that was due in it. Records come oldest first.

    Sessions that were only observed are left out: nobody is treated there. A session counts on its side
    whether or not it went on, so that a hint after which an agent gives up counts as well.
    """
    sessions: dict[str, _Session] = {}
    derived = False
    for record in records:
        guidance, name = record.decision.guidance, record.decision.input.session
        derived = derived or any(outcome.source.startswith(_IMPLICIT) for outcome in record.outcomes)
        if name not in sessions and guidance and guidance.firings and guidance.mode is Mode.ON:
            sessions[name] = _Session(guidance.arm, record.decision.input.client)
        if name in sessions:
            _add(sessions[name], record.outcomes)
    said = [
        Ended(name, each.arm, fmean(each.scores) if each.scores else None, each.source)
        for name, each in sessions.items()
    ]
    signs = [Ended(name, each.arm, float(not each.signs), each.source) for name, each in sessions.items()]
    return Endings(said, signs if derived else [])


def _add(session: _Session, outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.source.startswith(_IMPLICIT):
            session.signs += outcome.source != _OF_GUIDANCE and outcome.score == 0.0
        elif outcome.score is not None and not outcome.model:
            session.scores.append(outcome.score)
