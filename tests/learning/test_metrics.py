"""Metrics against values worked out by hand, and properties every ranking has."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.learning.intervals import Stratum, Z, paired_interval, stratified_interval
from pointsman.learning.metrics import (
    apgr_interval,
    calibration_error,
    calibration_interval,
    curve_intervals,
    difference_interval,
    gap_curve,
    independent_count,
    paired_bounds,
    sums_interval,
)

WEAK = [0, 0, 1, 1]
STRONG = [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("scores", "apgr", "cpt50", "cpt80"),
    [
        ([4, 3, 2, 1], 0.75, 0.25, 0.4),  # both failures first: the gap is closed at half the calls
        ([1, 2, 3, 4], 0.25, 0.75, 0.9),  # both failures last
        ([7, 7, 7, 7], 0.5, 0.5, 0.8),  # nothing known: random order
        ([4, 1, 3, 2], 0.5, 0.25, 0.9),  # one first, one last
    ],
)
def test_a_ranking_worked_out_by_hand(scores: list[int], apgr: float, cpt50: float, cpt80: float) -> None:
    curve = gap_curve(scores, WEAK, STRONG)
    assert curve.apgr == pytest.approx(apgr)
    assert curve.cpt(0.5) == pytest.approx(cpt50)
    assert curve.cpt(0.8) == pytest.approx(cpt80)


@pytest.mark.parametrize(
    ("quality", "share"),
    [
        (0.4, 0.0),  # less than the weak model gives
        (0.5, 0.0),  # as much
        (0.75, 0.25),
        (1.0, 0.5),
    ],
)
def test_share_that_keeps_a_quality(quality: float, share: float) -> None:
    curve = gap_curve([4, 3, 2, 1], WEAK, STRONG)  # quality .50 without strong calls, 1 with half of them
    assert (float(curve.weak), float(curve.strong)) == (0.5, 1.0)
    assert curve.share_at(quality) == pytest.approx(share)


def test_several_figures_of_one_curve_have_the_intervals_they_have_alone() -> None:
    scores, weak, strong = [3.0, 1.0, 2.0, 0.0] * 10, WEAK * 10, STRONG * 10
    apgr, half = curve_intervals(
        scores, weak, strong, [lambda curve: curve.apgr, lambda curve: curve.cpt(0.5)], seed=3
    )
    assert apgr == apgr_interval(scores, weak, strong, seed=3)
    assert half.low <= half.value <= half.high


def test_a_bootstrap_of_a_mean() -> None:
    values = np.arange(100.0)
    found = sums_interval(values)
    assert found.value == pytest.approx(49.5)
    assert 42 < found.low < found.value < found.high < 57  # standard error of the mean: 2.9
    assert math.isnan(sums_interval(np.ones(5), np.zeros(5)).low)


def test_prompts_the_strong_model_spoils_let_the_oracle_exceed_one() -> None:
    weak, strong = [0, 0, 1], [1, 1, 0]
    curve = gap_curve([1, 1, -1], weak, strong)
    assert curve.gap.max() == pytest.approx(2.0)
    assert curve.apgr > 1.0


@pytest.mark.parametrize("strong", [[0, 0, 1, 1], [0, 0, 0, 1]])
def test_without_a_better_model_there_is_nothing_to_recover(strong: list[int]) -> None:
    assert math.isnan(gap_curve([4, 3, 2, 1], WEAK, strong).apgr)
    assert math.isnan(gap_curve([4, 3, 2, 1], WEAK, strong).cpt(0.5))


@pytest.mark.parametrize(("scores", "message"), [([1, 2], "2 scores for 4"), ([1, 2, 3, math.nan], "number")])
def test_scores_that_do_not_fit_are_refused(scores: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gap_curve(scores, WEAK, STRONG)


outcomes = st.lists(
    st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=2, max_size=40
).filter(lambda rows: sum(strong - weak for _, weak, strong in rows) > 0)


@given(outcomes)
def test_turning_a_ranking_round_mirrors_its_area(rows: list[tuple[int, bool, bool]]) -> None:
    scores, weak, strong = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    there = gap_curve(scores, weak, strong).apgr
    back = gap_curve(-scores, weak, strong).apgr
    assert there + back == pytest.approx(1.0)


@given(outcomes)
def test_only_the_order_of_scores_counts(rows: list[tuple[int, bool, bool]]) -> None:
    scores, weak, strong = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    stretched = gap_curve(np.exp(scores) * 3 + 1, weak, strong)
    assert stretched.apgr == pytest.approx(gap_curve(scores, weak, strong).apgr)


def test_the_interval_of_a_difference_is_narrower_than_the_intervals_suggest() -> None:
    generator = np.random.default_rng(1)
    hidden = generator.normal(size=600)
    weak = (hidden + generator.normal(size=600) < 0).astype(float)
    strong = np.ones(600)
    good = hidden + 0.5 * generator.normal(size=600)
    better = hidden + 0.3 * (good - hidden)
    one, two = apgr_interval(better, weak, strong), apgr_interval(good, weak, strong)
    more = difference_interval(better, good, weak, strong)
    assert more.value == pytest.approx(one.value - two.value)
    assert 0 < more.low < more.value < more.high
    assert one.low < two.high, "taken one by one the two could not be told apart"
    assert difference_interval(good, good, weak, strong).high == 0


def test_intervals_repeat_with_the_same_seed() -> None:
    scores, weak, strong = [3.0, 1.0, 2.0, 0.0] * 10, WEAK * 10, STRONG * 10
    assert apgr_interval(scores, weak, strong, seed=5) == apgr_interval(scores, weak, strong, seed=5)
    assert apgr_interval(scores, weak, strong, seed=5) != apgr_interval(scores, weak, strong, seed=6)


@pytest.mark.parametrize(
    ("probabilities", "outcomes", "error"),
    [
        ([0.25] * 40, [1, 0, 0, 0] * 10, 0.0),
        ([0.75] * 40, [1, 0, 0, 0] * 10, 0.5),
        ([0.0] * 20 + [1.0] * 20, [0] * 20 + [1] * 20, 0.0),
        ([1.0] * 20 + [0.0] * 20, [0] * 20 + [1] * 20, 1.0),
    ],
)
def test_calibration_error(probabilities: list[float], outcomes: list[int], error: float) -> None:
    assert calibration_error(probabilities, outcomes, bins=2) == pytest.approx(error)


def test_equal_predictions_share_a_bin_in_whatever_order_the_rows_stand() -> None:
    """A file sorted by outcome is no worse predicted than the same file shuffled."""
    half = [0.5] * 60
    assert calibration_error(half, [1] * 30 + [0] * 30) == pytest.approx(0.0)
    assert calibration_error(half, [1, 0] * 30) == pytest.approx(0.0)
    # two kinds of prompts: |.2 - 1/3| and |.8 - 1| weighted by 30 and 10
    assert calibration_error([0.2] * 30 + [0.8] * 10, [1] * 10 + [0] * 20 + [1] * 10) == pytest.approx(0.15)


@pytest.mark.parametrize("count", [60, 400, 3_000])
def test_the_interval_of_a_calibration_error_holds_its_value_and_the_truth(count: int) -> None:
    generator = np.random.default_rng(count)
    held = 0
    for seed in range(20):
        predicted = generator.uniform(0.1, 0.9, count)
        happened = generator.random(count) < predicted
        found = calibration_interval(predicted, happened, seed=seed, resamples=200)
        assert found.value == pytest.approx(calibration_error(predicted, happened))
        assert found.low <= found.value <= found.high
        held += found.low == 0.0
    assert held >= 18, "a perfect predictor's true error is zero"


def test_a_predictor_that_is_wrong_by_a_fifth_is_shown_to_be_wrong() -> None:
    generator = np.random.default_rng(0)
    truth = generator.uniform(0.3, 0.9, 2_000)
    found = calibration_interval(truth - 0.2, generator.random(2_000) < truth)
    assert 0.1 < found.low < 0.2 < found.high < 0.3


def test_copies_drawn_together_give_the_interval_of_one_copy() -> None:
    generator = np.random.default_rng(2)
    scores, weak = generator.normal(size=80), generator.random(80) < 0.5
    strong = np.ones(80)
    once = apgr_interval(scores, weak, strong)
    five = [np.tile(column, 5) for column in (scores, weak, strong)]
    together = apgr_interval(*five, together=np.tile(np.arange(80), 5))
    assert (together.low, together.high) == pytest.approx((once.low, once.high))
    alone = apgr_interval(*five)
    assert alone.high - alone.low < 0.6 * (once.high - once.low), "five times the evidence there is"
    other = generator.normal(size=80)
    difference = difference_interval(scores, other, weak, strong)
    again = difference_interval(
        five[0], np.tile(other, 5), five[1], five[2], together=np.tile(np.arange(80), 5)
    )
    assert (again.low, again.high) == pytest.approx((difference.low, difference.high))
    mean = sums_interval(scores)
    copied = sums_interval(np.tile(scores, 5), together=np.tile(np.arange(80), 5))
    assert (copied.low, copied.high) == pytest.approx((mean.low, mean.high))


def test_a_prompt_that_counts_twice_is_a_prompt_that_is_there_twice() -> None:
    scores, weak, strong = [3.0, 2.0, 1.0], [0, 1, 0], [1, 1, 1]
    weighted = gap_curve(scores, weak, strong, weights=np.array([2.0, 1.0, 1.0]))
    repeated = gap_curve([3.0, *scores], [0, *weak], [1, *strong])
    assert weighted.apgr == pytest.approx(repeated.apgr)


def test_pairs_that_do_not_differ_still_have_an_interval_with_a_width() -> None:
    none = np.zeros(100)
    assert paired_bounds(none) == pytest.approx(paired_interval(0, 0, 100))
    assert -0.04 < paired_bounds(none)[0] < -0.03
    sessions = np.repeat(np.arange(10), 10)
    assert paired_bounds(none, together=sessions) == pytest.approx(paired_interval(0, 0, 10))
    half = np.arange(100) < 50
    low, _ = paired_interval(0, 0, 50)
    assert paired_bounds(none, moved=half)[0] == pytest.approx(low / 2), "the others cannot differ"
    assert paired_bounds(none, moved=~half & half) == (0, 0), "two that are one and the same"


def test_rows_of_a_session_count_as_many_as_they_are_unlike() -> None:
    sessions = np.repeat(np.arange(100), 20)
    whole = np.repeat(np.arange(100) % 10 == 0, 20).astype(np.float64)
    single = (np.random.default_rng(0).random(2_000) < 0.1).astype(np.float64)
    assert independent_count(whole, sessions) == pytest.approx(100, rel=0.01)
    assert 400 < independent_count(single, sessions) < 2_000
    assert independent_count(single, np.arange(2_000)) == 2_000


@pytest.mark.parametrize("difference", [-0.9, -0.3, -0.05, 0.0, 0.2, 0.7])
@pytest.mark.parametrize(
    "stratum", [Stratum(3, 10, 4, 7), Stratum(5, 5, 2, 2), Stratum(0, 3, 40, 40), Stratum(1, 1, 0, 1)]
)
def test_the_variance_of_a_stratum_is_that_of_its_likeliest_shares(
    stratum: Stratum, difference: float
) -> None:
    def likelihood(share: float) -> float:
        first, other = min(max(share - difference, 1e-12), 1 - 1e-12), min(max(share, 1e-12), 1 - 1e-12)
        misses, other_misses = stratum.total - stratum.hits, stratum.other_total - stratum.other_hits
        return (
            stratum.hits * math.log(first) + misses * math.log(1 - first)
            + stratum.other_hits * math.log(other) + other_misses * math.log(1 - other)
        )  # fmt: skip

    low, high = max(0.0, difference), min(1.0, 1 + difference)
    likely = max((low + (high - low) * at / 20_000 for at in range(20_001)), key=likelihood)
    both, first = stratum.total + stratum.other_total, likely - difference
    spread = likely * (1 - likely) / stratum.other_total + first * (1 - first) / stratum.total
    assert stratum.variance(difference) == pytest.approx(spread * both / (both - 1), abs=1e-4)


@pytest.mark.parametrize(
    ("strata", "difference"),
    [
        # weights 120/22, 1 and 3/4 of the differences 0.15, 1/2 and 1/3
        ([Stratum(6, 10, 9, 12), Stratum(1, 2, 2, 2), Stratum(0, 1, 1, 3)], 0.217666),
        ([Stratum(6, 10, 9, 12), *[Stratum(1, 2, 2, 2)] * 2, Stratum(0, 1, 1, 3)], 0.252078),
        ([Stratum(1, 2, 2, 2)], 0.5),
    ],
)
def test_an_interval_over_strata_holds_what_the_score_does_not_reject(
    strata: list[Stratum], difference: float
) -> None:
    seen, low, high = stratified_interval(strata)
    assert seen == pytest.approx(difference, abs=1e-6)
    assert low < seen < high
    for end in (low, high):
        weight = sum(each.weight for each in strata)
        variance = sum(each.weight**2 * each.variance(end) for each in strata)
        assert abs(seen - end) * weight / math.sqrt(variance) == pytest.approx(Z, abs=1e-5)


def test_strata_without_misses_differ_by_nothing() -> None:
    assert stratified_interval([Stratum(9, 9, 9, 9)])[0] == 0.0
