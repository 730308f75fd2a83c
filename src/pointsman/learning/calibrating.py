"""Platt scaling of a learned router's raw values, measured on folds it was not fitted on."""

from __future__ import annotations

import math

import numpy as np
from sklearn.linear_model import LogisticRegression

from pointsman.learning.learning import FOLDS, Floats, Rows
from pointsman.learning.metrics import Interval, calibration_interval
from pointsman.tiers.learned_router import Calibration

__all__ = ["calibrate"]


def calibrate(raw: Floats, outcomes: Floats, *, first: Rows, seed: int) -> tuple[Calibration, Interval]:
    """Platt scaling of held-out raw values, with its error measured on folds it was not fitted on.

    Args:
        raw: Shape ``(n,)``.
        outcomes: Shape ``(n,)``.
        first: As in ``Corpus``. Shape ``(n,)``.
        seed: of the folds and resamples.
    """
    folds = (np.random.default_rng(seed).permutation(len(raw)) % FOLDS)[first]
    probabilities = np.zeros(len(raw))
    for fold in range(FOLDS):
        offset, slope = _platt(raw[folds != fold], outcomes[folds != fold])
        probabilities[folds == fold] = 1 / (1 + np.exp(-(offset + slope * raw[folds == fold])))
    offset, slope = _platt(raw, outcomes)
    error = calibration_interval(probabilities, outcomes, together=first, seed=seed)
    return Calibration(offset, slope, error.value), error


def _platt(raw: Floats, outcomes: Floats) -> tuple[float, float]:
    """Offset and slope. Outcomes between 0 and 1 count as both, in parts."""
    # Platt's own targets: never sure, so that all-right or all-wrong data does not give infinite weights.
    right, wrong = outcomes.sum(), (1 - outcomes).sum()
    high, low = (right + 1) / (right + 2), 1 / (wrong + 2)
    soft = low + (high - low) * outcomes
    middle, spread = raw.mean(), raw.std() or 1.0  # all alike: the slope stays 0
    twice = np.r_[raw - middle, raw - middle][:, None] / spread
    labels = np.r_[np.ones(len(raw)), np.zeros(len(raw))]
    model = LogisticRegression(C=math.inf, tol=1e-8, max_iter=1_000)
    model.fit(twice, labels, sample_weight=np.r_[soft, 1 - soft])
    slope = float(model.coef_[0, 0]) / spread
    return float(model.intercept_[0] - slope * middle), float(slope)
