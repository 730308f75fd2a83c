"""Sums of several columns of numbers over the same few rows, in one pass.

Each row is one integer that holds a number of every column in fixed point, so that Python's own ``sum`` adds
all columns at once: for the 110 n-grams of a 450-character prompt, nineteen columns take as long as four sums
over tables of floats. This is what lets a learned router score in 50 µs without a numerical library.
Integers add up
alike in any order, so a sum is the same to the last bit everywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Final

__all__ = ["FixedPoint"]

#: Bits of one number: rounding is then 1/2**18 of a column's range, finer than the float16 of a learned
#: router file.
_NUMBER: Final = 18

#: Bits between columns: room for the sum of 2**14 rows; a text of 8,000 characters has at most 16,000.
_FIELD: Final = 32


class FixedPoint:
    """Columns of equal length, packed."""

    def __init__(
        self, columns: Sequence[Sequence[float]], sparse: Sequence[Mapping[int, float]] = ()
    ) -> None:
        """Pack.

        Args:
            columns: Numbers by row.
            sparse: Further columns by row: numbers above 0, with 0 in the rows not named.
        """
        self._floors = [min(column) for column in columns] + [0.0] * len(sparse)
        tops = [max(column) for column in columns] + [max(column.values(), default=0.0) for column in sparse]
        self._units = [
            (top - floor) / ((1 << _NUMBER) - 1) or 1.0 for top, floor in zip(tops, self._floors, strict=True)
        ]
        rows = [self._packed(values) for values in zip(*columns, strict=True)]
        for place, column in enumerate(sparse, start=len(columns)):
            for row, value in column.items():
                rows[row] |= round(value / self._units[place]) << place * _FIELD
        seen: dict[int, int] = {}  # equal rows as one object: fewer to keep in the processor's cache
        self._rows = tuple([seen.setdefault(row, row) for row in rows])
        self._split = struct.Struct(f"<{len(self._units)}I")

    def _packed(self, values: tuple[float, ...]) -> int:
        row = 0
        for place, value in enumerate(values):
            row |= round((value - self._floors[place]) / self._units[place]) << place * _FIELD
        return row

    def over(self, rows: Collection[int]) -> list[float]:
        """The sum of every column, the sparse ones last, over at least two rows, named by their index."""
        total = sum(itemgetter(*rows)(self._rows))
        count = len(rows)
        fields = self._split.unpack(total.to_bytes(self._split.size, "little"))
        return [
            field * unit + count * floor
            for field, unit, floor in zip(fields, self._units, self._floors, strict=True)
        ]
