"""The bootstrap interval of any figure of rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from pointsman.learning.metrics import RESAMPLES, Interval, Rows, _blocks, interval_of

__all__ = ["bootstrap"]


def bootstrap(
    figure: Callable[[Rows], float],
    count: int,
    *,
    together: Rows | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Return a figure of all rows with its bootstrap interval.

    Args:
        figure: takes the numbers of the rows to look at, some more than once; NaN where it is not defined.
        count: rows there are.
        together: rows of one number are drawn as one. Shape ``(count,)``.
        seed: of the resamples.
        resamples: how many.
    """
    every = np.arange(count)
    samples = [
        figure(np.repeat(every, weights.astype(np.intp)))
        for weights in chain.from_iterable(_blocks(count, together, seed, resamples))
    ]
    return interval_of(figure(every), samples)
