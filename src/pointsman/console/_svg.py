"""Pictures as values that templates turn into SVG: the bar of a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pointsman.vocabulary import Tier

#: Width of a picture in its own units; the page scales it.
WIDTH: Final = 1_000


class Segment(NamedTuple):
    """One tier's part of the bar."""

    tier: Tier
    x: float
    width: float


class Bar(NamedTuple):
    """A score among the boundaries of the tiers."""

    segments: tuple[Segment, ...]
    marks: tuple[tuple[float, str], ...]  # place and value of each boundary
    score: float  # place
    label: str
    anchor: str  # where the label begins, as SVG names it


def score_bar(score: float, boundaries: Sequence[float]) -> Bar:
    """Place a score on a bar that shows all boundaries, with room on both sides."""
    ends = [*boundaries, score]
    room = max((max(ends) - min(ends)) * 0.15, 0.02)
    low, high = min(ends) - room, max(ends) + room

    def place(value: float) -> float:
        return round((value - low) / (high - low) * WIDTH, 1)

    edges = [0.0, *map(place, boundaries), float(WIDTH)]
    segments = tuple(
        Segment(tier, left, round(right - left, 1))
        for tier, left, right in zip(Tier, edges, edges[1:], strict=False)
    )
    at = place(score)
    anchor = "start" if at < WIDTH * 0.1 else "end" if at > WIDTH * 0.9 else "middle"
    marks = tuple((place(value), f"{value:g}") for value in boundaries)
    return Bar(segments, marks, at, f"{score:.3f}", anchor)


class Dot(NamedTuple):
    """A point with its interval, in the units of the picture."""

    name: str  # empty: the working point
    x: float
    y: float
    top: float
    bottom: float
    label_y: float


class Chart(NamedTuple):
    """Points over two axes."""

    dots: tuple[Dot, ...]
    across: tuple[tuple[float, str], ...]  # ticks
    up: tuple[tuple[float, str], ...]
    left: float = 60.0
    right: float = 700.0
    above: float = 30.0
    below: float = 260.0


_TICKS: Final = 5
#: Width of a name and height of its line, in the units of the picture.
_LABEL: Final = 90
_LINE: Final = 22


def points_chart(points: Sequence[tuple[str, float, float, float, float]]) -> Chart:
    """Place points of a name, a cost and a score with its interval; scores go from 0 to 1."""
    frame = Chart((), (), ())
    most = max(cost for _, cost, _, _, _ in points) * 1.1 or 1.0

    def x(cost: float) -> float:
        return round(frame.left + cost / most * (frame.right - frame.left), 1)

    def y(score: float) -> float:
        return round(frame.below - score * (frame.below - frame.above), 1)

    dots: list[Dot] = []
    for name, cost, score, low, high in points:
        label = y(high) - 7
        while any(abs(each.x - x(cost)) < _LABEL and abs(each.label_y - label) < _LINE for each in dots):
            label -= _LINE  # above the name that is there
        dots.append(Dot(name, x(cost), y(score), y(high), y(low), label))
    steps = [step / (_TICKS - 1) for step in range(_TICKS)]
    return frame._replace(
        dots=tuple(dots),
        across=tuple((x(most * step), f"{most * step:.3g}") for step in steps),
        up=tuple((y(step), f"{step:g}") for step in steps),
    )


class Money(NamedTuple):
    """Costs and savings of an hour or a day, in US dollars."""

    at: float  # where it begins, seconds since the epoch
    paid: float
    saved: float
    requests: int


class MoneyBar(NamedTuple):
    """One hour or day, in the units of the picture."""

    of: Money
    x: float
    paid_y: float
    paid_height: float
    saved_y: float
    saved_height: float
    is_named: bool  # its time is written below it


class MoneyBars(NamedTuple):
    """Bars of costs with the savings above: together the cost of the baseline."""

    bars: tuple[MoneyBar, ...]
    up: tuple[tuple[float, float], ...]  # ticks: place and US dollars
    bar_width: float
    form: str  # of the times: "hour", "date"
    width: float = 760.0
    left: float = 84.0
    top: float = 12.0
    below: float = 176.0


#: Times below the bars at most.
_NAMED: Final = 8


def money_bars(periods: Sequence[Money], form: str) -> MoneyBars:
    """Place hours or days side by side."""
    frame = MoneyBars((), (), 0.0, form)
    most = max((each.paid + max(each.saved, 0.0) for each in periods), default=0.0) or 1.0
    step = (frame.width - frame.left) / max(len(periods), 1)
    tall = frame.below - frame.top
    every = -(-len(periods) // _NAMED)
    bars: list[MoneyBar] = []
    for number, of in enumerate(periods):
        paid, saved = of.paid / most * tall, max(of.saved, 0.0) / most * tall
        top = frame.below - paid
        places = (frame.left + number * step, top, paid, top - saved, saved)
        is_named = (len(periods) - 1 - number) % every == 0
        x, paid_y, paid_height, saved_y, saved_height = (round(each, 1) for each in places)
        bars.append(MoneyBar(of, x, paid_y, paid_height, saved_y, saved_height, is_named))
    ticks = tuple((round(frame.below - tall * step / 2, 1), most * step / 2) for step in range(3))
    return frame._replace(bars=tuple(bars), up=ticks, bar_width=round(max(step * 0.72, 1.0), 1))
