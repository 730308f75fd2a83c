"""Fitting a learned router on the prior of kinds: what own labels say beyond length and public difficulty.

The prior is ln(characters) plus the shift of the kinds near a prompt. The residual of each model's success
is fitted by ridge regression over the static vector of the prompt: 256 numbers, so a few hundred labels
are enough, and with few of them the regression shrinks to the prior (docs/notebook/0152).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from pointsman.learning.learning import (
    LENGTH_SLOPE,
    Corpus,
    Fitted,
    fit_weights,
    residuals,
    vector_centres,
)
from pointsman.learning.metrics import Floats, Rows
from pointsman.tiers.kinds import SCALE, Kinds, PromptKinds
from pointsman.tiers.learned_router import KindsHead, LearnedRouter
from pointsman.vocabulary import Encoder

__all__ = ["LEAST_LABELS", "PriorWeights", "fit_prior", "fitter", "kinds_of"]

#: With fewer labels the prior ranks alone. Held out, it ranks better alone below some 300.
LEAST_LABELS: Final = 300

#: Ratio of noise to signal, in units of the variance of the vectors. Between 10 and 40 the APGR moves by at
#: most .014 with 500 labels or more (docs/notebook/0152).
SHRINKAGE: Final = 20.0


@dataclass(frozen=True)
class PriorWeights:
    """A fitted router before calibration."""

    coefficients: Floats  # (2, d): weak, strong
    means: Floats  # (2,) what an average vector adds up to
    centres: Floats  # (k, d) of length 1
    log_length: float

    def prior(self, corpus: Corpus, rows: Rows) -> Floats:
        """Gain expected from length and kinds alone. Shape ``(len(rows),)``."""
        return _prior(corpus, rows) - LENGTH_SLOPE * self.log_length

    def similarity(self, corpus: Corpus, rows: Rows) -> Floats:
        """Cosine of each vector to the nearest centre. Shape ``(len(rows),)``."""
        return np.asarray((_vectors(corpus, rows) @ self.centres.T).max(axis=1).clip(0.0, 1.0))

    def evidence(self, corpus: Corpus, rows: Rows) -> Floats:
        """Predictions for the two models from the vectors. Shape ``(2, len(rows))``."""
        return np.asarray(self.coefficients @ _vectors(corpus, rows).T - self.means[:, None])

    def head(self, kinds: PromptKinds) -> KindsHead:
        """The same, for a file."""
        weak, strong = self.coefficients.astype("<f2")
        centres = np.rint(self.centres * SCALE).astype(np.int8)
        return KindsHead(kinds, centres.tobytes(), weak.tobytes(), strong.tobytes())


def fitter(corpus: Corpus) -> Callable[[Corpus, Rows], Fitted]:
    """How to fit on parts of a corpus: on the prior of kinds where it has their shifts, else on n-grams."""
    if corpus.shifts is None:
        return fit_weights
    return partial(fit_prior, residual=len(corpus) >= LEAST_LABELS)


def kinds_of(learned_router: LearnedRouter, encoder: Encoder | None) -> Kinds | None:
    """The kinds in a learned router, with the encoder it was opened with; None where it reads n-grams."""
    if not (learned_router.head and encoder):
        return None
    kinds = learned_router.head.kinds
    return Kinds(kinds, encoder, kinds.table)


def fit_prior(corpus: Corpus, rows: Rows, *, residual: bool = True) -> PriorWeights:
    """Fit on some rows of a corpus that has vectors and shifts; without residual the prior ranks alone."""
    vectors = _vectors(corpus, rows)
    middle = vectors.mean(axis=0)
    coefficients = np.zeros((2, vectors.shape[1]))
    if residual:
        apart = vectors - middle
        noise = SHRINKAGE * max(float((apart**2).sum(axis=1).mean()), 1e-12)
        squares = apart.T @ apart + noise * np.eye(apart.shape[1])
        coefficients = np.linalg.solve(squares, apart.T @ residuals(corpus, rows, _prior(corpus, rows)).T).T
    return PriorWeights(
        coefficients, coefficients @ middle, vector_centres(vectors), float(corpus.log_length[rows].mean())
    )


def _prior(corpus: Corpus, rows: Rows) -> Floats:
    assert corpus.shifts is not None  # noqa: S101 - ``fitter`` has looked
    return np.asarray(LENGTH_SLOPE * (corpus.log_length[rows] + corpus.shifts[rows]))


def _vectors(corpus: Corpus, rows: Rows) -> Floats:
    assert corpus.vectors is not None  # noqa: S101 - kinds bring them
    return corpus.vectors[rows]
