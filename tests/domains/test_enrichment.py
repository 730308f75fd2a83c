"""The enrichment plan says what is injected."""

import logging

import pytest

from pointsman.domains import DomainMemory, DomainTracker
from pointsman.domains.enrichment import NO_TEMPLATE
from pointsman.evidence import Scanner


@pytest.mark.parametrize(
    ("message", "switch", "reason"),
    [
        ("thanks, that is all", "primary=OFF", NO_TEMPLATE),  # small talk has no template
        ("fix the pip install error", "primary=ON", None),
    ],
)
def test_a_domain_without_a_template_is_off_in_the_plan_and_in_the_log(
    tracker: DomainTracker,
    scanner: Scanner,
    caplog: pytest.LogCaptureFixture,
    message: str,
    switch: str,
    reason: str | None,
) -> None:
    with caplog.at_level(logging.INFO, "pointsman.domains"):
        decision, _ = tracker.decide(scanner.scan(message), DomainMemory(), "1")
    assert decision.enrichment_plan.reason_primary_skipped == reason
    assert decision.enrichment_plan.primary_enrichment is bool(decision.enrichment)
    assert switch in caplog.text
