"""Outcomes of one model a prompt: what both models would have made of it, where chance chose the model.

A gateway sees the answer of the model that served. Where chance chose that model, with a probability that
the ledger recorded, the outcome of the other one can be estimated without bias: a regression predicts both,
and what it missed on the served one is weighted by the inverse of the probability (Robins, Rotnitzky and Zhao
1994, "Estimation of regression coefficients when some regressors are not always observed"; Dudík, Langford
and Li 2011, "Doubly robust policy evaluation and learning"). Where a rule chose, the rule and the models
cannot be told apart: such outcomes compare nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pointsman.errors import PointsmanError
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.kinds_prior import LEAST_LABELS
from pointsman.learning.learning import FOLDS, Corpus, Fitted
from pointsman.learning.metrics import Floats, Rows

__all__ = [
    "LEAST_SESSIONS",
    "Observed",
    "Sides",
    "check_enough",
    "refused",
    "share_needed",
    "sides_of",
]

#: Different sessions that each model needs outcomes in: two for each fold of the cross-validation.
LEAST_SESSIONS: Final = 2 * FOLDS

#: Ratio of noise to signal of the regression, whose features have a variance of 6 in all.
_SHRINKAGE: Final = 20.0

Fit = Callable[[Corpus, Rows], Fitted]
Mask = NDArray[np.bool_]


class Sides(msgspec.Struct, frozen=True):
    """How many prompts have which outcomes."""

    paired: int  # of both models
    drawn: int  # of one model, which chance chose
    ruled: int  # of one model, which is not compared: a rule chose it, or ``rare``
    rare: int = 0  # of those ruled, that chance chose where one model had a chance below ``LEAST_CHANCE``


def sides_of(rows: Sequence[PromptOutcome]) -> Sides:
    """Count the prompts."""
    paired = sum(row.is_paired for row in rows)
    drawn = sum(row.is_drawn for row in rows if not row.is_paired)
    rare = sum(min(row.drawn) > 0 and not row.is_drawn for row in rows if not row.is_paired)
    return Sides(paired, drawn, len(rows) - paired - drawn, rare)


def share_needed(prompts: int) -> float | None:
    """The share that chance must give to the other model, so that as many prompts are worth 300 pairs.

    A difference of means of ``n`` outcomes, a share ``p`` of them of one model, has the variance of
    ``2 n p (1 - p)`` pairs. None: not even half of these prompts are enough.
    """
    left = 1 - 2 * LEAST_LABELS / prompts if prompts else -1.0
    return (1 - math.sqrt(left)) / 2 if left >= 0 else None


def refused(rows: Sequence[PromptOutcome], sides: Sides) -> PointsmanError:
    """Say why outcomes that a rule chose cannot be compared, and what would be needed."""
    share = share_needed(len(rows))
    if share is None:
        more = f"at least {2 * LEAST_LABELS:,} prompts, half of them served by each model"
    else:
        more = f"{share:.0%} of as many prompts served by the other model"
    known = sides.paired + sides.drawn
    rare = f" or chance with less than .1 ({sides.rare:,})" if sides.rare else ""
    return PointsmanError(
        f"{sides.ruled:,} prompts have the outcome of one model, which a rule{rare} chose, and {known:,} "
        "can be compared: what is seen may be the rule's doing and not the model's",
        hint="let chance choose: give a tier two models with a weight each. To be worth "
        f"{LEAST_LABELS} pairs: {more}",
    )


def check_enough(rows: Sequence[PromptOutcome], first: Rows, names: tuple[str, str]) -> None:
    """Refuse outcomes of too few sessions.

    Args:
        rows: All paired or drawn.
        first: As in ``Corpus``: prompts of one session, and alike prompts, are one. Shape ``(n,)``.
        names: Of the weak and the strong model.

    Raises:
        PointsmanError: a model has outcomes in fewer than ``LEAST_SESSIONS`` sessions.
    """
    told, least = [], len(rows)
    for model, name in enumerate(names):
        seen = [at for at, row in enumerate(rows) if not math.isnan((row.weak, row.strong)[model])]
        sessions = len(set(first[seen].tolist()))
        told.append(f"{len(seen):,} outcomes of {name} in {sessions:,} different sessions")
        least = min(least, sessions)
    if least < LEAST_SESSIONS:
        raise PointsmanError(
            f"{' and '.join(told)} are too few for training; each model needs outcomes in at least "
            f"{LEAST_SESSIONS} different sessions",
            hint="collect more sessions, or give the model with fewer outcomes a higher weight",
        )


@dataclass(frozen=True)
class Observed:
    """What was seen of the two models. All arrays have shape ``(2, n)``: weak, strong."""

    outcomes: Floats  # 0 where not seen
    seen: Mask
    chances: Floats  # with which each was to be seen; 1 where both were

    @classmethod
    def of(cls, rows: Sequence[PromptOutcome]) -> Observed:
        """Read rows that are all paired or drawn."""
        values = np.array([[row.weak, row.strong] for row in rows]).T
        paired = np.array([row.is_paired for row in rows])
        chances = np.array([row.drawn for row in rows]).T
        return cls(np.nan_to_num(values), ~np.isnan(values), np.where(paired, 1.0, chances))

    def filled(self, corpus: Corpus, rows: Rows, *, alike: bool = False) -> Floats:
        """Doubly robust outcomes of both models on some rows, predicted from the others of them.

        Shape ``(2, len(rows))``; single values lie outside 0..1, their means are unbiased. ``alike``: all
        prompts are predicted alike, so that the outcomes of like prompts have nothing in common but what was
        seen of them.
        """
        features = np.zeros((len(rows), 1)) if alike else _features(corpus, rows)
        first = np.unique(corpus.first[rows], return_inverse=True)[1]
        folds = (np.random.default_rng(0).permutation(len(rows)) % FOLDS)[first]
        found = np.zeros((2, len(rows)))
        for model in (0, 1):
            seen, outcomes = self.seen[model, rows], self.outcomes[model, rows]
            for fold in range(FOLDS):
                out = folds == fold
                found[model, out] = _predicted(features, outcomes, seen & ~out, out)
            missed = np.where(seen, outcomes - found[model], 0.0)
            found[model] += missed / self.chances[model, rows]
        return found

    def fitter(self, fit: Fit) -> Fit:
        """A fit of outcomes that are filled from the rows that are fitted, and from no other."""

        def of(corpus: Corpus, rows: Rows) -> Fitted:
            weak, strong = corpus.weak.copy(), corpus.strong.copy()
            weak[rows], strong[rows] = self.filled(corpus, rows)
            return fit(replace(corpus, weak=weak, strong=strong), rows)

        return of


def _predicted(
    features: Floats, outcomes: Floats, known: NDArray[np.bool_], out: NDArray[np.bool_]
) -> Floats:
    """Success of one model on rows, by a ridge regression of those where it is known."""
    if known.sum() < 2:
        return np.full(int(out.sum()), 0.5)
    middle, mean = features[known].mean(axis=0), outcomes[known].mean()
    apart = features[known] - middle
    squares = apart.T @ apart + _SHRINKAGE * np.eye(apart.shape[1])
    coefficients = np.linalg.solve(squares, apart.T @ (outcomes[known] - mean))
    return np.asarray(mean + (features[out] - middle) @ coefficients).clip(0.0, 1.0)


def _features(corpus: Corpus, rows: Rows) -> Floats:
    """Length, rules and kinds, each of variance 1, and the vector, of variance 3 in all."""
    columns = [corpus.log_length[rows], corpus.rules[rows]]
    if corpus.shifts is not None:
        columns.append(corpus.shifts[rows])
    found = np.column_stack(columns)
    found = (found - found.mean(axis=0)) / np.maximum(found.std(axis=0), 1e-9)
    if corpus.vectors is None:
        return np.asarray(found)
    vectors = corpus.vectors[rows]
    spread = max(float(vectors.var(axis=0).sum()), 1e-12)
    return np.column_stack([found, (vectors - vectors.mean(axis=0)) * math.sqrt(3 / spread)])
