"""Observed quality and cost: what labels say of each model's answers, and of all together."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Final

import msgspec

from pointsman.learning.intervals import Z
from pointsman.stores.ledger.reading import DecisionRow

__all__ = ["ENOUGH", "Observed", "Point", "observed"]

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
        """False where the interval says too little."""
        return self.labels >= ENOUGH


class Observed(msgspec.Struct, frozen=True):
    """What labels say. Models serve different prompts: their points are no experiment."""

    point: Point | None  # the working point; None without a label
    models: tuple[Point, ...]  # by cost, the cheapest first


def observed(rows: Iterable[DecisionRow]) -> Observed:
    """Add up labelled decisions; those without a score or an answer are left out."""
    scored = [row for row in rows if row.score is not None and row.result != "no_answer"]
    by: dict[str, list[DecisionRow]] = {}
    for row in scored:
        by.setdefault(row.model, []).append(row)
    models = [_point(name, of) for name, of in by.items()]
    models.sort(key=lambda point: (point.cost is None, point.cost or 0.0, point.name))
    return Observed(_point("", scored) if scored else None, tuple(models))


def _point(name: str, rows: list[DecisionRow]) -> Point:
    scores = [row.score for row in rows if row.score is not None]
    costs = [row.cost for row in rows if row.cost is not None]
    mean, half = sum(scores) / len(scores), _half(scores)
    return Point(
        name,
        len(scores),
        mean,
        max(0.0, mean - half),
        min(1.0, mean + half),
        1_000 * sum(costs) / len(costs) if costs else None,
        len(costs),
    )


def _half(scores: list[float]) -> float:
    """Half of the 95 % interval of a mean of values from 0 to 1; with one value everything is possible.

    One invented value of each extreme keeps the interval of equal labels from having no width (as Agresti and
    Coull (1998) do for shares).
    """
    if len(scores) < 2:
        return 1.0
    values = [*scores, 0.0, 1.0]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Z * sqrt(variance / len(values))
