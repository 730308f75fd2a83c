"""Quality of routing: the learned router's claim, and the cost-quality curve."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import PointsmanError
from pointsman.learning.intervals import Interval, Z, more_to_show, wilson
from pointsman.prices import dollars
from pointsman.printable import Block, Column, TextTable
from pointsman.remembering import grouped, summed
from pointsman.reports.usage import cost, root_session, session_of
from pointsman.stores.ledger import Record
from pointsman.stores.ledger.reading import DecisionRow, tokens_of
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, ScoreSource
from pointsman.vocabulary import ModelSpec

__all__ = [
    "ENOUGH",
    "Curve",
    "CurvePoint",
    "Drift",
    "Observed",
    "Point",
    "PolicySavings",
    "Shift",
    "WorkingPoint",
    "drift",
    "observed",
    "read_curve",
    "router_quality",
]


class PolicySavings(msgspec.Struct, frozen=True):
    """A policy on held-out prompts, against always strong and a coin of equal success.

    Success: share of prompts; cost and saving: shares of what the strong model alone costs.
    """

    prompts: int
    success_minus_strong: Interval
    cost: Interval
    saved_beyond_coin: Interval

    @property
    def missing(self) -> int | None:
        """About how many more outcomes would show such a saving in 4 of 5 cases; 0 where it is shown.

        None if the saving seen is within one standard error.
        """
        if (saved := self.saved_beyond_coin).low > 0:
            return 0
        return more_to_show(saved.value, (saved.high - saved.low) / (2 * Z), self.prompts)

    def sentence(self) -> str:
        """The row of the table of savings in words."""
        less, cost, saved = (
            f"{each.value:{sign}z.3f} [{each.low:{sign}z.3f}, {each.high:{sign}z.3f}]"
            for each, sign in (
                (self.success_minus_strong, "+"),
                (self.cost, ""),
                (self.saved_beyond_coin, "+"),
            )
        )
        found = (
            f"on {self.prompts:,} held-out prompts: success {less} against always strong, at {cost} of its"
            f" cost; saved beyond a coin of equal success {saved}"
        )
        if self.missing == 0:
            return f"{found}: shown"
        if not self.saved_beyond_coin.value > 0:
            return f"{found}: a coin saves as much"
        if self.missing is None:
            return f"{found}: not shown, and within its error: no number of outcomes is known to show it"
        return (
            f"{found}: not shown; if the saving is as large as seen, about {self.missing:,} more outcomes"
            " show it in 4 of 5 cases"
        )


class CurvePoint(msgspec.Struct, frozen=True):
    """Costs of 1,000 prompts, and the share of the best model's quality that is retained."""

    cost: float
    kept: Interval


class WorkingPoint(CurvePoint, frozen=True):
    """The policy that ``pointsman fit policy`` chose; the files of earlier versions have no verdict."""

    savings: PolicySavings | None = None
    shown: bool = False  # held out, the target is met, by more than models drawn at random for the same money
    verdict: str = ""
    aim: float | None = None  # a safer target for the same level; None: there is none, or it is shown


class Curve(msgspec.Struct, frozen=True):
    """The file of ``pointsman fit policy --curve``."""

    models: tuple[tuple[float, float], ...]  # cost and quality kept of each model alone
    points: tuple[CurvePoint, ...]
    chosen: WorkingPoint | None = None  # None in a file of an earlier version


_curve = msgspec.json.Decoder(Curve).decode


def router_quality(router: LearnedRouter) -> dict[str, object]:
    """Return the claim of a learned router as plain values, why it is no larger, and calibration errors."""
    claim = router.claim
    unproven = [
        f"{name} {more:+.3f} ({low:+.3f} .. {high:+.3f})"
        for name, (more, low, high) in claim.against.items()
        if low <= 0
    ]
    refused = "" if claim.improves else f"an interval reaches below zero: {'; '.join(unproven)}"
    return {
        **{name: getattr(claim, name) for name in ("rows", "apgr", "low", "high", "against", "improves")},
        "refused": refused,
        "calibration": {"weak": router.weak_calibration.error, "strong": router.strong_calibration.error},
    }


