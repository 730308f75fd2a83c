"""An investigation replayed: the four conditions set on the session that motivated the specification."""

import pytest

from pointsman.domains import DomainDecision, DomainMemory, DomainTracker
from pointsman.evidence import Scanner

INVESTIGATION = [
    ("Investigate Oracle Corporation's credit risk for our lending committee.", "compound no"),
    ("Start with the 10-K filings on EDGAR; query the API for the latest one.", "compound"),
    ("Who are the largest shareholders? Use the same endpoint.", "compound"),
    ("ls -la data/", "held"),
    ("cat data/oracle_10k.json", "held"),
    ("yes, go ahead", "quiet"),
    ("pip install requests", "held"),
    ("Now fetch the debt maturities and bond issuances through the API.", "compound"),
    ("thanks", "quiet"),
    ("The request needs an api key, put it in the header.", "compound"),
    ("Cross-check the covenants against the press releases.", "compound"),
    ("The API call timed out, what now?", "tie"),
    ("continue", "quiet"),
    ("git status", "held"),
    ("Look into the lawsuits its subsidiaries are in.", "any"),
    ("ok, and what is missing?", "quiet"),
]


@pytest.fixture
def decisions(tracker: DomainTracker, scanner: Scanner) -> list[DomainDecision]:
    memory, decisions = DomainMemory(), []
    for number, (message, _) in enumerate(INVESTIGATION):
        decision, memory = tracker.decide(scanner.scan(message), memory, str(number))
        decisions.append(decision)
    return decisions


def test_the_domain_can_be_asked_for_before_deciding(tracker: DomainTracker, scanner: Scanner) -> None:
    memory = DomainMemory()
    for number, (message, _) in enumerate(INVESTIGATION):
        evidence = scanner.scan(message)
        before = tracker.primary(evidence, memory, str(number))
        decision, memory = tracker.decide(evidence, memory, str(number))
        assert before == decision.effective.domains[0] == tracker.primary(evidence, memory, str(number))


def turns(decisions: list[DomainDecision], kind: str) -> list[DomainDecision]:
    found = [d for d, (_, expected) in zip(decisions, INVESTIGATION, strict=True) if expected == kind]
    assert found
    return found


def test_condition_1_the_investigation_stays_primary_on_every_turn(decisions: list[DomainDecision]) -> None:
    assert len(decisions) >= 12
    assert {decision.effective.primary.domain for decision in decisions} == {"investigation"}


def test_condition_2_research_through_an_api_is_compound(decisions: list[DomainDecision]) -> None:
    assert {decision.signature for decision in turns(decisions, "compound")} == {"coding+investigation"}


def test_condition_3_chores_do_not_break_it(decisions: list[DomainDecision]) -> None:
    for decision in turns(decisions, "held"):
        assert decision.raw.primary.domain in {"file_ops", "system_admin", "git_ops"}
        assert decision.rule == "R1a"
    for decision in turns(decisions, "quiet"):
        assert decision.rule == "R0"


def test_a_side_remark_that_only_ties_does_not_break_it_either(decisions: list[DomainDecision]) -> None:
    (tie,) = turns(decisions, "tie")
    assert tie.raw.domains == ("bugfix", "coding")
    assert tie.rule == "R4b"


def test_condition_4_the_guidance_is_that_of_an_investigation(decisions: list[DomainDecision]) -> None:
    for decision in decisions:
        assert decision.enrichment.startswith("[BST] Domain: investigation\n")
        assert "Work as a careful programmer" not in decision.enrichment
