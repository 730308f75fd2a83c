"""Intervals of shares that need no numerical library, and the looks at which they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import acos, ceil, copysign, cos, inf, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from pointsman.tiers.learned_router import Claim

__all__ = [
    "LEVEL",
    "LOOKS",
    "MARGIN",
    "POWER",
    "GoodEnough",
    "Interval",
    "Power",
    "Stratum",
    "Z",
    "decided",
    "difference_of_shares",
    "margin_score",
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


#: Numbers of pairs at which the answer is decided: 30, and whenever they have doubled, eight times.
LOOKS: Final[tuple[int, ...]] = tuple(30 * 2**k for k in range(8))
#: Chance of an answer that is wrong, one-sided, at one look: 2.5 % shared by all looks.
LEVEL: Final = 0.025 / len(LOOKS)
#: Standard errors by which what is looked for must lie beyond those of the level, to be seen in four of five
#: cases.
_FOUR_OF_FIVE: Final = NormalDist().inv_cdf(0.8)
#: Share of pairs that differ, planned with before the first look.
_USUAL: Final = 0.12


class GoodEnough(msgspec.Struct, frozen=True):
    """The answer, and its evidence."""

    answer: Literal["yes", "no", "not known yet"]
    cheap: str = ""  # empty: no two models with a price have answered
    strong: str = ""
    pairs: int = (
        0  # different sessions with answers of both to one request, both scored by people or programs
    )
    looked: int = 0  # of them, the first so many decided: the last look; 0: before the first
    difference: float = 0.0  # mean score of the cheap model minus that of the strong one, at the last look
    low: float = -1.0  # interval whose ends each err with ``level``
    high: float = 1.0
    missing: int = 0  # pairs to the look that decides it in four of five cases; 0: decided, or none is known
    left_out: int = 0  # pairs with a score that only a judge or a sign gave
    repeated: int = 0  # further pairs of sessions that count already
    margin: float = MARGIN  # score, of 1, that the cheap model may be worse by
    level: float = LEVEL  # of one look, one-sided; of a table of several pairs of models, each one's share
    tiers: str = ""  # of the pairs at the last look, or of all before it: "SIMPLE (239), no tier (1)"

    def sentence(self, of: str = "") -> str:
        """The answer in words.

        Args:
            of: Which requests it is about, and how many of them have a pair, where these are not all.
        """
        if not self.cheap:
            return "Not known yet: no request has scored answers of two models with prices."
        names = f"“{self.cheap}” beside “{self.strong}”"
        interval = (
            f"{self.difference:+.2f}, {1 - 2 * self.level:.1%} interval {self.low:+.2f} to {self.high:+.2f}"
        )
        first = f"the first {self.looked:,} of " if self.looked < self.pairs else ""
        seen = f"{interval}, from {first}{self.pairs:,} pairs"
        of = f"{of}; " if of else ""
        on = f"on requests of {self.tiers}, " if self.tiers else ""
        match self.answer:
            case "yes":
                return f"Yes: {of}{on}{names} is not worse by more than {self.margin:g} ({seen})."
            case "no":
                return f"No: {of}{on}{names} is worse by more than {self.margin:g} ({seen})."
        if self.looked == LOOKS[-1]:
            return f"Not known yet: {of}{names} was not decided at the last look ({seen})."
        if not self.looked:
            seen = f"{self.pairs} of the {LOOKS[0]} that the first look takes"
        if not self.missing:
            known = f"no number of pairs up to {LOOKS[-1]:,} is known to decide it"
            return f"Not known yet: {of}{names}: {known} ({seen})."
        return f"Not known yet: {of}{names} needs about {self.missing:,} more pairs ({seen})."


def decided(
    cheap: str, strong: str, differences: Sequence[float], margin: float = MARGIN, level: float = LEVEL
) -> GoodEnough:
    """Answer from the pairs at the last look.

    The cheap model is good enough where the whole interval of the difference lies above minus the margin,
    and is not where all of it lies below. How many more pairs decide it in four of five cases is what the
    pairs that differed, or a usual share of them, need at the difference seen, up to the next look.

    Args:
        cheap: Its name.
        strong: Its name.
        differences: Score of the cheap model minus that of the strong one, in the order of the pairs.
        margin: Score that it may be worse by, chosen before the differences were seen.
        level: Chance of a wrong answer at one look, one-sided.
    """
    z = NormalDist().inv_cdf(1 - level)
    count = len(differences)
    looked = max((look for look in LOOKS if look <= count), default=0)
    found = GoodEnough("not known yet", cheap, strong, count, looked, margin=margin, level=level)
    if not looked:
        return replace(found, missing=_missing(z, _USUAL, margin, margin, count))
    seen = differences[:looked]
    better, worse = sum(max(each, 0.0) for each in seen), sum(max(-each, 0.0) for each in seen)
    mean = (better - worse) / looked
    low, high = paired_interval(better, worse, looked, z)
    found = replace(found, difference=mean, low=low, high=high)
    shown = margin_score(better, worse, looked, margin)
    if abs(shown) > z:
        return replace(found, answer="yes" if shown > 0 else "no")
    return replace(found, missing=_missing(z, (better + worse) / looked, mean + margin, margin, count))


def _missing(z: float, differing: float, away: float, margin: float, count: int) -> int:
    """Pairs up to the next look that shows a difference so far from the margin; 0 if none does."""
    needed = (z + _FOUR_OF_FIVE) ** 2 * max(differing, margin) / away**2 if away else inf
    return next((look - count for look in LOOKS if look > count and look >= needed), 0)


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