def read_curve(file: Path) -> Curve:
    """Return the curve in a file.

    Raises:
        PointsmanError: it cannot be read, or is no such file.
    """
    try:
        return _curve(file.read_bytes())
    except OSError as error:
        raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error
    except UNREADABLE as error:
        hint = "pointsman fit policy --curve FILE writes one"
        raise PointsmanError(f"{file} is no cost-quality curve: {why_unreadable(error)}", hint=hint) from None


# Observed quality and cost: what labels say of each model's answers, and of all together.

#: Labels below which the interval of a mean is wider than what models differ by.
ENOUGH: Final = 30


class Point(msgspec.Struct, frozen=True):
    """One model, or all of them."""

    name: str  # empty: all, the working point
    labels: int
    score: float  # mean of the labels, 0 to 1
    low: float  # 95 % interval of that mean
    high: float
    cost: float | None  # of 1,000 answers; None where no cost is known
    priced: int  # labelled answers whose cost is known

    @property
    def enough(self) -> bool:
        """False if the interval is too wide."""
        return self.labels >= ENOUGH


class Observed(msgspec.Struct, frozen=True):
    """What labels say. Models serve different prompts: their points are no experiment."""

    point: Point | None  # the working point; None without a label
    models: tuple[Point, ...]  # by cost, the cheapest first

    def table(self) -> TextTable:
        """All answers, then those of each model."""
        points = [*([self.point] if self.point else []), *self.models]
        rows = [
            (each.name or "all", each.labels, each.score, each.low, each.high, each.cost) for each in points
        ]
        return TextTable(_COLUMNS, rows)

    def blocks(self) -> Iterator[Block]:
        """The report for a person."""
        yield self.table()
        few = [each.name or "all" for each in (self.point, *self.models) if each and not each.enough]
        if few:
            yield f"too few labels to tell, below {ENOUGH}: {', '.join(few)}"


_COLUMNS: Final = (
    Column("model"),
    Column("labels", right=True, show="{:,}".format),
    *(Column(name, right=True, show="{:.2f}".format) for name in ("score", "low", "high")),
    Column("cost of 1,000 answers", right=True, show=dollars),
)


def observed(rows: Iterable[DecisionRow], models: Mapping[str, ModelSpec]) -> Observed:
    """Add up labelled decisions; those without a score or an answer are left out.

    The cost is that of the answers alone: retries, and a shadow model's answers, are no price of a model.
    """
    scored = [row for row in rows if row.score is not None and row.result != "no_answer"]
    points = [_point(name, of, models) for name, of in grouped((row.model, row) for row in scored).items()]
    points.sort(key=lambda point: (point.cost is None, point.cost or 0.0, point.name))
    return Observed(_point("", scored, models) if scored else None, tuple(points))


def _point(name: str, rows: list[DecisionRow], models: Mapping[str, ModelSpec]) -> Point:
    sessions = grouped(
        ((row.caller, root_session(row.session, row.role) or row.id), row.score)
        for row in rows
        if row.score is not None
    )
    scores = list(chain.from_iterable(sessions.values()))
    used = ((row.model, tokens_of(row)) for row in rows if row.result == "counted")
    costs = [paid for model, each in used if (paid := cost(models.get(model), each)) is not None]
    low, high = _interval(list(sessions.values()))
    return Point(
        name,
        len(scores),
        sum(scores) / len(scores),
        low,
        high,
        1_000 * sum(costs) / len(costs) if costs else None,
        len(costs),
    )


def _interval(sessions: list[list[float]]) -> tuple[float, float]:
    """The 95 % interval of a mean of values from 0 to 1; with one session everything is possible.

    Values of one session are alike: sessions are compared whole (Liang and Zeger 1986), and the score
    interval is that of as many independent values as tell the mean equally well. One invented session of each
    extreme keeps equal values from telling it exactly; both are left out of the number again.
    """
    if len(sessions) < 2:
        return 0.0, 1.0
    labels = sum(map(len, sessions))
    seen = sum(map(sum, sessions)) / labels
    size = round(sum(len(each) ** 2 for each in sessions) / labels)
    every = [*sessions, [0.0] * size, [1.0] * size]
    count = labels + 2 * size
    mean = sum(map(sum, every)) / count
    strays = sum((sum(each) - mean * len(each)) ** 2 for each in every)
    variance = strays * len(every) / (len(every) - 1) / count**2
    effective = max(mean * (1 - mean) / variance - 2, 1.0)
    low, high = wilson(seen * effective, effective)
    return min(low, seen), max(high, seen)  # at the ends they differ by rounding


