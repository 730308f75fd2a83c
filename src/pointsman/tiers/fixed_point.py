"""Sums of several columns of numbers over the same few rows, in one pass.

Each row is one integer that holds a number of every column in fixed point, so that Python's own ``sum`` adds
all columns at once. For the 136 n-grams of a 450-character prompt and four columns this takes half the time
of four sums over tables of floats (13 against 27 µs), which is what lets a head score in 50 µs without a
numerical library.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

__all__ = ["FixedPoint"]

#: Bits of one number: rounding is then 1/2**18 of a column's range, finer than the float16 of a head file.
_NUMBER: Final = 18

#: Bits between columns: room for the sum of 2**14 rows; a text of 8,000 characters has at most 16,000.
_FIELD: Final = 32

_LOW: Final = (1 << _FIELD) - 1


class FixedPoint:
    """Columns of equal length, packed."""

    def __init__(self, *columns: Sequence[float]) -> None:
        self._floors = [min(column) for column in columns]
        self._units = [
            (max(column) - floor) / ((1 << _NUMBER) - 1) or 1.0
            for column, floor in zip(columns, self._floors, strict=True)
        ]
        seen: dict[int, int] = {}  # equal rows as one object: fewer to keep in the processor's cache
        self._rows = tuple(
            [seen.setdefault(row, row) for row in map(self._packed, zip(*columns, strict=True))]
        )

    def _packed(self, values: tuple[float, ...]) -> int:
        row = 0
        for place, value in enumerate(values):
            row |= round((value - self._floors[place]) / self._units[place]) << place * _FIELD
        return row

    def over(self, rows: list[int]) -> list[float]:
        """The sum of every column over at least two rows, named by their index."""
        total = sum(itemgetter(*rows)(self._rows))
        count = len(rows)
        return [
            (total >> place * _FIELD & _LOW) * unit + count * floor
            for place, (floor, unit) in enumerate(zip(self._floors, self._units, strict=True))
        ]
