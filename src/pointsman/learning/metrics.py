"""How good a ranking of prompts is when only some of them may have the strong model.

A ranker gives every prompt a score; the strong model serves the highest first. Going from no strong calls
to only strong calls, quality goes from the weak model's to the strong model's, along a curve:

* ``gap(x)``: share of the difference in quality that is recovered when a share *x* of prompts is served by
  the strong model. Equal scores are served in random order, so the curve is straight across a tie.
* **APGR**: the area under that curve; random ranking gives .50.
* **CPT(p)**: the smallest share of strong calls that recovers *p* of the difference; random gives *p*.
* **share at quality q**: the smallest share of strong calls that retains *q* of the strong model's quality.
  There rankings are compared by cost.

Source: Ong et al., "RouteLLM: Learning to Route LLMs with Preference Data" (2024), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pointsman.learning.intervals import Interval, paired_interval, wilson

__all__ = [
    "RESAMPLES",
    "Curve",
    "Floats",
    "Interval",
    "Rows",
    "apgr_interval",
    "calibration_error",
    "calibration_interval",
    "curve_intervals",
    "difference_interval",
    "gap_curve",
    "independent_count",
    "interval_of",
    "paired_bounds",
    "ratio_interval",
    "resampled_sums",
    "sums_interval",
    "widened",
]

#: Resamples of a bootstrap: the 2.5 % quantile then has 25 samples beyond it, its own error is about 1/100
#: of the interval's width.
RESAMPLES: Final = 1_000

#: Weights of a block of resamples.
_BLOCK: Final = 250_000

#: Bins of the calibration error, as in Guo et al., "On Calibration of Modern Neural Networks" (2017).
BINS: Final = 15

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Curve:
    """The quality recovered against the share of strong calls; both start at 0 and end at 1.

    Or many such curves, as of resamples: a figure is then one of each.
    """

    share: Floats  # (..., k)
    gap: Floats  # (..., k)
    weak: Floats  # (...) mean quality of the weak model alone
    strong: Floats  # (...) and of the strong one

    @property
    def apgr(self) -> Floats:
        """Area under the curve; NaN when the strong model is not better on these prompts."""
        wide = self.share[..., 1:] - self.share[..., :-1]
        return np.asarray((wide * (self.gap[..., 1:] + self.gap[..., :-1]) / 2.0).sum(axis=-1))

    def cpt(self, part: float | Floats) -> Floats:
        """Smallest share of strong calls that recovers ``part`` of the difference in quality."""
        wanted = np.asarray(part)[..., None]
        after = (self.gap >= wanted).argmax(axis=-1, keepdims=True)
        ends = np.concatenate([after - 1, after], axis=-1)
        share, gap = (np.take_along_axis(values, ends, axis=-1) for values in (self.share, self.gap))
        is_met = (gap[..., :1] < wanted) & (wanted <= gap[..., 1:])  # else at once, or never
        step = (wanted - gap[..., :1]) / np.where(is_met, gap[..., 1:] - gap[..., :1], np.nan)
        return np.asarray(share[..., :1] + step * (share[..., 1:] - share[..., :1]))[..., 0]

    def share_at(self, quality: float) -> Floats:
        """Smallest share of strong calls that keeps ``quality`` of the strong model's; NaN as for ``cpt``."""
        wanted = quality * self.strong - self.weak
        part = np.divide(wanted, self.strong - self.weak, out=np.zeros_like(wanted), where=wanted > 0)
        return np.where(wanted > 0, self.cpt(part), 0.0)

    def at(self, share: float) -> float:
        """Part of the difference that one curve recovers at a share of strong calls."""
        return float(np.interp(share, self.share, self.gap))