#: Population stability index from which a distribution has shifted somewhat, and from which what was fitted
#: on the old one is not to be relied on. Source: Siddiqi, "Credit Risk Scorecards" (2006), chapter 10.
SHIFTED: Final = 0.10
LEFT: Final = 0.25

#: 95 % quantile of chi squared with nine degrees of freedom. Without any drift the index over ten bins is
#: distributed as that times (1/live + 1/trained): below it a shift may be chance. Source: Yurdakul,
#: "Statistical Properties of Population Stability Index" (2018). Prompts of one session are alike, so that
#: fewer count as live: one by one, 20 sessions of ten without drift were called shifted in 12 to 27 %.
CHANCE: Final = 16.92

#: How much more the similarities of a learned router vary than a sample of as many prompts does: they come
#: from routers trained on four fifths of the data, whose centroids add noise of their own. With 1, prompts
#: like the training data were reported as shifted in 14 to 31 of 100 cases by routers of 100 labels; with 2
#: in at most 3 (docs/notebook/0097).
REFITTED: Final = 2

#: Prompts below which nothing is said: chance alone then reaches an index of 0.17.
LEAST: Final = 100

#: Counted into every bin, so that an empty one gives no infinite index.
HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Shift:
    """One feature of live prompts against training prompts."""

    feature: str
    index: float  # population stability index
    chance: float  # index that chance alone stays below in 95 of 100 cases
    outside: float  # share of live prompts below the least or above the most that training had
    median: float  # of live prompts
    trained_median: float

    @property
    def verdict(self) -> str:
        """In one word: "left", "shifted" or "stable"."""
        if self.index < SHIFTED or self.index <= self.chance:
            return "stable"
        return "left" if self.index >= LEFT else "shifted"


_SHIFT_COLUMNS: Final = (
    Column("feature", whole=True),
    *(Column(name, right=True, show="{:.3f}".format) for name in ("index", "chance")),
    *(Column(name, right=True, show="{:.2f}".format) for name in ("median", "trained")),
    Column("outside", right=True, show="{:.1%}".format),
    Column("verdict"),
)
_SHIFT_CELLS: Final = attrgetter(
    "feature", "index", "chance", "median", "trained_median", "outside", "verdict"
)


@dataclass(frozen=True)
class Drift:
    """What live prompts look like to a learned router."""

    prompts: int = 0
    other_routers: int = 0  # prompts that another learned router, or none, was asked about
    sources: Counter[ScoreSource] = field(default_factory=Counter)
    shifts: tuple[Shift, ...] = ()  # empty where there are too few prompts

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "prompts": self.prompts,
            "other_routers": self.other_routers,
            "enough": bool(self.shifts),
            "sources": {str(source): self.sources[source] for source in ScoreSource},
            "shifts": [
                {
                    "feature": shift.feature,
                    "index": round(shift.index, 4),
                    "chance": round(shift.chance, 4),
                    "outside": round(shift.outside, 4),
                    "median": round(shift.median, 4),
                    "trained_median": round(shift.trained_median, 4),
                    "verdict": shift.verdict,
                }
                for shift in self.shifts
            ],
        }

    def blocks(self) -> Iterator[Block]:
        """The report for a person."""
        yield (
            f"{self.prompts:,} prompts asked of this learned router, "
            f"{self.other_routers:,} of another or none"
        )
        if not self.shifts:
            yield f"too few to tell: {LEAST} are needed"
            return
        told = (f"{source} in {self.sources[source] / self.prompts:.0%}" for source in ScoreSource)
        yield "score source: " + ", ".join(told)
        yield TextTable(_SHIFT_COLUMNS, list(map(_SHIFT_CELLS, self.shifts)))
        yield self._conclusion()

    def _conclusion(self) -> str:
        verdicts = {shift.verdict for shift in self.shifts}
        if "left" in verdicts:
            return (
                "live prompts have left what the learned router was trained on: fit it again on newer "
                "outcomes"
            )
        if "shifted" in verdicts:
            return (
                "live prompts begin to differ from what the learned router was trained on: measure it again"
            )
        if any(shift.index >= SHIFTED and shift.chance >= LEFT for shift in self.shifts):
            return "live prompts differ, which chance explains: too few sessions or training prompts to tell"
        return "live prompts look like those the learned router was trained on"


