"""``pointsman report drift``: compares live prompts with the training data of a learned router.

Compares two recorded facts of every prompt, its length and its similarity to the training data,
with the deciles in the learned router file.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pointsman.printable import Block, Column, TextTable
from pointsman.stores.ledger import Record
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, ScoreSource

__all__ = ["Drift", "Shift", "drift"]

#: Population stability index from which a distribution has shifted somewhat, and from which what was fitted
#: on the old one is not to be relied on. Source: Siddiqi, "Credit Risk Scorecards" (2006), chapter 10.
SHIFTED: Final = 0.10
LEFT: Final = 0.25

#: 95 % quantile of chi squared with nine degrees of freedom. Without any drift the index over ten bins is
#: distributed as that times (1/live + 1/trained): below it a shift may be chance. Source: Yurdakul,
#: "Statistical Properties of Population Stability Index" (2018).
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


_COLUMNS: Final = (
    Column("feature", whole=True),
    *(Column(name, right=True, show="{:.3f}".format) for name in ("index", "chance")),
    *(Column(name, right=True, show="{:.2f}".format) for name in ("median", "trained")),
    Column("outside", right=True, show="{:.1%}".format),
    Column("verdict"),
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
        rows = [
            (
                each.feature,
                each.index,
                each.chance,
                each.median,
                each.trained_median,
                each.outside,
                each.verdict,
            )
            for each in self.shifts
        ]
        yield TextTable(_COLUMNS, rows)
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
        return "live prompts look like those the learned router was trained on"


def drift(records: Iterable[Record], learned_router: LearnedRouter) -> Drift:
    """Compare the prompts of a learned router with its training data.

    The turns of one user message count once: tool calls in between bring no new words.
    """
    asked, others = _asked(records, learned_router.digest())
    found = Drift(len(asked), others, Counter(said.source for _, said in asked))
    if len(asked) < LEAST:
        return found
    lengths = [math.log(max(characters, 1)) for characters, _ in asked]
    similarities = [said.similarity for _, said in asked]
    shifts = (
        _shift("ln(length)", lengths, learned_router.lengths, learned_router.rows),
        _shift("similarity", similarities, learned_router.similarities, learned_router.rows / REFITTED),
    )
    return Drift(found.prompts, others, found.sources, shifts)


def _asked(records: Iterable[Record], digest: str) -> tuple[list[tuple[int, LearnedScore]], int]:
    """Characters and the router's score of every prompt it scored, and how many others there were."""
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
            asked.append((decision.input.characters, tier.learned_router))
        else:
            others += 1
    return asked, others


def _shift(feature: str, live: Sequence[float], deciles: Sequence[float], trained: float) -> Shift:
    ordered = sorted(live)
    outside = sum(not deciles[0] <= value <= deciles[-1] for value in live)
    return Shift(
        feature=feature,
        index=_stability_index(live, deciles[1:-1]),
        chance=CHANCE * (1 / len(live) + 1 / trained),
        outside=outside / len(live),
        median=ordered[len(ordered) // 2],
        trained_median=deciles[len(deciles) // 2],
    )


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
