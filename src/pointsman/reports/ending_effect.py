"""How sessions ended in which a hint was due: the treated sessions against the control group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pointsman.guidance.memory import Arm
from pointsman.learning.intervals import difference_of_shares
from pointsman.reports.guidance_effect import ENOUGH_SESSIONS

__all__ = ["Ended", "EndingEffect", "EndingSide", "compare_endings"]


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
