"""A tier profile compiled for one signal table: bit masks and contributions."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

import msgspec

from pointsman.evidence import SignalTable
from pointsman.tiers.profile import Dimension, Measure, Override, TierProfile, signal_of
from pointsman.vocabulary import Evidence

#: Keywords named in one signal. Source: docs/notebook/0021.
_SHOWN: Final = 3


class Level(msgspec.Struct, frozen=True, gc=False):
    """What a measure is worth, and how that is shown."""

    score: float
    contribution: float  # weight * score
    template: str  # a %-format for one value, or plain text; empty = not shown
    names: int = 0  # keywords named; 0 when the template takes the measure or nothing
    takes: bool = False  # whether the template takes a value


def places(mask: int) -> Iterator[int]:
    """The places of a mask's bits, counted from 1, the highest first."""
    while mask:
        place = mask.bit_length()
        yield place
        mask ^= 1 << (place - 1)


class CompiledDimension:
    """One dimension of one profile."""

    __slots__ = (
        "_alone",
        "_base",
        "_curve",
        "_levels",
        "_places",
        "_words",
        "by_count",
        "counts_tokens",
        "dimension",
        "mask",
    )

    def __init__(self, profile: TierProfile, dimension: Dimension, table: SignalTable) -> None:
        """Look up the dimension's signals in the table, which holds them all."""
        self.dimension = dimension
        self.counts_tokens = dimension.measure is Measure.TOKENS
        self.mask = table.mask(profile.name, dimension.name)  # 0: measures something else than hits
        self._places = [step.at for step in dimension.steps] or [place for place, _ in dimension.curve]
        self._curve = _pieces(dimension.curve)
        self._levels = [_level(dimension, 0.0, dimension.signal, _SHOWN)]
        for step in dimension.steps:
            self._levels.append(_level(dimension, step.score, step.signal or dimension.signal, step.shown))
        # Shifted down to the group's lowest bit, hits are small numbers: four times cheaper to take apart.
        self._base = max((self.mask & -self.mask).bit_length() - 1, 0)
        words = (word for language in dimension.keywords.values() for word in language)
        signals = dict.fromkeys(signal_of(profile, dimension, word) for word in words)
        self._words = {
            table.bit(signal).bit_length() - self._base: (rank, signal.pattern)
            for rank, signal in enumerate(signals)
        }
        #: What a count of keywords is worth, up to all there are.
        self.by_count = [self.at(count) for count in range(self.mask.bit_count() + 1)]
        # Most groups that fire do so by one keyword: those texts are made beforehand.
        one = self.at(1)
        self._alone = {place: one.template % word for place, (_, word) in self._words.items() if one.names}

    def measure(self, evidence: Evidence, tokens: int) -> int:
        """What the dimension counts in a text; ``tokens`` is the profile's estimate."""
        if self.mask:
            return (evidence.hits & self.mask).bit_count()
        return tokens if self.counts_tokens else evidence.questions

    def at(self, measure: int) -> Level:
        """What a measure is worth."""
        reached = bisect_right(self._places, measure)
        if not self._curve:
            return self._levels[reached]
        height, slope = self._curve[reached]
        score, shown = height + slope * math.log(measure or 1), self._levels[0]
        return Level(score, self.dimension.weight * score, shown.template, shown.names, shown.takes)

    def show(self, level: Level, measure: int, found: int) -> str:
        """The signal of a level, for a person; ``found`` is the dimension's share of the hits."""
        if not level.names:
            return level.template % measure if level.takes else level.template
        if measure == 1 and (alone := self._alone.get((found >> self._base).bit_length())):
            return alone
        words = self.keywords(found)[: level.names]
        return level.template % ", ".join(words) if words else self.dimension.name

    def keywords(self, found: int) -> list[str]:
        """The keywords among the dimension's hits, in the profile's order. Patterns have none."""
        ranked = sorted(self._words[place] for place in places(found >> self._base) if place in self._words)
        return [word for _, word in ranked]

    def bits(self, found: int) -> dict[str, int]:
        """What a person would call each of the dimension's hits, and its mask; patterns share one name."""
        named: dict[str, int] = {}
        for place in places(found >> self._base):
            _, name = self._words.get(place, (0, self.dimension.name))
            named[name] = named.get(name, 0) | 1 << (place - 1 + self._base)
        return named


class CompiledOverride:
    """One override of one profile."""

    __slots__ = ("_barred", "_counted", "_more_every", "_needed", "_shown", "_tokens_above", "override")

    def __init__(self, override: Override, gauges: Mapping[str, CompiledDimension]) -> None:
        self.override = override
        self._tokens_above = -1 if override.tokens_above is None else override.tokens_above
        # A keyword of two dimensions is two signals, so the bits of a union are the sum of the counts.
        self._counted = _union(gauges[name].mask for name in override.count_of)
        self._needed = _union(gauges[name].mask for name in override.needs)
        self._more_every = override.one_more_every or 0
        self._barred = _union(gauges[name].mask for name in override.unless)
        self._shown = tuple(gauges[name] for name in override.shown_of)

    def applies(self, hits: int, tokens: int, utf16_units: int) -> bool:
        """Whether all its conditions hold."""
        if tokens <= self._tokens_above or hits & self._barred:
            return False
        wanted = self.override.count_from
        if self._more_every:
            wanted += tokens // self._more_every
        if (hits & self._counted).bit_count() < wanted:
            return False
        if not self._needed or hits & self._needed:
            return True
        long = self.override.unless_long
        return long is not None and utf16_units > long

    def show(self, hits: int, tokens: int) -> str:
        """Its signal, for a person."""
        words = [word for gauge in self._shown for word in gauge.keywords(hits & gauge.mask)][:_SHOWN]
        count = (hits & self._counted).bit_count()
        return self.override.signal.format(tokens=tokens, count=count, keywords=", ".join(words))


def _pieces(curve: tuple[tuple[int, float], ...]) -> list[tuple[float, float]]:
    """Height at log 0 and slope of each piece: flat before the first point and after the last."""
    if not curve:
        return []
    pieces = [(curve[0][1], 0.0)]
    for (start, low), (end, high) in pairwise(curve):
        slope = (high - low) / math.log(end / start)
        pieces.append((low - slope * math.log(start), slope))
    return [*pieces, (curve[-1][1], 0.0)]


def _level(dimension: Dimension, score: float, signal: str, names: int) -> Level:
    takes = "{" in signal
    template = re.sub(r"\{\w+\}", "%s", signal.replace("%", "%%")) if takes else signal
    return Level(score, dimension.weight * score, template, names if "{keywords}" in signal else 0, takes)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
