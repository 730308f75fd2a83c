"""Pictures as values that templates turn into SVG: the bar of a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pointsman.vocabulary import Tier

__all__ = ["Bar", "score_bar"]

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
