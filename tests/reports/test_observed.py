"""Means of labels with intervals, and costs, by model."""

import pytest

from pointsman.reports.quality import observed
from pointsman.stores.ledger.reading import DecisionRow


def _row(model: str, score: float | None, cost: float | None = None, result: str = "counted") -> DecisionRow:
    return DecisionRow(
        id="d", at=0.0, session="", caller="", role="", tier="", model=model, result=result, status=200,  # type: ignore[arg-type]
        attempts=1, domains=(), signals=(), stuck=False, downgraded=False, abstained=False, label="",
        score=score, labelled=True, cost=cost,
    )  # fmt: skip


def test_models_are_listed_by_cost() -> None:
    found = observed(
        [_row("dear", 1.0, 0.01), _row("cheap", 0.5, 0.001), _row("free", 0.0), _row("cheap", 1.0, 0.003)]
    )
    assert [point.name for point in found.models] == ["cheap", "dear", "free"]
    assert [point.cost for point in found.models] == [pytest.approx(2.0), pytest.approx(10.0), None]
    assert found.point is not None
    assert (found.point.labels, found.point.score, found.point.priced) == (4, 0.625, 3)


def test_what_has_no_score_or_no_answer_is_left_out() -> None:
    assert observed([_row("a", None), _row("a", 1.0, result="no_answer")]).point is None


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        ([1.0], 0.0, 1.0),  # one label tells nothing
        ([1.0] * 1_000, 0.997, 1.0),
        ([0.0, 1.0] * 50, 0.40, 0.60),
    ],
)
def test_the_interval_has_the_width_that_labels_allow(scores: list[float], low: float, high: float) -> None:
    point = observed([_row("a", score) for score in scores]).point
    assert point is not None
    assert [point.low, point.high] == pytest.approx([low, high], abs=0.01)
    assert point.enough is (len(scores) >= 30)
