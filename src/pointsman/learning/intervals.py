"""Intervals of shares that need no numerical library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import acos, ceil, copysign, cos, pi, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from pointsman.tiers.learned_router import Claim

__all__ = [
    "MARGIN",
    "POWER",
    "Interval",
    "Power",
    "Stratum",
    "Z",
    "difference_of_shares",
    "margin_score",
    "more_to_show",
    "paired_interval",
    "power_of",
    "stratified_interval",
    "wilson",
]

#: Success, of 1, that a cheaper model may lose and still be good enough, where nobody has stated another.
#: It says something only if it was chosen before the outcomes were seen.
MARGIN: Final = 0.05

#: Two-sided 95 %.
Z: Final = 1.959963984540054
#: Standard errors of a two-sided test at 95 % with 80 % power: 1.96 + 0.84. Source: Cohen, "Statistical Power
#: Analysis for the Behavioral Sciences" (1988), chapter 2.
POWER: Final = 2.80
#: Halvings of an interval of width 2: to less than 1e-9.
_HALVINGS: Final = 32


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its 95 % interval; NaN where nothing is defined."""

    value: float
    low: float
    high: float


def difference_of_shares(
    hits: float, total: int, other_hits: float, other_total: int, z: float = Z
) -> tuple[float, float]:
    """The interval of a share minus another, from their score intervals (Newcombe 1998, method 10)."""
    share = hits / total if total else 0.0
    other = other_hits / other_total if other_total else 0.0
    low, high = wilson(hits, total, z)
    other_low, other_high = wilson(other_hits, other_total, z)
    below = sqrt((share - low) ** 2 + (other_high - other) ** 2)
    above = sqrt((high - share) ** 2 + (other - other_low) ** 2)
    return share - other - below, share - other + above


def wilson(hits: float, total: float, z: float = Z) -> tuple[float, float]:
    """The score interval of a share (Wilson 1927), by default of 95 %; without data from 0 to 1."""
    if total == 0:
        return 0.0, 1.0
    share = hits / total
    middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z * sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / (1 + z**2 / total)
    return max(0.0, middle - half), min(1.0, middle + half)


def more_to_show(distance: float, error: float, count: int) -> int | None:
    """About how many more values show a distance as large as seen in 4 of 5 cases, after so many.

    None if the distance is within one standard error: then chance alone shows as much in one of six cases.
    The width of an interval falls with the root of the number of values.
    """
    if not distance > error:
        return None
    return max(ceil(count * ((POWER * error / distance) ** 2 - 1)), 1)


def margin_score(better: float, worse: float, count: float, margin: float) -> float:
    """Score statistic of a paired difference against minus the margin (Tango 1998, equation 6).

    It is standard normal where the true difference is minus the margin, and large where it lies above.

    Args:
        better: Pairs at which only the first was right; parts count as parts, which is cautious.
        worse: Pairs at which only the second was right.
        count: All pairs; more than 0.
        margin: Of the difference of the two shares, -1 to 1.
    """
    twice = 2 * count
    linear = -margin * (twice - better + worse) - better - worse
    root = sqrt(max(linear**2 - 4 * twice * worse * margin * (1 + margin), 0.0))
    likely = (root - linear) / (2 * twice)
    variance = count * (2 * likely - margin * (1 + margin))
    return (better - worse + count * margin) / sqrt(max(variance, 1e-12))


def paired_interval(better: float, worse: float, count: float, z: float = Z) -> tuple[float, float]:
    """The score interval of a paired difference: what ``margin_score`` does not reject, by default 95 %."""
    return _not_rejected((better - worse) / count, lambda at: margin_score(better, worse, count, -at), z)


class Stratum(NamedTuple):
    """Successes and trials of two sides; both have trials."""

    hits: int
    total: int
    other_hits: int
    other_total: int

    @property
    def weight(self) -> float:
        """Its weight in the difference of Mantel and Haenszel."""
        return self.total * self.other_total / (self.total + self.other_total)

    @property
    def difference(self) -> float:
        """Share of the other side minus that of the first one."""
        return self.other_hits / self.other_total - self.hits / self.total

    def variance(self, difference: float) -> float:
        """Variance of a difference as given, by the likeliest shares (Farrington & Manning 1990)."""
        share, other = self.hits / self.total, self.other_hits / self.other_total
        both = self.total + self.other_total
        ratio = self.total / self.other_total
        cube = 1 + ratio
        square = -(cube + other + ratio * share + difference * (ratio + 2)) / (3 * cube)
        linear = (difference**2 + difference * (2 * other + cube) + other + ratio * share) / (3 * cube)
        free = -other * difference * (1 + difference) / cube
        middle = square**3 - 1.5 * square * linear + free / 2
        width = copysign(sqrt(max(square**2 - linear, 1e-18)), middle)
        angle = (pi + acos(max(-1.0, min(1.0, middle / width**3)))) / 3
        likely = min(1.0, max(0.0, difference, 2 * width * cos(angle) - square))
        first = min(1.0, max(0.0, likely - difference))
        spread = likely * (1 - likely) / self.other_total + first * (1 - first) / self.total
        return spread * both / (both - 1)


def stratified_interval(strata: Iterable[Stratum], z: float = Z) -> tuple[float, float, float]:
    """The difference of two shares over strata, by Mantel and Haenszel, and its score interval.

    The interval holds the differences that the score test of Miettinen and Nurminen ("Comparative analysis of
    two rates", 1985) does not reject. At 0 its variance is that of the hypergeometric distribution, which
    also holds for strata with few trials.
    """
    alike = [(each, each.weight, count) for each, count in Counter(strata).items()]
    weight = sum(count * own for _, own, count in alike)
    seen = sum(count * own * each.difference for each, own, count in alike) / weight

    def score(difference: float) -> float:
        variance = sum(count * own**2 * each.variance(difference) for each, own, count in alike)
        return (seen - difference) * weight / sqrt(max(variance, 1e-12))

    return seen, *_not_rejected(seen, score, z)


def _not_rejected(seen: float, score: Callable[[float], float], z: float) -> tuple[float, float]:
    """The interval of the differences at which a score is below ``z``."""
    return _edge(seen, -1.0, score, z), _edge(seen, 1.0, score, z)


def _edge(kept: float, end: float, score: Callable[[float], float], z: float) -> float:
    """The difference between one that is kept and an end at which the score reaches ``z``, by bisection."""
    for _ in range(_HALVINGS):
        middle = (kept + end) / 2
        if abs(score(middle)) < z:
            kept = middle
        else:
            end = middle
    return end


class Power(msgspec.Struct, frozen=True):
    """What these labels could have shown against length, whatever they did show. Differences are of APGR."""

    difference: float  # measured, held out
    smallest: float  # difference that four in five such data sets would show
    labels: int | None  # about what would show the measured one; None where it is not above 0


def power_of(shown: Claim) -> Power:
    """The power of the paired comparison with length, from the width of its bootstrap interval.

    The error of an APGR falls with the square root of the labels; that is all the extrapolation assumes, and
    a learned router that gets better with more labels needs fewer.
    """
    difference, low, high = shown.against["length"]
    smallest = POWER * (high - low) / (2 * Z)
    if not difference > 0:
        return Power(difference, smallest, None)
    return Power(difference, smallest, ceil(shown.rows * (smallest / difference) ** 2))
