"""Intervals and comparisons, checked against published values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.guidance import Arm, Followed, compare, streak_continues
from pointsman.guidance.effect import wilson
from runs import run


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


def side(arm: Arm, hits: int, total: int) -> list[Followed]:
    return [Followed(f"{arm} {n}", arm, "c", n < hits) for n in range(total)]


def test_newcombe() -> None:
    effect = compare([*side(Arm.TREATED, 56, 70), *side(Arm.WITHHELD, 48, 80)])  # Newcombe 1998, table II
    assert effect.difference == pytest.approx(0.2)
    assert (effect.low, effect.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_a_session_counts_once_by_its_first_intervention() -> None:
    rows = [Followed("s", Arm.TREATED, "c", continued=continued) for continued in (True, False)]
    assert (compare(rows).treated.sessions, compare(rows).treated.continued) == (1, 1)


def test_nothing_at_all() -> None:
    effect = compare([])
    assert (effect.treated.share, effect.enough) == (0.0, False)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_the_interval_holds_the_difference(a: int, b: int, c: int, d: int) -> None:
    effect = compare([*side(Arm.TREATED, min(a, b), b), *side(Arm.WITHHELD, min(c, d), d)])
    assert -1.0 - 1e-9 <= effect.low <= effect.difference <= effect.high <= 1.0 + 1e-9


@pytest.mark.parametrize(
    ("notation", "continues"),
    [("E E E E", True), ("E E E .", False), ("a(1)x b(1)y a(1)x", True), ("a(1)x b(1)y a(1)z", False)],
)
def test_a_streak_continues(notation: str, continues: bool) -> None:
    *before, last = run(notation).recent_tool_calls(50)
    assert streak_continues(before, last) is continues