class _Ties:
    """Prompts in the order they get the strong model, cut where the score changes."""

    def __init__(self, scores: ArrayLike, weak: ArrayLike, strong: ArrayLike) -> None:
        values = np.asarray(scores, dtype=np.float64)
        low, high = np.asarray(weak, dtype=np.float64), np.asarray(strong, dtype=np.float64)
        if not values.shape == low.shape == high.shape:
            raise ValueError(f"{len(values)} scores for {len(low)} prompts")
        if np.isnan(values).any():
            raise ValueError("a score is not a number")
        self.order = np.argsort(-values, kind="stable")
        self.weak = low[self.order]
        self.gains = high[self.order] - self.weak
        ranked = values[self.order]
        self.starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])

    def curve(self, weights: Floats | None = None) -> Curve:
        """The curve; with a weight per prompt (in the original order) when given."""
        found = self.curves(np.ones((1, len(self.gains))) if weights is None else weights[None])
        return Curve(found.share[0], found.gap[0], found.weak[0], found.strong[0])

    def curves(self, weights: Floats) -> Curve:
        """A curve for each row of weights."""
        ranked = weights.take(self.order, axis=1)
        shares = _from_zero(np.add.reduceat(ranked, self.starts, axis=1))
        gaps = _from_zero(np.add.reduceat(ranked * self.gains, self.starts, axis=1))
        prompts, gained = shares[:, -1:], gaps[:, -1:]
        weak = np.vecdot(ranked, self.weak) / prompts[:, 0]
        strong = weak + (gained / prompts)[:, 0]
        gaps /= np.where(gained > 0, gained, np.nan)
        return Curve(shares / prompts, gaps, weak, strong)


def gap_curve(
    scores: ArrayLike, weak: ArrayLike, strong: ArrayLike, *, weights: Floats | None = None
) -> Curve:
    """Return the curve of a ranking.

    Args:
        scores: What to rank by, highest first. Shape ``(n,)``.
        weak: Quality of the weak model per prompt, 0..1. Shape ``(n,)``.
        strong: Quality of the strong model per prompt, 0..1. Shape ``(n,)``.
        weights: How often each prompt counts; once by default. Shape ``(n,)``.

    Raises:
        ValueError: the shapes differ or a score is not a number.
    """
    return _Ties(scores, weak, strong).curve(weights)


def curve_intervals(
    scores: ArrayLike,
    weak: ArrayLike,
    strong: ArrayLike,
    statistics: Sequence[Callable[[Curve], Floats]],
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Interval]:
    """Return several figures of one curve, each with its bootstrap interval over prompts.

    Shapes and errors as ``gap_curve``. Rows of one number in ``together`` (duplicate prompts) are drawn as
    one: one by one they would look like more evidence than they are.
    """
    ties = _Ties(scores, weak, strong)
    whole = ties.curve()
    drawn = map(ties.curves, _blocks(len(ties.gains), together, seed, resamples))
    samples = [[figure(curves) for figure in statistics] for curves in drawn]
    return [
        interval_of(float(figure(whole)), np.concatenate(found))
        for figure, found in zip(statistics, zip(*samples, strict=True), strict=True)
    ]


