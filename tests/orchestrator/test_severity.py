"""What an exception means for the run: the seed's table, and classifications that survive the state."""

import pytest

from pointsman.errors import MissingExtra, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.orchestrator.machine import ClassifiedError, ErrorClassification, ErrorSeverity, classify_error


@pytest.mark.parametrize(
    ("error", "severity"),
    [
        (ConnectionError("reset"), ErrorSeverity.RETRIABLE),
        (TimeoutError(), ErrorSeverity.RETRIABLE),
        (UpstreamTimeout("late"), ErrorSeverity.RETRIABLE),
        (UpstreamUnavailable("down"), ErrorSeverity.RETRIABLE),
        (UpstreamError("400: bad request"), ErrorSeverity.CRITICAL),
        (ValueError("bad"), ErrorSeverity.CRITICAL),
        (TypeError("bad"), ErrorSeverity.CRITICAL),
        (KeyError("bad"), ErrorSeverity.CRITICAL),
        (MissingExtra("static", needed_for="x"), ErrorSeverity.CRITICAL),
        (RuntimeError("?"), ErrorSeverity.CRITICAL),
        (ClassifiedError(ErrorSeverity.REPLANNING, "no"), ErrorSeverity.REPLANNING),
    ],
)
def test_exceptions(error: Exception, severity: ErrorSeverity) -> None:
    assert classify_error(error, {"node": "classifier"}).severity is severity


def test_details_never_reach_the_person() -> None:
    found = classify_error(RuntimeError("secret path /etc"), {"node": "weather"})
    assert "secret" not in found.user_message
    assert "secret" in found.technical_details


@pytest.mark.parametrize("severity", list(ErrorSeverity))
def test_a_classification_survives_the_state(severity: ErrorSeverity) -> None:
    given = ErrorClassification(severity, "told", "details")
    assert ErrorClassification.from_state(given.to_state()) == given
    assert ErrorClassification.from_state(given) is given


@pytest.mark.parametrize("value", [None, "retriable", {}, {"severity": "mild"}])
def test_what_is_no_classification_is_none(value: object) -> None:
    assert ErrorClassification.from_state(value) is None


def test_a_severitys_name_is_enough_and_another_is_refused() -> None:
    assert ErrorClassification("fatal").severity is ErrorSeverity.FATAL  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mild"):
        ErrorClassification("mild")  # type: ignore[arg-type]
