"""``pointsman eval savings``: savings of a cut that was fixed beforehand, beyond a coin of equal success.

The first rows are the labels: they fix the cut of every router, at the least cost with a success within a
margin of always strong with some certainty. The other rows are served under that cut. A *coin* serves a
share of them by the weak model, drawn by chance. The value of a router is its saving beyond the coin with
the same success: whatever serves less by the strong model saves money, only a ranking saves more than that.
Where answers of a second cheap model are known, agreement is a row too: alone it needs no cut; with a gate a
router chooses which requests are asked of two, and the strong model serves the others.

Sources: the test of the margin is the score test of two paired shares (Tango 1998, "Equivalence test and
confidence interval for the difference in proportions for the paired-sample design"). Cuts are tested in a
fixed order from always strong downwards, up to the first that fails, so that the certainty holds for the cut
that is chosen (Maurer, Hothorn and Lehmacher 1995; Angelopoulos et al. 2021, "Learn then Test").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final, NamedTuple

import msgspec
import numpy as np

from pointsman.errors import PointsmanError
from pointsman.learning.datasets import LEAST_FOR_TIERS
from pointsman.learning.intervals import margin_score, paired_interval, wilson
from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import FOLDS, Corpus, held_out, trust
from pointsman.learning.metrics import (
    RESAMPLES,
    Floats,
    Interval,
    Rows,
    independent_count,
    interval_of,
    paired_bounds,
    resampled_sums,
    widened,
)

__all__ = [
    "LABELS",
    "LEAST_SERVED",
    "Agreement",
    "RouterSavings",
    "Rule",
    "SourceSavings",
    "coin_share",
    "evaluate_savings",
    "served_savings",
]

#: Labels that fix a cut: no loss among fewer than 230 shows no margin of .01 with 90 % (.99 ** 230 = .10).
LABELS: Final = 300
#: Rows served under the cut, at least: with fewer an interval of the success is wider than .1.
LEAST_SERVED: Final = 100

#: Labels that the gain of a group is shrunk by to that of all, as in ``fit projects``.
PSEUDO: Final = 10.0

#: Shares of the labels served by the weak model that are tested one after the other.
STEPS: Final = 20


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How a cut is fixed."""

    labels: int = LABELS
    margin: float = 0.01  # of success that a cut may lose against always strong
    certainty: float = 0.9  # one-sided


class RouterSavings(msgspec.Struct, frozen=True, kw_only=True):
    """One router on the rows that did not fix its cut. Success: share of rows; cost: over always strong's."""

    router: str
    fixed: float  # share of the splits in which the weak model serves anything
    weak_share: float  # of the rows, served by the weak model; with agreement, asked of two cheap ones
    success: Interval
    success_minus_strong: Interval
    cost: Interval
    saved_beyond_coin: Interval  # share of always strong's cost

    @property
    def shown(self) -> bool:
        """Whether more was saved than a coin of equal success saves, with the whole interval above 0."""
        return self.saved_beyond_coin.low > 0


class SourceSavings(msgspec.Struct, frozen=True, kw_only=True):
    """All routers on one source."""

    source: str
    labels: int
    served: int
    splits: int
    rows: tuple[RouterSavings, ...]


class Agreement(NamedTuple):
    """Two cheap models asked, and the strong one where they differ, on each row."""

    success: Floats  # (n,)
    costs: Floats  # (n,) money for all models asked
    agreed: Floats  # (n,) 1 where the two agree


