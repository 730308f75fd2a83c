"""Packed sums against the sums they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.tiers.learned_router import FixedPoint

numbers = st.floats(-50, 50, allow_nan=False)
tables = st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=30)


@given(tables, st.data())
def test_sums_of_columns(rows: list[tuple[float, float, float]], data: st.DataObject) -> None:
    columns = list(zip(*rows, strict=True))
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=60))
    for column, total in zip(columns, FixedPoint(columns).over(chosen), strict=True):
        rounding = len(chosen) * (max(column) - min(column)) / 2**18
        assert total == pytest.approx(sum(column[row] for row in chosen), abs=rounding + 1e-9)


def test_the_largest_text_does_not_run_into_the_next_column() -> None:
    table = FixedPoint([[0.0, 1.0], [0.0, 0.0]], [{1: 1.0}])
    assert table.over([1] * 16_000) == pytest.approx([16_000, 0, 16_000])
