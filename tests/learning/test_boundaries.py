"""Boundaries: what a choice gives is worked out by hand, and no choice among all of them is better."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.learning.boundaries import (
    Budget,
    Prompts,
    QualityTarget,
    choose,
    cross_fitted,
    curve,
    tiers_of,
)

INF = float("inf")


def two(scores: list[float], weak: list[float], strong: list[float]) -> Prompts:
    """Prompts of two models that cost 1 and 10."""
    quality = np.array([weak, weak, strong, strong], dtype=float).T
    cost = np.tile([1.0, 1.0, 10.0, 10.0], (len(scores), 1))
    return Prompts(np.array(scores, dtype=float), quality, cost)


FOUR = two([1, 2, 3, 4], [1, 1, 0, 0], [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("target", "boundary", "reached"),
    [
        (QualityTarget(1.0), 2.5, True),
        (QualityTarget(0.75), 3.5, True),
        (QualityTarget(0.5), INF, True),  # the weak model alone
        (Budget(10.0), 2.5, True),  # more would buy nothing
        (Budget(5.5), 2.5, True),
        (Budget(5.4), 3.5, True),
        (Budget(1.0), INF, True),
        (Budget(0.9), INF, False),  # nothing is as cheap
    ],
)
def test_two_tiers_by_hand(target: QualityTarget | Budget, boundary: float, reached: bool) -> None:
    chosen = choose(FOUR, target, 2, best=np.ones(4))
    assert chosen.boundaries == (boundary, boundary, INF)
    assert chosen.reached is reached


def test_what_no_boundary_can_reach_comes_as_near_as_it_can() -> None:
    spoiled = two([1, 2], [0, 0], [1, 0])
    chosen = choose(spoiled, QualityTarget(0.9), 2, best=np.ones(2))
    assert not chosen.reached
    assert tiers_of(spoiled.scores, chosen.boundaries).tolist() == [2, 2]


def test_equal_scores_are_never_told_apart() -> None:
    alike = two([1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1])
    assert choose(alike, QualityTarget(0.75), 2, best=np.ones(4)).boundaries == (-INF, -INF, INF)


def test_a_score_at_a_boundary_is_above_it() -> None:
    assert tiers_of(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), (1.0, 2.0, 4.0)).tolist() == [0, 1, 2, 2, 3]


tables = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.integers(0, 4), min_size=4, max_size=4)), min_size=1, max_size=7
)


@given(tables, st.floats(0, 1))
def test_four_tiers_are_the_best_of_all_ways_to_cut(rows: list[tuple[int, list[int]]], wanted: float) -> None:
    scores = np.array([score for score, _ in rows], dtype=float)
    quality = np.array([given for _, given in rows]) / 4
    prompts = Prompts(scores, quality, np.tile([1.0, 2.0, 4.0, 8.0], (len(rows), 1)))
    best = quality[:, 3]
    chosen = choose(prompts, QualityTarget(wanted), 4, best=best)

    def of(ranks: np.ndarray) -> tuple[float, float]:
        every = np.arange(len(rows))
        return float(prompts.cost[every, ranks].sum()), float(quality[every, ranks].sum())

    edges = [-INF, *(value + 0.5 for value in sorted(set(scores.tolist())))]
    every = [
        of(tiers_of(scores, (low, middle, high)))
        for low, middle, high in product(edges, repeat=3)
        if low <= middle <= high
    ]
    cost, kept = of(tiers_of(scores, chosen.boundaries))
    enough = [price for price, got in every if got >= wanted * best.sum() - 1e-9]
    assert chosen.reached == bool(enough)
    assert cost == pytest.approx(min(enough)) if enough else kept == pytest.approx(max(g for _, g in every))


def test_every_prompt_is_served_by_boundaries_it_had_no_part_in() -> None:
    """One prompt whose outcome is turned round moves nobody's tier but others': never its own."""
    generator = np.random.default_rng(3)
    scores = generator.normal(size=60)
    weak = (scores < 0).astype(float)
    turned = weak.copy()
    turned[7] = 1 - turned[7]
    ranks = [
        cross_fitted(
            two(scores.tolist(), values.tolist(), [1.0] * 60),
            QualityTarget(0.95),
            2,
            best=np.ones(60),
            seed=1,
        ).ranks[7]
        for values in (weak, turned)
    ]
    assert ranks[0] == ranks[1]


def test_a_curve_goes_from_the_cheapest_to_the_dearest() -> None:
    generator = np.random.default_rng(0)
    scores = generator.normal(size=200)
    prompts = two(scores.tolist(), (scores < 0).astype(float).tolist(), [1.0] * 200)
    points = list(curve(prompts, 2, best=np.ones(200), seed=0))
    assert points[0].cost == pytest.approx(1.0)
    assert points[0].kept.value == pytest.approx(prompts.quality[:, 0].mean())
    assert all(point.cost <= 1.1 * point.budget for point in points)
    assert all(point.kept.low <= point.kept.value <= point.kept.high for point in points)
    assert points[-1].kept.value > 0.97
