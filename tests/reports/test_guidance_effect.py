"""Intervals and comparisons, checked against published values."""

import random
from itertools import accumulate
from math import sqrt
from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.guidance import Arm, streak_continues
from pointsman.guidance.memory import Followed
from pointsman.learning.intervals import difference_of_shares, wilson
from pointsman.reports.guidance import ENOUGH_SESSIONS, Effect, EffectSide, Ended, compare, compare_endings
from support.agent_runs import run


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


def test_those_who_look_after_every_session_are_seldom_told_of_an_effect_without_one() -> None:
    """Of 200 control groups without an effect, looked at after each of 400 sessions a side, 1 had a verdict;
    the 95 % interval of 64 excluded zero at some look. A report has three such verdicts, which share 5 %."""
    draw, told, shown = random.Random(3), 0, 0
    for _ in range(200):
        sides = [[draw.random() < 0.5 for _ in range(400)] for _ in range(2)]
        totals = [list(accumulate(map(int, side), initial=0)) for side in sides]
        effects = [
            Effect(
                EffectSide(n, n, a),
                EffectSide(n, n, b),
                (a - b) / n,
                *difference_of_shares(a, n, b, n),
                of_scores=True,
            )
            for n, a, b in zip(range(401), *totals, strict=True)
            if n >= ENOUGH_SESSIONS
        ]
        told += any(each.verdict.startswith("Guidance") for each in effects)
        shown += any(not each.low <= 0 <= each.high for each in effects)
    assert told <= 200 * 0.05 / 3
    assert shown >= 40


def test_newcombe() -> None:
    effect = compare([*side(Arm.TREATED, 56, 70), *side(Arm.CONTROL, 48, 80)])  # Newcombe 1998, table II
    assert effect.difference == pytest.approx(0.2)
    assert (effect.low, effect.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_a_session_counts_once_by_its_first_intervention() -> None:
    rows = [Followed("s", Arm.TREATED, "c", continued=continued) for continued in (True, False)]
    assert (compare(rows).treated.sessions, compare(rows).treated.total) == (1, 1)


def test_nothing_at_all() -> None:
    effect = compare([])
    assert (effect.treated.mean, effect.enough) == (0.0, False)
    assert (effect.low, effect.difference, effect.high) == (-1.0, 0.0, 1.0)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_the_interval_holds_the_difference(a: int, b: int, c: int, d: int) -> None:
    effect = compare([*side(Arm.TREATED, min(a, b), b), *side(Arm.CONTROL, min(c, d), d)])
    assert -1.0 - 1e-9 <= effect.low <= effect.difference <= effect.high <= 1.0 + 1e-9


def ended(arm: Arm, *scores: float | None) -> list[Ended]:
    return [Ended(f"{arm} {number}", arm, score) for number, score in enumerate(scores)]


def test_endings_of_yes_and_no_are_shares() -> None:
    rows = [*ended(Arm.TREATED, *[1.0] * 56, *[0.0] * 14), *ended(Arm.CONTROL, *[1.0] * 48, *[0.0] * 32)]
    effect = compare_endings(rows)  # Newcombe 1998, table II
    assert (effect.low, effect.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert effect.verdict.startswith("No difference can be shown yet")  # one look of many shows as much


NOT_YET = (
    "No difference can be shown yet: "
    "a report is read often, so the 99.93 % interval counts, and includes zero"
)


@pytest.mark.parametrize(
    ("treated", "control", "verdict"),
    [
        ([0.9] * 100, [0.5] * 100, "Guidance helps"),
        ([0.5] * 100, [0.9] * 100, "Guidance harms"),
        ([0.6] * 100, [0.5] * 100, "No difference can be shown: "),
        ([0.7] * 100, [0.5] * 100, f"{NOT_YET} (-0.03 to +0.41)."),
        (
            [0.9] * 29 + [None] * 71,
            [0.5] * 100,
            "Too little data: 30 sessions a side are needed, the smaller",
        ),
        ([], [], "Too little data"),
    ],
)
def test_the_verdict_on_endings(
    treated: list[float | None], control: list[float | None], verdict: str
) -> None:
    effect = compare_endings([*ended(Arm.TREATED, *treated), *ended(Arm.CONTROL, *control)])
    assert effect.verdict.startswith(verdict)
    assert effect.treated.sessions == len(treated)
    assert effect.treated.counted == sum(score is not None for score in treated)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_the_interval_of_scores_is_wide_enough(treated: list[float], control: list[float]) -> None:
    effect = compare_endings([*ended(Arm.TREATED, *treated), *ended(Arm.CONTROL, *control)])
    spread = [pstdev(scores) ** 2 / len(scores) for scores in (treated, control)]
    half = min(effect.difference - effect.low, effect.high - effect.difference)
    assert half >= 0
    assert effect.high - effect.low >= 2 * sqrt(sum(spread))  # one standard error each way, at least


@pytest.mark.parametrize(
    ("notation", "continues"),
    [("E E E E", True), ("E E E .", False), ("a(1)x b(1)y a(1)x", True), ("a(1)x b(1)y a(1)z", False)],
)
def test_a_streak_continues(notation: str, continues: bool) -> None:
    *before, last = run(notation).recent_tool_calls(50)
    assert streak_continues(before, last) is continues


@pytest.mark.parametrize(
    ("treated", "control", "verdict"),
    [
        ((0, 30), (29, 30), "Guidance helps: fewer streaks go on with it than without."),
        ((29, 30), (0, 30), "Guidance harms: more streaks go on with it than without."),
        ((15, 30), (15, 30), "No difference can be shown: the interval includes zero."),
        ((10, 30), (20, 30), f"{NOT_YET} (-63% to +9%)."),
        ((0, 29), (29, 30), "Too little data: 30 sessions a side are needed, the smaller side has 29."),
        ((0, 30), (29, 29), "Too little data: 30 sessions a side are needed, the smaller side has 29."),
    ],
)
def test_the_verdict_on_streaks(treated: tuple[int, int], control: tuple[int, int], verdict: str) -> None:
    effect = compare([*side(Arm.TREATED, *treated), *side(Arm.CONTROL, *control)])
    assert effect.verdict == verdict
