"""The effect of guidance: treated sessions against the control group.

About half of stuck agents recover unaided, so the course after guidance proves nothing by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.guidance import Arm, Mode
from pointsman.guidance.memory import Followed
from pointsman.learning.intervals import difference_of_shares
from pointsman.printable import Block, Column, TextTable
from pointsman.remembering import grouped
from pointsman.reports.outcomes import IMPLICIT
from pointsman.stores.ledger import Outcome, Record

__all__ = [
    "ENOUGH_SESSIONS",
    "Effect",
    "EffectSide",
    "Ended",
    "Endings",
    "GuidanceReport",
    "compare",
    "compare_endings",
    "endings",
    "followed_in",
    "guidance_report",
]

#: Sessions each side must have. Below it the interval of the difference spans half of all that is possible.
ENOUGH_SESSIONS: Final = 30

#: Standard errors that a verdict takes, .034 % on each side: a report is read again with every session, and
#: has up to three verdicts. Without any effect, 48 % of those who do so up to 4,000 sessions a side see a
#: 95 % interval of one of them without zero at some time, and 5 to 6 % such a one of any of the three.
_OFTEN: Final = 3.4


@dataclass(frozen=True, slots=True)
class EffectSide:
    """One side: sessions, those that count, and the sum of their values, 0 to 1 each."""

    sessions: int
    counted: int
    total: float

    @property
    def mean(self) -> float:
        """Share of continued streaks, or mean score; 0 without any."""
        return self.total / self.counted if self.counted else 0.0


@dataclass(frozen=True, slots=True)
class Effect:
    """Treated against withheld: by the streaks that continued, or by the scores of sessions."""

    treated: EffectSide
    control: EffectSide
    difference: float
    low: float  # 95 % interval
    high: float
    of_scores: bool  # a difference above zero is good; of streaks, one below zero is

    @property
    def sides(self) -> dict[str, EffectSide]:
        """Both sides as lines for a person name them."""
        return {"guidance given": self.treated, "guidance withheld": self.control}

    @property
    def enough(self) -> bool:
        """False when a side is too small for the interval to say anything."""
        return min(self.treated.counted, self.control.counted) >= ENOUGH_SESSIONS

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        if not self.enough:
            least = min(self.treated.counted, self.control.counted)
            needed = f"{ENOUGH_SESSIONS} sessions a side are needed"
            return f"Too little data: {needed}, the smaller side has {least}."
        if self.low <= 0 <= self.high:
            return "No difference can be shown: the interval includes zero."
        treated, control = self.treated, self.control
        low, high = difference_of_shares(
            treated.total, treated.counted, control.total, control.counted, _OFTEN
        )
        if low <= 0 <= high:
            show = "{:+.2f} to {:+.2f}" if self.of_scores else "{:+.0%} to {:+.0%}"
            return (
                "No difference can be shown yet: a report is read often, so the 99.93 % interval counts, and "
                f"includes zero ({show.format(low, high)})."
            )
        more, less = ("better", "worse") if self.of_scores else ("more", "fewer")
        word = more if self.low > 0 else less
        helps = "helps" if (self.low > 0) == self.of_scores else "harms"
        what = f"sessions end {word}" if self.of_scores else f"{word} streaks go on"
        return f"Guidance {helps}: {what} with it than without."


def compare(rows: Iterable[Followed]) -> Effect:
    """Compare the two sides by each session's first intervention, so that sessions count equally."""
    sessions = grouped((row.session, (row.arm, row.continued)) for row in rows)
    return _between([first for first, *_ in sessions.values()], of_scores=False)


def _between(counts: Sequence[tuple[Arm, float | None]], *, of_scores: bool) -> Effect:
    """Compare the values of the sessions of two sides; None: it does not count."""
    sides = ([value for side, value in counts if side is arm] for arm in (Arm.TREATED, Arm.CONTROL))
    known = [(len(side), [value for value in side if value is not None]) for side in sides]
    treated, control = (EffectSide(sessions, len(values), sum(values)) for sessions, values in known)
    low, high = difference_of_shares(treated.total, treated.counted, control.total, control.counted)
    return Effect(treated, control, treated.mean - control.mean, low, high, of_scores)


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


def compare_endings(rows: Sequence[Ended]) -> Effect:
    """Compare the two sides by the scores of their sessions.

    A score between 0 and 1 varies at most as a yes-or-no of the same mean does: the interval of a difference
    of shares is wide enough for it.
    """
    return _between([(row.arm, row.score) for row in rows], of_scores=True)


# How sessions ended in which a hint was due, from what a ledger holds of outcomes.

#: Guidance itself may raise the tier, on one side only: that is no sign of how a session went.
_OF_GUIDANCE: Final = f"{IMPLICIT}escalation"


