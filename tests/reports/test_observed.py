"""Means of labels with intervals, and costs, by model."""

import random
from itertools import count
from math import comb

import pytest

from pointsman.reports.quality import Observed, observed
from pointsman.stores.ledger.reading import DecisionRow
from pointsman.vocabulary import ModelSpec

_NUMBERS = count()


def _row(
    model: str, score: float | None, cost: float | None = None, result: str = "counted", session: str = ""
) -> DecisionRow:
    return DecisionRow(
        id=f"d{next(_NUMBERS)}", at=0.0, session=session, caller="", role="", tier="", model=model,
        result=result, status=200,  # type: ignore[arg-type]
        attempts=1, domains=(), signals=(), stuck=False, downgraded=False, abstained=False, label="",
        score=score, labelled=True, output=round((cost or 0.0) * 1e6),
    )  # fmt: skip


def seen_in(rows: list[DecisionRow]) -> Observed:
    """What labels say at a dollar for a million tokens, with "free" alone without a price."""
    one = ModelSpec("", "up", "", input_per_million=1.0, output_per_million=1.0)
    return observed(rows, {"cheap": one, "dear": one})


def test_models_are_listed_by_cost() -> None:
    found = seen_in(
        [_row("dear", 1.0, 0.01), _row("cheap", 0.5, 0.001), _row("free", 0.0), _row("cheap", 1.0, 0.003)]
    )
    assert [point.name for point in found.models] == ["cheap", "dear", "free"]
    assert [point.cost for point in found.models] == [pytest.approx(2.0), pytest.approx(10.0), None]
    assert found.point is not None
    assert (found.point.labels, found.point.score, found.point.priced) == (4, 0.625, 3)


def test_what_has_no_score_or_no_answer_is_left_out() -> None:
    assert seen_in([_row("a", None), _row("a", 1.0, result="no_answer")]).point is None


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([1.0], 0.0, 1.0),  # one label tells nothing
        ([1.0] * 1_000, 0.997, 1.0),
        ([0.0, 1.0] * 50, 0.40, 0.60),
    ],
)
def test_the_interval_has_the_width_that_labels_allow(scores: list[float], low: float, high: float) -> None:
    point = seen_in([_row("a", score) for score in scores]).point
    assert point is not None
    assert [point.low, point.high] == pytest.approx([low, high], abs=0.01)
    assert point.enough is (len(scores) >= 30)


def test_labels_of_a_session_that_are_alike_count_as_one() -> None:
    whole = seen_in([_row("a", float(at % 2), session=f"s{at}") for at in range(10) for _ in range(20)]).point
    ten = seen_in([_row("a", float(at % 2)) for at in range(10)]).point
    assert whole is not None
    assert ten is not None
    assert (whole.low, whole.high) == pytest.approx((ten.low, ten.high))
    equal = seen_in([_row("a", 1.0, session=f"s{at}") for at in range(10) for _ in range(20)]).point
    none = seen_in([_row("a", 1.0) for _ in range(10)]).point
    assert equal is not None
    assert none is not None
    assert equal.low < 0.85
    assert equal.low == pytest.approx(none.low), "as much as ten labels without a failure"
    mixed = [_row("a", float(label % 2), session=f"s{at}") for at in range(10) for label in range(20)]
    assert (found := seen_in(mixed).point) is not None
    assert whole.high - whole.low > found.high - found.low, "labels that are not alike say more"


@pytest.mark.parametrize(("labels", "share"), [(100, 0.98), (39, 0.94), (12, 0.8), (12, 0.95), (200, 0.99)])
def test_the_interval_holds_the_share_as_often_as_it_says(labels: int, share: float) -> None:
    """Exact, over all numbers of good answers; two standard errors around the mean held .867, .909, .912."""
    held = 0.0
    for good in range(labels + 1):
        point = seen_in([_row("a", float(at < good)) for at in range(labels)]).point
        assert point is not None
        assert 0.0 <= point.low <= point.score <= point.high <= 1.0
        chance = comb(labels, good) * share**good * (1 - share) ** (labels - good)
        held += chance * (point.low <= share <= point.high)
    assert held > 0.948


def test_the_interval_holds_the_share_where_sessions_have_several_labels() -> None:
    """500 times 30 sessions of one to seven labels, half of whose variance is between sessions."""
    draw, held = random.Random(1), 0
    for _ in range(500):
        rows: list[DecisionRow] = []
        for session in range(30):
            chance = draw.betavariate(0.94, 0.06)
            scores = [float(draw.random() < chance) for _ in range(draw.randint(1, 7))]
            rows.extend(_row("a", score, session=f"s{session}") for score in scores)
        point = seen_in(rows).point
        assert point is not None
        held += point.low <= 0.94 <= point.high
    assert held >= 470


def test_twelve_good_labels_allow_one_in_four_to_be_bad() -> None:
    point = seen_in([_row("a", 1.0) for _ in range(12)]).point
    assert point is not None
    assert point.low == pytest.approx(0.741, abs=0.001)
    assert point.high == 1.0
