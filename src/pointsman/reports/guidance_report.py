"""The effect of guidance in a ledger: the control group, by the next call and by how sessions ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pointsman.guidance.memory import Followed
from pointsman.reports.ending_effect import Ended, EndingEffect, compare_endings
from pointsman.reports.endings import endings
from pointsman.reports.guidance_effect import Effect, compare, followed_in
from pointsman.stores.ledger import Record

__all__ = ["GuidanceReport", "guidance_report"]


@dataclass(frozen=True, slots=True)
class GuidanceReport:
    """What came of hints, given and withheld."""

    rows: tuple[Followed, ...]
    effect: Effect
    said: tuple[Ended, ...] = ()  # how sessions ended, by what was said of them
    endings: dict[str, EndingEffect] = field(default_factory=dict)  # "said", "signs": of what is known

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "effect": self.effect,
            "enough": self.effect.enough,
            "verdict": self.effect.verdict,
            "rows": self.rows,
            "endings": {name: _ending_json(each) for name, each in self.endings.items()},
        }


def guidance_report(records: Iterable[Record]) -> GuidanceReport:
    """Compare treated sessions with the control group.

    Args:
        records: Decisions with their outcomes, the oldest first; read once.
    """
    rows: list[Followed] = []

    def followed() -> Iterator[Record]:
        for record in records:
            rows.extend(followed_in((record.decision,)))
            yield record

    found = endings(followed())
    effects = {"said": compare_endings(found.said), "signs": compare_endings(found.signs)}
    known = {name: each for name, each in effects.items() if each.treated.scored or each.control.scored}
    return GuidanceReport(tuple(rows), compare(rows), tuple(found.said), known)


def _ending_json(effect: EndingEffect) -> dict[str, object]:
    sides = {
        name: {"sessions": side.sessions, "scored": side.scored, "mean": round(side.mean, 6)}
        for name, side in (("treated", effect.treated), ("withheld", effect.control))
    }
    interval = {"difference": effect.difference, "low": effect.low, "high": effect.high}
    return {**sides, **interval, "enough": effect.enough, "verdict": effect.verdict}