@dataclass(slots=True)
class Endings:
    """The same sessions twice: by reported outcomes, and by signs against an answer that were derived."""

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

    Sessions that were only observed are left out: none is treated there. A session counts on its side
    whether or not it continued, so that a hint after which an agent gives up counts as well.
    """
    sessions: dict[str, _Session] = {}
    derived = False
    for record in records:
        guidance, name = record.decision.guidance, record.decision.input.session
        derived = derived or any(outcome.source.startswith(IMPLICIT) for outcome in record.outcomes)
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
        if outcome.source.startswith(IMPLICIT):
            session.signs += outcome.source != _OF_GUIDANCE and outcome.score == 0.0
        elif outcome.score is not None and not outcome.model:
            session.scores.append(outcome.score)


@dataclass(frozen=True, slots=True)
class GuidanceReport:
    """Effects of hints, given and withheld."""

    rows: tuple[Followed, ...]
    effect: Effect
    said: tuple[Ended, ...] = ()  # how sessions ended, by what was said of them
    endings: dict[str, Effect] = field(default_factory=dict)  # "said", "signs": of what is known

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "effect": _effect_json(self.effect),
            "enough": self.effect.enough,
            "verdict": self.effect.verdict,
            "rows": self.rows,
            "endings": {name: _ending_json(each) for name, each in self.endings.items()},
        }

    def blocks(self) -> Iterator[Block]:
        """Lines and tables for a person."""
        yield _classifier_table(self.rows)
        if self.rows:
            yield ""
        yield from _effect_lines(self.effect)
        if not self.rows:
            yield 'A session counts with mode = "on" under [guidance], after a hint was due and a call came.'
        yield from _ending_lines(self.endings)
        yield from _source_blocks(self.rows, self.said)


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
    known = {name: each for name, each in effects.items() if each.treated.counted or each.control.counted}
    return GuidanceReport(tuple(rows), compare(rows), tuple(found.said), known)


def _interval(effect: Effect) -> dict[str, object]:
    return {"difference": effect.difference, "low": effect.low, "high": effect.high}


def _effect_json(effect: Effect) -> dict[str, object]:
    sides = {
        name: {"sessions": side.sessions, "continued": side.total}
        for name, side in (("treated", effect.treated), ("control", effect.control))
    }
    return {**sides, **_interval(effect)}


def _ending_json(effect: Effect) -> dict[str, object]:
    sides = {
        name: {"sessions": side.sessions, "scored": side.counted, "mean": round(side.mean, 6)}
        for name, side in (("treated", effect.treated), ("withheld", effect.control))
    }
    return {**sides, **_interval(effect), "enough": effect.enough, "verdict": effect.verdict}


_SIDES: Final = ("given", "went on", "withheld", "went on")
_FIRED: Final = (Column("fired", least=22), *(Column(name, right=True) for name in _SIDES))
_BY_PROGRAM: Final = (
    Column("program", least=18),
    *(Column(name, right=True) for name in (*_SIDES, "score given", "withheld")),
)
_ENDED: Final = {
    "said": "how sessions ended, by the scores given from the first due hint on (1 is good)",
    "signs": "sessions without a retry or a correction from the first due hint on, as derived",
}


def _classifier_table(rows: Iterable[Followed]) -> TextTable:
    """A row for each classifier: interventions on each side, and the number of continued streaks."""
    sides = grouped(((row.classifier, row.arm), row.continued) for row in rows)
    both = [
        (classifier, [sides.get((classifier, arm), []) for arm in (Arm.TREATED, Arm.CONTROL)])
        for classifier in sorted({name for name, _ in sides})
    ]
    found = [(name, *(figure for each in of for figure in (len(each), sum(each)))) for name, of in both]
    return TextTable(_FIRED, found)


def _effect_lines(effect: Effect) -> list[str]:
    """The comparison, by each session's first intervention."""
    lines = [
        f"{name}: {side.sessions} sessions, the streak went on in {side.total} ({side.mean:.0%})"
        for name, side in effect.sides.items()
    ]
    if effect.enough:
        lines.append(
            f"difference: {effect.difference:+.0%}, 95 % interval {effect.low:+.0%} to {effect.high:+.0%}"
        )
    return [*lines, effect.verdict]


def _ending_lines(effects: Mapping[str, Effect]) -> Iterator[str]:
    """How sessions ended, each way it is known."""
    for name, effect in effects.items():
        yield ""
        yield f"{_ENDED[name]}:"
        for label, side in effect.sides.items():
            yield f"{label}: {side.mean:.2f} in {side.counted} of {side.sessions} sessions"
        if effect.enough:
            interval = f"95 % interval {effect.low:+.2f} to {effect.high:+.2f}"
            yield f"difference: {effect.difference:+.2f}, {interval}"
        yield effect.verdict


def _source_blocks(rows: Sequence[Followed], ended: Sequence[Ended]) -> Iterator[Block]:
    """A row for each program whose agents were treated or in the control group, if there are several.

    Agents differ in how often they fail and recover, so a difference between all of them says little of one.
    """
    sources = sorted({row.source for row in rows} | {each.source for each in ended})
    if len(sources) < 2:
        return
    yield ""
    found = []
    for source in sources:
        effect = compare(row for row in rows if row.source == source)
        scores = compare_endings([each for each in ended if each.source == source])
        sides = (effect.treated, effect.control)
        given, withheld = ((each.sessions, f"{each.mean:.0%}" if each.sessions else "-") for each in sides)
        means = [f"{s.mean:.2f}" if s.counted else "-" for s in (scores.treated, scores.control)]
        found.append((source or "(not known)", *map(str, (*given, *withheld, *means))))
    yield TextTable(_BY_PROGRAM, found)