def evaluate_savings(
    source: str,
    corpus: Corpus,
    costs: Floats,
    *,
    scores: Mapping[str, Floats] | None = None,
    groups: Sequence[str] = (),
    agreement: Agreement | None = None,
    rule: Rule | None = None,
    splits: int | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> SourceSavings:
    """Fix the cut of every router on some rows and serve the others under it.

    Routers: always strong, always weak, a coin, length, the rules, a learned router that is fitted on the
    labels, those with given scores, and agreement without and with a gate. Rows without words have no rules
    and no learned router. Duplicate prompts are labels or are served, never both.

    Args:
        source: its name.
        corpus: outcomes in the order of arrival.
        costs: money for a call of the weak and of the strong model on each row. Shape ``(n, 2)``.
        scores: by name of a router; the highest are served by the strong model. Each of shape ``(n,)``.
        groups: the project, task or domain of each row. Where there are several, a router ranks by the
            gain that the labels of a group show.
        agreement: success and money of each row by agreement of two cheap models. Its gate ranks by how
            likely the two are to differ, as a router fitted on the labels tells; by length where none is.
        rule: how a cut is fixed; by default within .01 with 90 % certainty, from 300 labels.
        splits: that many draws of the labels by chance, and figures that are means over them; None: the
            first rows are the labels. Intervals are over the drawing of the served rows, and of the labels
            for several splits.
        seed: of the splits and the resamples.
        resamples: of the bootstrap, over all splits.

    Raises:
        PointsmanError: too few rows, or the strong model costs nothing.
    """
    rule = rule or Rule()
    draws = _draws(source, corpus, costs, rule, splits, seed)
    fixed_scores = {"length": corpus.log_length, **({"rules": corpus.rules} if _has_words(corpus) else {})}
    fixed_scores |= scores or {}
    measured: dict[str, list[_Served]] = {}
    for number, (labels, rest) in enumerate(draws):
        by_draw = {name: (each[labels], each[rest]) for name, each in fixed_scores.items()}
        if len(set(groups)) > 1:
            by_draw["group"] = _by_group(corpus, groups, labels, rest)
        for name, way in _ways(corpus, costs, by_draw, agreement, labels, rest, rule).items():
            sums = _columns(corpus, costs, rest, *way)
            drawn = resampled_sums(
                sums,
                together=corpus.first[rest],
                seed=seed + number,
                resamples=-(-resamples // len(draws)),
            )
            found = _served(sums, drawn, way[0], together=corpus.first[rest])
            measured.setdefault(name, []).append(found)
    return SourceSavings(
        source=source,
        labels=rule.labels,
        served=min(len(rest) for _, rest in draws),
        splits=len(draws),
        rows=tuple(_row(name, found) for name, found in measured.items()),
    )


def _draws(
    source: str, corpus: Corpus, costs: Floats, rule: Rule, splits: int | None, seed: int
) -> list[tuple[Rows, Rows]]:
    """The labels and the other rows of every split.

    Raises:
        PointsmanError: too few rows, or the strong model costs nothing.
    """
    of = f' of "{source}"' if source else ""
    if not costs[:, 1].sum() > 0:
        raise PointsmanError(f"the strong model costs nothing{of}: there is nothing to save")
    draws = [_first(corpus, rule)] if splits is None else _drawn(corpus, rule, splits, seed)
    served = min(len(rest) for _, rest in draws)
    if served < LEAST_SERVED:
        raise PointsmanError(
            f"{len(corpus):,} rows{of} are too few: {rule.labels:,} fix the cut, and at least {LEAST_SERVED}"
            " others are served under it",
            hint=f"{max(LEAST_SERVED - served, rule.labels + LEAST_SERVED - len(corpus)):,} more different "
            "prompts, or fewer --labels",
        )
    return draws


def _ways(
    corpus: Corpus,
    costs: Floats,
    scores: Mapping[str, tuple[Floats, Floats]],
    agreement: Agreement | None,
    labels: Rows,
    rest: Rows,
    rule: Rule,
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """By router, how it serves the other rows: the share that is not strong's, its success and its money."""
    weak = corpus.weak[rest], costs[rest, 0]
    found = {name: (share, *weak) for name, share in _shares(corpus, scores, labels, rest, rule).items()}
    if agreement:
        gate = _gate(corpus, agreement, costs[:, 1], labels, rest, rule)
        both = agreement.success[rest], agreement.costs[rest]
        found |= {"agreement": (np.ones(len(rest)), *both), "agreement with the gate": (gate, *both)}
    return found


def served_savings(
    served: Floats,
    paid: Floats,
    success: Floats,
    costs: Floats,
    *,
    to_weak: float,
    moved: Floats,
    together: Rows,
    seed: int,
) -> RouterSavings | None:
    """The row of a policy that serves each prompt in a known way; None where the strong model costs nothing.

    Args:
        served: success of the policy on each prompt. Shape ``(n,)``.
        paid: money that it paid for each. Shape ``(n,)``.
        success: of the weak and of the strong model. Shape ``(n, 2)``.
        costs: money for a call of both. Shape ``(n, 2)``.
        to_weak: share of the prompts that the weak model served.
        moved: 1 for each prompt that another model than the strong one served, else 0. Shape ``(n,)``.
        together: the first of each group of duplicate prompts. Shape ``(n,)``.
        seed: of the resamples.
    """
    if not costs[:, 1].sum() > 0:
        return None
    columns = [np.ones(len(served)), success[:, 0], success[:, 1], served, costs[:, 0], costs[:, 1], paid]
    sums = np.stack(columns, axis=1)
    drawn = resampled_sums(sums, together=together, seed=seed)
    return _row("policy", [replace(_served(sums, drawn, moved, together=together), weak_share=to_weak)])


def _first(corpus: Corpus, rule: Rule) -> tuple[Rows, Rows]:
    """The first rows, and those that come after them and repeat none."""
    return np.arange(min(rule.labels, len(corpus))), np.flatnonzero(corpus.first >= rule.labels)


def _drawn(corpus: Corpus, rule: Rule, splits: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Whole groups of duplicates drawn until there are labels enough."""
    _, group, sizes = np.unique(corpus.first, return_inverse=True, return_counts=True)
    found = []
    for number in range(splits):
        order = np.random.default_rng((seed, number)).permutation(len(sizes))
        taken = int(np.searchsorted(np.cumsum(sizes[order]), rule.labels)) + 1
        chosen = np.isin(group, order[:taken])
        found.append((np.flatnonzero(chosen), np.flatnonzero(~chosen)))
    return found


def _shares(
    corpus: Corpus, scores: Mapping[str, tuple[Floats, Floats]], labels: Rows, rest: Rows, rule: Rule
) -> dict[str, Floats]:
    """By router, the share of each other row that the weak model serves; 0 everywhere without a cut."""
    found = {
        "always strong": np.zeros(len(rest)),
        "always weak": np.ones(len(rest)),
        "coin": np.full(
            len(rest), coin_share((corpus.strong - corpus.weak)[labels], corpus.first[labels], rule)
        ),
    }
    ranked = dict(scores)
    if _is_fit(corpus, labels):
        ranked["learned router"] = _learned(corpus, labels, rest)
    for name, (known, others) in ranked.items():
        found[name] = (others < _cut(known, corpus, labels, rule)).astype(np.float64)
    return found


def _has_words(corpus: Corpus) -> bool:
    return bool(corpus.ngrams.shape[1])


def _is_fit(corpus: Corpus, labels: Rows) -> bool:
    """Whether a router can be fitted on the labels."""
    return _has_words(corpus) and len(np.unique(corpus.first[labels])) >= LEAST_FOR_TIERS


def _gate(
    corpus: Corpus, agreement: Agreement, strong_costs: Floats, labels: Rows, rest: Rows, rule: Rule
) -> Floats:
    """1 for each other row that is asked of two cheap models, 0 where the strong one is asked at once."""
    known, others = corpus.log_length[labels], corpus.log_length[rest]
    if _is_fit(corpus, labels):
        differing = replace(corpus, weak=agreement.agreed, strong=np.ones(len(corpus)))
        known, others = _learned(differing, labels, rest)
    over, saved = replace(corpus, weak=agreement.success), strong_costs - agreement.costs
    return (others < _cut(known, over, labels, rule, saved[labels])).astype(np.float64)


def _by_group(corpus: Corpus, groups: Sequence[str], labels: Rows, rest: Rows) -> tuple[Floats, Floats]:
    """Gain of each row's group by the labels, shrunk to that of all; of the labels, by the other folds."""
    _, place = np.unique(np.array(groups), return_inverse=True)
    gains, count = corpus.strong - corpus.weak, int(place.max()) + 1
    own = corpus.take(labels)
    folds = (np.random.default_rng(0).permutation(len(labels)) % FOLDS)[own.first]

    def gain_of(known: Rows, asked: Rows) -> Floats:
        counts = np.bincount(place[known], minlength=count)
        sums = np.bincount(place[known], gains[known], minlength=count) + PSEUDO * gains[known].mean()
        return np.asarray((sums / (counts + PSEUDO))[place[asked]])

    of_labels = np.zeros(len(labels))
    for fold in range(FOLDS):
        of_labels[folds == fold] = gain_of(labels[folds != fold], labels[folds == fold])
    return of_labels, gain_of(labels, rest)


def _learned(corpus: Corpus, labels: Rows, rest: Rows) -> tuple[Floats, Floats]:
    """Scores of a router fitted on the labels; of the labels themselves, by routers of the other folds."""
    own = corpus.take(labels)
    fit = fitter(own)
    unseen, weights = held_out(own, seed=0, fit=fit), fit(own, np.arange(len(own)))
    weak, strong = trust(weights.similarity(corpus, rest), unseen.bounds) * weights.evidence(corpus, rest)
    return unseen.raw[1] - unseen.raw[0], strong - weak + weights.prior(corpus, rest)


def coin_share(lost: Floats, copies: Rows, rule: Rule) -> float:
    """The largest share drawn for the weak model with an expected loss within the margin, with certainty.

    The bound of the loss is that of the score test which also fixes the cuts. The normal bound (mean plus
    standard errors) is too low where few of the pairs differ.

    Args:
        lost: Success of the strong model minus that of the weak one. Shape ``(n,)``.
        copies: As ``Corpus.first``. Shape ``(n,)``.
        rule: Margin and certainty.
    """
    count = independent_count(lost, copies)
    part = count / len(lost)
    worse, better = (part * float(np.maximum(each, 0.0).sum()) for each in (lost, -lost))
    most = paired_interval(worse, better, count, NormalDist().inv_cdf(rule.certainty))[1]
    return 1.0 if most <= rule.margin else rule.margin / most


def _cut(scores: Floats, corpus: Corpus, labels: Rows, rule: Rule, saved: Floats | None = None) -> float:
    """The score below which the weak model serves: -inf where no cut is shown to be within the margin.

    Of the cuts that are shown it is the last; with ``saved``, money by label, the one that saves the most.
    """
    order = np.argsort(scores, kind="stable")
    gains = (corpus.strong - corpus.weak)[labels]
    ranked, lost = scores[order], gains[order]
    worse, better = np.cumsum(np.maximum(lost, 0.0)), np.cumsum(np.maximum(-lost, 0.0))
    ends = np.r_[np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1]  # never between equal scores
    wanted = np.searchsorted(ends + 1, np.linspace(0, len(ranked), STEPS + 1)[1:])
    count = independent_count(gains, corpus.first[labels])
    part = count / len(scores)
    found, most = -math.inf, 0.0
    money = None if saved is None else np.cumsum(saved[order])
    for end in np.unique(ends[wanted]):
        shown = margin_score(float(better[end]) * part, float(worse[end]) * part, count, rule.margin)
        if shown < NormalDist().inv_cdf(rule.certainty):
            break
        if money is not None:
            if money[end] <= most:
                continue
            most = float(money[end])
        found = (ranked[end] + ranked[end + 1]) / 2 if end + 1 < len(ranked) else math.inf
    return float(found)


@dataclass(frozen=True)
class _Served:
    weak_share: float
    values: Floats  # (4,) success, its difference to strong's, cost, saved beyond a coin
    samples: Floats  # (resamples, 4)
    bounds: Floats  # (2, 4) least and most by score intervals; NaN where there is none


def _served(sums: Floats, drawn: Floats, share: Floats, *, together: Rows) -> _Served:
    """Figures of one way to serve, with resamples and bounds by score intervals.

    Args:
        sums: As ``_columns`` returns. Shape ``(n, 7)``.
        drawn: Their sums by resample. Shape ``(resamples, 7)``.
        share: Of each row that is not the strong model's. Shape ``(n,)``.
        together: Rows of one number are of one cluster. Shape ``(n,)``.
    """
    whole, (_, weak, strong, served) = sums.sum(axis=0), sums.T[:4]
    less = paired_bounds(served - strong, together=together, moved=share > 0)
    ends = np.tile(whole, (2, 1))
    ends[:, 3] = whole[2] + np.array(less) * whole[0]
    bounds = _figures(ends)
    worth = independent_count(served, together)
    bounds[:, 0] = wilson(float(served.mean()) * worth, worth)
    bounds[:, 2] = np.nan  # what was paid is known
    if np.ptp(share) == 0 and np.allclose(served, strong + share * (weak - strong)):
        bounds[:, 3] = np.nan  # a coin saves nothing beyond itself
    return _Served(float(share.mean()), _figures(whole[None])[0], _figures(drawn), bounds)


def _columns(
    corpus: Corpus, costs: Floats, rest: Rows, share: Floats, success: Floats, money: Floats
) -> Floats:
    """Columns that ``_figures`` needs the sums of: a share has this success at this cost, the rest strong's.

    Shape ``(len(rest), 7)``.
    """
    weak, strong, cheap, dear = corpus.weak[rest], corpus.strong[rest], costs[rest, 0], costs[rest, 1]
    served, paid = strong + share * (success - strong), dear + share * (money - dear)
    return np.stack([np.ones(len(rest)), weak, strong, served, cheap, dear, paid], axis=1)


def _figures(sums: Floats) -> Floats:
    """From sums over rows, the four figures of ``_Served``. Shape ``(k, 7)`` to ``(k, 4)``."""
    count, weak, strong, served, cheap, dear, paid = sums.T
    gap = strong - weak
    # No coin is better than always strong; where the weak model is as good, the cheapest is always weak.
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip((strong - served) / gap, 0.0, 1.0)
    share = np.where(gap > 0, part, (weak >= served).astype(np.float64))
    coin = dear + share * (np.minimum(cheap, dear) - dear)
    saved = np.round((coin - paid) / dear, 12)  # of a coin itself exactly 0: its rounding error is no saving
    return np.stack([served / count, (served - strong) / count, paid / dear, saved], axis=1)


def _row(name: str, found: Sequence[_Served]) -> RouterSavings:
    values = np.mean([each.values for each in found], axis=0)
    samples = np.concatenate([each.samples for each in found])
    bounds = np.mean([each.bounds for each in found], axis=0)
    success, less, cost, saved = (
        widened(interval_of(float(value), column), low, high)
        for value, column, low, high in zip(values, samples.T, *bounds, strict=True)
    )
    return RouterSavings(
        router=name,
        fixed=float(np.mean([each.weak_share > 0 for each in found])),
        weak_share=float(np.mean([each.weak_share for each in found])),
        success=success,
        success_minus_strong=less,
        cost=cost,
        saved_beyond_coin=saved,
    )
