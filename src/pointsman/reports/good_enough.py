"""Whether a cheap model is good enough, decided at a few numbers of scored pairs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import NormalDist
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from pointsman.learning.intervals import MARGIN, margin_score, paired_interval

__all__ = ["LEVEL", "LOOKS", "GoodEnough", "decided"]

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
