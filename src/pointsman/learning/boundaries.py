"""Boundaries of tiers from outcomes: what each choice gives and costs, and the choice for a target.

Prompts are sorted by score; boundaries cut that order. The success of a prompt and its cost at each tier
is known beforehand, so sums up to every cut tell what every set of boundaries would have given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pointsman.learning.metrics import (
    RESAMPLES,
    Floats,
    Interval,
    Rows,
    interval_of,
    paired_bounds,
    resampled_sums,
    sums_interval,
    widened,
)
from pointsman.vocabulary import Tier

__all__ = [
    "Boundaries",
    "Budget",
    "Choice",
    "Mixed",
    "Point",
    "Prompts",
    "QualityTarget",
    "Served",
    "Target",
    "Tiers",
    "choose",
    "cross_fitted",
    "curve",
    "tiers_of",
]

#: Places a boundary may take, as quantiles of the scores: every half percent for the one boundary of two
#: tiers; every thirtieth part for the three of four, 5,984 combinations.
PLACES: Final = {2: 201, 4: 31}

#: Each part of the prompts is measured with boundaries chosen on the others.
FOLDS: Final = 5

#: Points of the cost-quality curve, and resamples of each: twice as many move an interval by .002.
POINTS: Final = 11
CURVE_RESAMPLES: Final = 300

Tiers = Literal[2, 4]
Boundaries = tuple[float, float, float]


@dataclass(frozen=True)
class Prompts:
    """Score of every prompt, and its success and cost at each tier."""

    scores: Floats  # (n,)
    quality: Floats  # (n, 4) by rank of the tier, 0..1
    cost: Floats  # (n, 4) money on 1,000 prompts like it

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, rows: Rows) -> Prompts:
        """Some of them."""
        return Prompts(self.scores[rows], self.quality[rows], self.cost[rows])


@dataclass(frozen=True)
class Served:
    """What prompts got under some boundaries."""

    quality: Floats  # (n,)
    cost: Floats  # (n,)
    ranks: Rows  # (n,)

    def kept(
        self,
        best: Floats,
        *,
        together: Rows | None = None,
        moved: NDArray[np.bool_] | None = None,
        seed: int,
        resamples: int = RESAMPLES,
    ) -> Interval:
        """Share of the quality of the best tier's model that they got, with the wider of two intervals.

        A bootstrap has no width where no prompt differs; a score interval of the paired difference has.

        Args:
            best: Quality of the best tier's model. Shape ``(n,)``.
            together: Prompts of one number are drawn as one. Shape ``(n,)``.
            moved: Where another model served; None: anywhere. Shape ``(n,)``.
            seed: of the resamples.
            resamples: how many.
        """
        drawn = sums_interval(self.quality, best, together=together, seed=seed, resamples=resamples)
        mean = float(best.mean())
        if not mean:
            return drawn
        low, high = paired_bounds(self.quality - best, together=together, moved=moved)
        return widened(drawn, 1 + low / mean, 1 + high / mean)


@dataclass(frozen=True)
class QualityTarget:
    """Target: retain a share of the quality that the best tier alone would give, at the least cost."""

    quality: float
    level: float | None = None  # that held-out prompts are to show; None: the target

    @property
    def to_show(self) -> float:
        """The share to be shown, at most the target."""
        return self.quality if self.level is None else self.level


@dataclass(frozen=True)
class Budget:
    """Target: the best quality for so much money on 1,000 prompts."""

    money: float
    level: float | None = None  # that held-out prompts are to show; None: the target

    @property
    def to_show(self) -> float:
        """The amount to be shown, at least the target."""
        return self.money if self.level is None else self.level


Target = QualityTarget | Budget


@dataclass(frozen=True)
class Choice:
    """Boundaries, and whether the target is reached on the prompts they were chosen on."""

    boundaries: Boundaries
    reached: bool


def choose(prompts: Prompts, target: Target, tiers: Tiers, *, best: Floats) -> Choice:
    """Choose boundaries; where the target cannot be reached, those that come nearest to it.

    Args:
        prompts: to choose on.
        target: quality to retain, or money to spend.
        tiers: how many are in use: SIMPLE and COMPLEX, or all four.
        best: quality of the best tier's model on these prompts. Shape ``(n,)``.
    """
    cuts, quality, cost = _sums(prompts, tiers)
    count = len(prompts)
    if isinstance(target, QualityTarget):
        enough = quality >= target.quality * best.sum() - 1e-9 * count
        at = np.lexsort((-quality, cost, ~enough)) if enough.any() else np.lexsort((cost, -quality))
    else:
        enough = cost <= target.money * count * (1 + 1e-9)
        at = np.lexsort((cost, -quality, ~enough)) if enough.any() else np.lexsort((-quality, cost))
    return Choice(_between(prompts.scores, cuts[at[0]]), bool(enough.any()))


def tiers_of(scores: Floats, boundaries: Boundaries) -> Rows:
    """Ranks of the tiers that scores fall in. Shape ``(n,)``."""
    return np.asarray(sum((scores >= boundary).astype(np.intp) for boundary in boundaries))


def cross_fitted(
    prompts: Prompts, target: Target, tiers: Tiers, *, best: Floats, first: Rows | None = None, seed: int
) -> Served:
    """Serve every prompt under boundaries chosen on other prompts.

    Args:
        prompts: to serve.
        target: quality to retain, or money to spend.
        tiers: how many are in use.
        best: quality of the best tier's model on these prompts. Shape ``(n,)``.
        first: the first prompt that a router cannot tell from each, where there are copies. Shape ``(n,)``.
        seed: of the folds.
    """
    folds = np.random.default_rng(seed).permutation(len(prompts)) % FOLDS
    folds = folds if first is None else folds[first]
    ranks = np.zeros(len(prompts), dtype=np.intp)
    for fold in range(FOLDS):
        out, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        chosen = choose(prompts.part(others), target, tiers, best=best[others])
        ranks[out] = tiers_of(prompts.scores[out], chosen.boundaries)
    every = np.arange(len(prompts))
    return Served(prompts.quality[every, ranks], prompts.cost[every, ranks], ranks)


@dataclass(frozen=True)
class Point:
    """One place on the cost-quality curve, measured on prompts the boundaries were not chosen on."""

    budget: float  # money on 1,000 prompts that was allowed
    cost: float  # money on 1,000 prompts that was spent
    kept: Interval  # of the best tier's quality


def curve(
    prompts: Prompts, tiers: Tiers, *, best: Floats, first: Rows | None = None, seed: int
) -> Iterator[Point]:
    """The cost-quality curve from the cheapest tier alone to the most expensive. As ``cross_fitted``."""
    means = prompts.cost.mean(axis=0)
    for budget in np.linspace(means.min(), means.max(), POINTS):
        served = cross_fitted(prompts, Budget(float(budget)), tiers, best=best, first=first, seed=seed)
        kept = served.kept(best, together=first, seed=seed, resamples=CURVE_RESAMPLES)
        yield Point(float(budget), float(served.cost.mean()), kept)


@dataclass(frozen=True)
class Mixed:
    """What needs no router: one model for everything, or models drawn at random."""

    quality: Floats  # (n, 4)
    cost: Floats
    places: Rows  # (4,) which of the models each tier has, cheapest first

    def alone(self) -> tuple[tuple[float, float], ...]:
        """Money on 1,000 prompts and share of the best tier's quality, for each different model."""
        means = zip(self.cost.mean(axis=0), self.quality.mean(axis=0), strict=True)
        best = float(self.quality[:, -1].mean())
        return tuple(dict.fromkeys((float(cost), float(quality) / best) for cost, quality in means))

    def surpassed(self, served: Served, *, together: Rows | None = None, seed: int) -> Interval:
        """Quality of the served answers above the best that a mixture of two models gives for the same money.

        Arguments as of ``Served.kept``.
        """
        ones = np.ones(len(self.quality))
        columns = np.column_stack([ones, served.quality, served.cost, self.quality, self.cost])
        drawn = resampled_sums(columns, together=together, seed=seed)
        sums = np.vstack([columns.sum(axis=0), drawn])
        of_served, money, *of_models = (sums[:, 1:] / sums[:, :1]).T
        quality, cost = of_models[: len(Tier)], of_models[len(Tier) :]
        found = of_served - _mixture(quality, cost, money)
        return interval_of(float(found[0]), found[1:])


