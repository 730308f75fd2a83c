"""The effect of guidance: treated sessions against the control group.

About half of stuck agents recover unaided, so the course after guidance proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.guidance.memory import Arm, Followed
from pointsman.learning.intervals import difference_of_shares
from pointsman.vocabulary import Mode

__all__ = [
    "ENOUGH_SESSIONS",
    "ArmCount",
    "Effect",
    "Ended",
    "EndingEffect",
    "EndingSide",
    "compare",
    "compare_endings",
    "followed_in",
]

#: Sessions each side must have. Below it the interval of the difference spans half of all that is possible.
ENOUGH_SESSIONS: Final = 30


@dataclass(frozen=True, slots=True)
class ArmCount:
    """One side: sessions, and those with a continued streak."""

    sessions: int
    continued: int

    @property
    def share(self) -> float:
        """Share of sessions with a continued streak; 0 without sessions."""
        return self.continued / self.sessions if self.sessions else 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """Treated against withheld. ``difference`` below zero: fewer streaks continued with guidance."""

    treated: ArmCount
    control: ArmCount
    difference: float
    low: float  # 95 % interval
    high: float

    @property
    def enough(self) -> bool:
        """False when a side is too small for the interval to say anything."""
        return min(self.treated.sessions, self.control.sessions) >= ENOUGH_SESSIONS

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        if not self.enough:
            least = min(self.treated.sessions, self.control.sessions)
            needed = f"{ENOUGH_SESSIONS} sessions a side are needed"
            return f"Too little data: {needed}, the smaller side has {least}."
        if self.high < 0:
            return "Guidance helps: fewer streaks go on with it than without."
        if self.low > 0:
            return "Guidance harms: more streaks go on with it than without."
        return "No difference can be shown: the interval includes zero."


def compare(rows: Iterable[Followed]) -> Effect:
    """Compare the two sides by each session's first intervention, so that sessions count equally."""
    first: dict[str, Followed] = {}
    for row in rows:
        first.setdefault(row.session, row)
    treated, control = (
        ArmCount(len(side), sum(row.continued for row in side))
        for side in ([row for row in first.values() if row.arm is arm] for arm in (Arm.TREATED, Arm.CONTROL))
    )
    low, high = difference_of_shares(treated.continued, treated.sessions, control.continued, control.sessions)
    return Effect(treated, control, treated.share - control.share, low, high)


def followed_in(decisions: Iterable[Decision]) -> Iterator[Followed]:
    """Result of each intervention among decisions, oldest first.

    Only those taken in mode "on": while observing, no session is treated, so there is no comparison.
    """
    for decision in decisions:
        kept = decision.guidance
        if kept and kept.follow_up and kept.mode is Mode.ON:
            yield Followed(
                decision.input.session,
                kept.arm,
                kept.follow_up.classifier,
                kept.follow_up.continued,
                decision.input.client,
            )


# How sessions ended in which a hint was due: the treated sessions against the control group.


@dataclass(frozen=True, slots=True)
class Ended:
    """One session in which a hint was due."""

    session: str
    arm: Arm
    score: float | None  # 0 bad to 1 good; None: nobody said
    source: str = ""  # the program whose agent it was; empty: not known


@dataclass(frozen=True, slots=True)
class EndingSide:
    """One side: sessions, those with a score, and the sum of their scores."""

    sessions: int
    scored: int
    total: float

    @property
    def mean(self) -> float:
        """Mean score; 0 without any."""
        return self.total / self.scored if self.scored else 0.0


@dataclass(frozen=True, slots=True)
class EndingEffect:
    """Treated against withheld. ``difference`` above zero: sessions end better with guidance."""

    treated: EndingSide
    control: EndingSide
    difference: float
    low: float  # 95 % interval
    high: float

    @property
    def enough(self) -> bool:
        """False when a side is too small for the interval to say anything."""
        return min(self.treated.scored, self.control.scored) >= ENOUGH_SESSIONS

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        if not self.enough:
            least = min(self.treated.scored, self.control.scored)
            needed = f"{ENOUGH_SESSIONS} sessions a side are needed"
            return f"Too little data: {needed}, the smaller side has {least}."
        if self.low > 0:
            return "Guidance helps: sessions end better with it than without."
        if self.high < 0:
            return "Guidance harms: sessions end worse with it than without."
        return "No difference can be shown: the interval includes zero."


def compare_endings(rows: Sequence[Ended]) -> EndingEffect:
    """Compare the two sides by the scores of their sessions.

    A score between 0 and 1 varies at most as a yes-or-no of the same mean does: the interval of a difference
    of shares is wide enough for it.
    """
    treated, control = (
        EndingSide(len(side), len(scores), sum(scores))
        for side in ([row for row in rows if row.arm is arm] for arm in (Arm.TREATED, Arm.CONTROL))
        for scores in ([row.score for row in side if row.score is not None],)
    )
    low, high = difference_of_shares(treated.total, treated.scored, control.total, control.scored)
    return EndingEffect(treated, control, treated.mean - control.mean, low, high)
