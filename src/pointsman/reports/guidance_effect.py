"""The effect of guidance: treated sessions against the control group.

About half of stuck agents recover unaided, so what happens after guidance says nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.guidance.memory import Arm, Followed
from pointsman.learning.intervals import difference_of_shares
from pointsman.vocabulary import Mode

__all__ = ["ENOUGH_SESSIONS", "ArmCount", "Effect", "compare", "followed_in"]

#: Sessions each side must have. Below it the interval of the difference spans half of all that is possible.
ENOUGH_SESSIONS: Final = 30


@dataclass(frozen=True, slots=True)
class ArmCount:
    """One side: sessions, and those whose streak went on."""

    sessions: int
    continued: int

    @property
    def share(self) -> float:
        """Share of sessions whose streak went on; 0 without sessions."""
        return self.continued / self.sessions if self.sessions else 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """Treated against withheld. ``difference`` below zero: fewer streaks went on with guidance."""

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
    """What came of each intervention among decisions, oldest first.

    Only those taken in mode "on": while observing, nobody is treated, so there is nothing to compare with.
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