def _mixture(quality: Sequence[Floats], cost: Sequence[Floats], money: Floats) -> Floats:
    """The best quality that a mixture of two models gives for so much money; NaN where all cost more."""
    found = [np.where(price <= money, each, np.nan) for each, price in zip(quality, cost, strict=True)]
    for cheap, dear in permutations(range(len(cost)), 2):
        is_between = (cost[cheap] <= money) & (money < cost[dear])
        part = (money - cost[cheap]) / np.where(is_between, cost[dear] - cost[cheap], np.nan)
        found.append(quality[cheap] + part * (quality[dear] - quality[cheap]))
    return np.asarray(np.fmax.reduce(found))


def _sums(prompts: Prompts, tiers: Tiers) -> tuple[Rows, Floats, Floats]:
    """Every set of cuts, shape ``(m, 3)``, and the quality and cost it gives, shape ``(m,)``."""
    order = np.argsort(prompts.scores, kind="stable")
    places = _places(prompts.scores[order], PLACES[tiers])
    if tiers == 2:
        cuts = np.array([(place, place, len(prompts)) for place in places])
    else:
        cuts = np.array(list(combinations_with_replacement(places, 3)))
    return cuts, _given(prompts.quality[order], cuts), _given(prompts.cost[order], cuts)


def _places(ranked: Floats, count: int) -> Sequence[int]:
    """Where the order may be cut: near evenly spaced quantiles, never between equal scores."""
    starts = np.r_[0, np.flatnonzero(ranked[1:] != ranked[:-1]) + 1, len(ranked)]
    wanted = np.linspace(0, len(ranked), count)
    found = np.searchsorted(starts, wanted)
    return [int(place) for place in np.unique(starts[np.minimum(found, len(starts) - 1)])]


def _given(values: Floats, cuts: Rows) -> Floats:
    """Sum over prompts in order when cut into tiers. ``values`` is ``(n, 4)``, ``cuts`` is ``(m, 3)``."""
    sums = np.zeros((len(values) + 1, len(Tier)))
    np.cumsum(values, axis=0, out=sums[1:])
    low, middle, high = cuts.T
    return np.asarray(
        sums[low, 0]
        + (sums[middle, 1] - sums[low, 1])
        + (sums[high, 2] - sums[middle, 2])
        + (sums[-1, 3] - sums[high, 3])
    )


def _between(scores: Floats, cuts: Rows) -> Boundaries:
    """Boundaries midway between the scores on both sides of each cut."""
    ranked = np.sort(scores)

    def at(cut: int) -> float:
        if cut == 0:
            return -np.inf
        return float((ranked[cut - 1] + ranked[cut]) / 2) if cut < len(ranked) else np.inf

    low, middle, high = (at(int(cut)) for cut in cuts)
    return low, middle, high
