"""What attempts cost, on the metrics page: an unknown price is counted apart, never as zero."""

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pointsman.gateway._metrics import Metrics
from pointsman.stores.ledger import Attempt
from pointsman.testing import an_attempt
from pointsman.vocabulary import ModelSpec

MODELS = {
    "large": ModelSpec(
        "large", "up", "l", input_per_million=10.0, output_per_million=20.0, cached_input_per_million=1.0
    ),
    "free": ModelSpec("free", "up", "f", input_per_million=0.0, output_per_million=0.0),
    "local": ModelSpec("local", "up", "x"),
}


def attempt(model: str, tokens_in: int | None, cached: int | None, tokens_out: int | None) -> Attempt:
    return msgspec.structs.replace(
        an_attempt("d1"), model=model, input_tokens=tokens_in, cached_tokens=cached, output_tokens=tokens_out
    )


def shown(metrics: Metrics, name: str) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.page().decode())
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return {sample.labels["model"]: sample.value for sample in samples}


def counted(metrics: Metrics, name: str) -> dict[str, float]:
    """What is shown at 0 from the start is left out."""
    return {model: value for model, value in shown(metrics, name).items() if value}


def test_costs_are_added_up_and_unknown_ones_counted() -> None:
    metrics = Metrics()
    metrics.price(MODELS)
    for each in (
        attempt("large", 1_000_000, 400_000, 100_000),
        attempt("large", 100_000, None, 0),
        attempt("large", None, None, None),  # usage unknown
        attempt("local", 5, None, None),
        attempt("free", 1_000_000, None, 5),
        attempt("local", 1_000_000, None, 5),
        attempt("gone", 1, None, 1),
    ):
        metrics.seen(each)
    assert shown(metrics, "pointsman_cost_total") == {"large": pytest.approx(9.4), "free": 0.0}
    assert counted(metrics, "pointsman_unpriced_total") == {"local": 1.0, "gone": 1.0}
    assert counted(metrics, "pointsman_unmetered_total") == {"large": 1.0, "local": 1.0}


@pytest.mark.parametrize(
    ("status", "error", "counts"),
    [
        (200, "", True),
        (200, "cut", True),
        (0, "timeout", True),
        (0, "connect", False),
        (429, "status", False),
    ],
)
def test_an_attempt_that_may_have_been_paid_for_is_counted(status: int, error: str, counts: bool) -> None:
    metrics = Metrics()
    metrics.price(MODELS)
    tried = attempt("large", None, None, None)
    metrics.seen(msgspec.structs.replace(tried, status=status, error=error))
    assert counted(metrics, "pointsman_unmetered_total") == ({"large": 1.0} if counts else {})


def test_new_prices_hold_for_what_comes_after_them() -> None:
    metrics = Metrics()
    metrics.price(MODELS)
    metrics.seen(attempt("large", 100_000, None, 0))
    metrics.price({"large": msgspec.structs.replace(MODELS["large"], input_per_million=20.0)})
    metrics.seen(attempt("large", 100_000, None, 0))
    assert counted(metrics, "pointsman_cost_total") == {"large": pytest.approx(1.0 + 2.0)}