def apgr_interval(
    scores: ArrayLike,
    weak: ArrayLike,
    strong: ArrayLike,
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """APGR with its bootstrap interval over prompts. Shapes and errors as ``curve_intervals``."""
    figures: list[Callable[[Curve], Floats]] = [lambda curve: curve.apgr]
    (found,) = curve_intervals(
        scores, weak, strong, figures, together=together, seed=seed, resamples=resamples
    )
    return found


def difference_interval(
    first: ArrayLike,
    second: ArrayLike,
    weak: ArrayLike,
    strong: ArrayLike,
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """APGR of ``first`` minus that of ``second``, both measured on the same resampled prompts.

    The prompts that make one ranking look good make the other look good too: the interval of the difference
    is narrower than the two intervals suggest. Shapes and errors as ``curve_intervals``.
    """
    one, two = _Ties(first, weak, strong), _Ties(second, weak, strong)
    samples = [
        one.curves(weights).apgr - two.curves(weights).apgr
        for weights in _blocks(len(one.gains), together, seed, resamples)
    ]
    return interval_of(float(one.curve().apgr - two.curve().apgr), np.concatenate(samples))


def calibration_error(probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = BINS) -> float:
    """Expected calibration error: mean distance of prediction and outcome over bins of equal count.

    Bins of equal count, because live predictions crowd together and bins of equal width stay empty. Equal
    predictions share a bin, so that the order of the rows has no effect.

    Args:
        probabilities: Predictions. Shape ``(n,)``.
        outcomes: What happened, 0..1. Shape ``(n,)``.
        bins: As many as there are different predictions to part.
    """
    left, places = _unexplained(probabilities, outcomes, bins)
    return float(np.abs(np.bincount(places, left)).sum() / len(left))


def calibration_interval(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """The calibration error and where the true one is, with about 95 % confidence.

    A mean of distances is never zero, and noise only adds to it: drawn again like other figures it would
    mostly exceed its own value. So the gaps of the bins are drawn again; the true error is no further away
    than these stray from the gaps seen, taken together (triangle inequality).

    Args:
        probabilities: Predictions. Shape ``(n,)``.
        outcomes: What happened, 0..1. Shape ``(n,)``.
        together: rows of one number are drawn as one. Shape ``(n,)``.
        seed: of the resamples.
        resamples: how many.
    """
    left, places = _unexplained(probabilities, outcomes, BINS)
    gaps = np.bincount(places, left)
    strays = [
        float(np.abs(np.bincount(places, weights * left) - gaps).sum() / len(left))
        for weights in chain.from_iterable(_blocks(len(left), together, seed, resamples))
    ]
    value, furthest = calibration_error(probabilities, outcomes), float(np.quantile(strays, 0.95))
    return Interval(value, max(value - furthest, 0.0), min(value + furthest, 1.0))


def _unexplained(probabilities: ArrayLike, outcomes: ArrayLike, bins: int) -> tuple[Floats, Rows]:
    """Prediction minus outcome, and the bin of every row. Both of shape ``(n,)``."""
    predicted = np.asarray(probabilities, dtype=np.float64)
    ranked = np.sort(predicted)
    edges = ranked[np.linspace(0, len(ranked), min(bins, len(ranked)), endpoint=False).astype(np.intp)]
    places = np.searchsorted(np.unique(edges), predicted, side="right") - 1
    return predicted - np.asarray(outcomes, dtype=np.float64), places


def _from_zero(steps: Floats) -> Floats:
    """The sums along each row, which begin with 0."""
    sums = np.zeros((len(steps), steps.shape[1] + 1))
    np.cumsum(steps, axis=1, out=sums[:, 1:])
    return sums


def independent_count(values: Floats, together: Rows) -> float:
    """How many independent rows so many rows in clusters are worth, by their design effect (Kish 1965).

    One more cluster of the mean size that differs as a whole is counted in: where no row differs, nothing
    tells how alike the rows of a cluster are, and each cluster counts as one row.

    Args:
        values: The compared value of each row. Shape ``(n,)``.
        together: Rows of one number are of one cluster. Shape ``(n,)``.
    """
    _, cluster, counts = np.unique(together, return_inverse=True, return_counts=True)
    sizes = counts.astype(np.float64)
    size = float((sizes**2).sum() / sizes.sum())
    left = values - values.mean()
    of_clusters = float((np.bincount(cluster, left) ** 2).sum())
    effect = (of_clusters + size**2) / (float((left**2).sum()) + size)
    return len(values) / max(effect, 1.0)


def paired_bounds(
    differences: Floats, *, together: Rows | None = None, moved: NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """The score interval of a mean of paired differences, which has a width where no pair differs.

    Args:
        differences: Of each pair, -1 to 1. Shape ``(n,)``.
        together: Rows of one number are of one cluster. Shape ``(n,)``.
        moved: Where the two of a pair are not the same answer; the others do not differ by definition.
            Shape ``(n,)``.
    """
    count = len(differences)
    rows = np.arange(count) if moved is None else np.flatnonzero(moved)
    if not len(rows):
        return 0.0, 0.0
    part = differences[rows]
    worth = independent_count(part, rows if together is None else together[rows])
    better, worse = (worth / len(part) * float(np.maximum(each, 0.0).sum()) for each in (part, -part))
    low, high = paired_interval(better, worse, worth)
    return low * len(part) / count, high * len(part) / count


def widened(found: Interval, low: float, high: float) -> Interval:
    """An interval that also holds all between two bounds; NaN is no bound."""
    return Interval(found.value, float(np.fmin(found.low, low)), float(np.fmax(found.high, high)))


def ratio_interval(
    parts: Sequence[tuple[float, int]], *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Bounds of a ratio of sums over clusters (dialogues, say) that are drawn whole.

    Turns of one dialogue are alike: drawn one by one they would make the interval look too narrow. Those of a
    share hold its score interval too: a bootstrap alone has no width where all turns are right, or none is.
    """
    sums, counts = (np.array(column, dtype=np.float64) for column in zip(*parts, strict=True))
    found = sums_interval(sums, counts, seed=seed, resamples=resamples)
    if counts.any() and (sums <= counts).all():
        hits = np.concatenate([np.arange(count) < hit for hit, count in parts]).astype(np.float64)
        worth = independent_count(hits, np.repeat(np.arange(len(parts)), counts.astype(np.intp)))
        found = widened(found, *wilson(found.value * worth, worth))
    return found.low, found.high


def sums_interval(
    above: Floats,
    below: Floats | None = None,
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return a ratio of sums over rows, or a mean of rows, with its bootstrap interval; NaN for a ratio to 0.

    Args:
        above: Shape ``(n,)``.
        below: Shape ``(n,)``; None: 1 for each row.
        together: rows of one number are drawn as one. Shape ``(n,)``.
        seed: of the resamples.
        resamples: how many.
    """
    columns = np.column_stack([above, np.ones(len(above)) if below is None else below])
    drawn = resampled_sums(columns, together=together, seed=seed, resamples=resamples)
    sums = np.vstack([[column.sum() for column in columns.T], drawn])
    found = sums[:, 0] / np.where(sums[:, 1] == 0, np.nan, sums[:, 1])
    return interval_of(float(found[0]), found[1:])


def resampled_sums(
    columns: Floats, *, together: Rows | None = None, seed: int = 0, resamples: int = RESAMPLES
) -> Floats:
    """Sums over rows by resample. ``(n, k)`` gives ``(resamples, k)``; the rest as ``sums_interval``."""
    return np.concatenate([weights @ columns for weights in _blocks(len(columns), together, seed, resamples)])


def _blocks(count: int, together: Rows | None, seed: int, resamples: int) -> Iterator[Floats]:
    """How often each prompt is drawn, the same for every ranking of a seed.

    As many resamples at once as take a few megabytes: each of shape ``(some, count)``.
    """
    drawn = np.arange(count) if together is None else np.unique(together, return_inverse=True)[1]
    units = int(drawn.max()) + 1
    generator = np.random.default_rng(seed)
    size = max(_BLOCK // count, 1)
    for begin in range(0, resamples, size):
        some = min(size, resamples - begin)
        places = generator.integers(0, units, (some, units)) + units * np.arange(some)[:, None]
        counts = np.bincount(places.ravel(), minlength=some * units).reshape(some, units)
        yield counts.astype(np.float64).take(drawn, axis=1)


def interval_of(value: float, samples: Sequence[float] | Floats) -> Interval:
    """A value with the middle 95 % of its resamples; those that are NaN were not defined."""
    drawn = np.asarray(samples, dtype=np.float64)
    defined = drawn[~np.isnan(drawn)]
    if not len(defined):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(defined, [0.025, 0.975])
    return Interval(value, float(low), float(high))
