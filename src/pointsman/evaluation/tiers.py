"""``pointsman eval tiers``: a head measured beside random, length, both rule profiles and an oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from pointsman.evaluation.datasets import Outcome
from pointsman.evaluation.metrics import apgr_interval, gap_curve
from pointsman.evaluation.rankers import baselines, by_head
from pointsman.tiers.head import HeadScorer

__all__ = ["Row", "evaluate_tiers", "measure"]


class Row(msgspec.Struct, frozen=True):
    """One ranker on one set of prompts."""

    ranker: str
    n: int
    apgr: float
    low: float  # bounds of the 95 % bootstrap interval
    high: float
    cpt50: float
    cpt80: float


def evaluate_tiers(
    outcomes: Sequence[Outcome], scorer: HeadScorer | None = None, *, seed: int = 0
) -> list[Row]:
    """Measure every ranker, and the head when there is one."""
    rankings = baselines(outcomes)
    if scorer:
        rankings["head"] = by_head(outcomes, scorer)
    return measure(outcomes, rankings, seed=seed)


def measure(
    outcomes: Sequence[Outcome], rankings: Mapping[str, NDArray[np.float64]], *, seed: int = 0
) -> list[Row]:
    """One row per ranking, in the order given."""
    weak = [row.weak for row in outcomes]
    strong = [row.strong for row in outcomes]
    rows = []
    for name, scores in rankings.items():
        curve = gap_curve(scores, weak, strong)
        interval = apgr_interval(scores, weak, strong, seed=seed)
        rows.append(
            Row(
                name,
                len(outcomes),
                interval.value,
                interval.low,
                interval.high,
                curve.cpt(0.5),
                curve.cpt(0.8),
            )
        )
    return rows