def drift(records: Iterable[Record], learned_router: LearnedRouter) -> Drift:
    """Compare the prompts of a learned router with its training data.

    The turns of one user message count once: tool calls in between bring no new words.
    """
    asked, others = _asked(records, learned_router.digest())
    found = Drift(len(asked), others, Counter(said.source for *_, said in asked))
    if len(asked) < LEAST:
        return found
    lengths = [(session, math.log(max(characters, 1))) for session, characters, _ in asked]
    similarities = [(session, said.similarity) for session, _, said in asked]
    shifts = (
        _shift("ln(length)", lengths, learned_router.lengths, learned_router.rows),
        _shift("similarity", similarities, learned_router.similarities, learned_router.rows / REFITTED),
    )
    return Drift(found.prompts, others, found.sources, shifts)


def _asked(records: Iterable[Record], digest: str) -> tuple[list[tuple[str, int, LearnedScore]], int]:
    """Session, characters and the router's score of each prompt it scored, and how many others there were."""
    asked, others = [], 0
    seen: dict[str, int] = {}
    for record in records:
        decision = record.decision
        session = decision.input.conversation
        if session and seen.get(session) == decision.input.user_message:
            continue
        seen[session] = decision.input.user_message
        tier = decision.tier
        if tier and tier.learned_router and tier.learned_router_version == digest:
            asked.append((session_of(decision), decision.input.characters, tier.learned_router))
        else:
            others += 1
    return asked, others


def _shift(
    feature: str, said: Sequence[tuple[str, float]], deciles: Sequence[float], trained: float
) -> Shift:
    live = [value for _, value in said]
    ordered = sorted(live)
    outside = sum(not deciles[0] <= value <= deciles[-1] for value in live)
    return Shift(
        feature=feature,
        index=_stability_index(live, deciles[1:-1]),
        chance=CHANCE * (_design_effect(said) / len(live) + 1 / trained),
        outside=outside / len(live),
        median=ordered[len(ordered) // 2],
        trained_median=deciles[len(deciles) // 2],
    )


def _design_effect(said: Sequence[tuple[str, float]]) -> float:
    """How many prompts, of which those of one session are alike, tell as much as one alone (Kish 1965)."""
    middle = fmean(value for _, value in said)
    sessions = summed(((session, value - middle) for session, value in said), 0.0)
    if len(sessions) in (1, len(said)):
        return len(said) / len(sessions)
    spread = sum((value - middle) ** 2 for _, value in said)
    effect = sum(each**2 for each in sessions.values()) / spread if spread else 1.0
    return max(effect * len(sessions) / (len(sessions) - 1), 1.0)


def _stability_index(live: Sequence[float], inner: Sequence[float]) -> float:
    """Sum over bins of (live - trained) * ln(live / trained), shares of prompts.

    Where training deciles are equal their bins are one: a value on an edge belongs below it.
    """
    edges = sorted(set(inner))
    counts = Counter(bisect_left(edges, value) for value in live)
    tenths = Counter(bisect_left(edges, edge) for edge in inner)
    index, whole = 0.0, len(live) + HALF * (len(edges) + 1)
    for place in range(len(edges) + 1):
        share = (counts[place] + HALF) / whole
        expected = (tenths[place] + (place == len(edges))) / (len(inner) + 1)
        index += (share - expected) * math.log(share / expected)
    return index
