"""Intervals of shares that need no numerical library."""

from __future__ import annotations

from math import sqrt
from typing import Final

__all__ = ["Z", "difference_of_shares", "wilson"]

#: Two-sided 95 %.
Z: Final = 1.959963984540054


def difference_of_shares(hits: float, total: int, other_hits: float, other_total: int) -> tuple[float, float]:
    """The 95 % interval of a share minus another, from their score intervals (Newcombe 1998, method 10)."""
    share = hits / total if total else 0.0
    other = other_hits / other_total if other_total else 0.0
    low, high = wilson(hits, total)
    other_low, other_high = wilson(other_hits, other_total)
    below = sqrt((share - low) ** 2 + (other_high - other) ** 2)
    above = sqrt((high - share) ** 2 + (other - other_low) ** 2)
    return share - other - below, share - other + above


def wilson(hits: float, total: int, z: float = Z) -> tuple[float, float]:
    """The score interval of a share (Wilson 1927), by default of 95 %; without data from 0 to 1."""
    if total == 0:
        return 0.0, 1.0
    share = hits / total
    middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z * sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / (1 + z**2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)
