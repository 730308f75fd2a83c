"""The decisions most worth an outcome."""

import msgspec
import pytest

from pointsman.decision.decision import Decision, RequestInput
from pointsman.reports.labels import Queued, queue
from pointsman.stores.ledger import Attempt, Outcome, Record, ShadowAnswer
from pointsman.tiers import TierDecision
from pointsman.tiers.learned_router import LearnedScore, ScoreSource
from pointsman.vocabulary import AgentRole, Reason, Stage, Tier, WireFormat


def record(
    name: str, *, confidence: float = 0.9, code: str = "", status: int = 200, stage: Stage = Stage.RULES,
    outcomes: tuple[Outcome, ...] = (), role: AgentRole | None = None, message: int = 1, at: float = 0.0,
    similarity: float | None = None,
) -> Record:  # fmt: skip
    asked = RequestInput(
        format=WireFormat.CHAT, model_asked="auto", session=name.partition("-")[0], arrived_at=at,
        role=role, user_message=message, project="p-1",
    )  # fmt: skip
    learned = None if similarity is None else LearnedScore(0.5, 0.5, 0.5, similarity, ScoreSource.PRIOR)
    tier = TierDecision(
        Tier.SIMPLE, 0.0, confidence, (), stage, needs_verification=False, reasons=(), learned_router=learned
    )
    attempt = Attempt(
        decision=name, number=1, model="m", upstream="u", status=status, started_at=0.0, total_ms=1.0
    )
    reasons = (Reason(code, "…"),) if code else ()
    decision = Decision(id=name, input=asked, policy="p", tier=tier, chain=("m",), reasons=reasons)
    return Record(decision, (attempt,), outcomes, None)


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (record("a", confidence=0.52), "near a boundary (confidence 0.52)"),
        (record("a", similarity=0.49), "unfamiliar (similarity 0.49)"),
        (record("a", similarity=0.5), ""),
        (record("a", confidence=0.55), ""),
        (record("a", code="guidance.error_streak"), "the agent was in trouble"),
        (record("a", code="escalation.long"), "the agent was in trouble"),
        (record("a", code="projects.explore"), "a cheaper tier was tried"),
        (record("a", code="routing.lower-tier"), "a lower tier served"),
        (record("a"), ""),
        (record("a", confidence=0.52, stage=Stage.FORCED), ""),
        (record("a", confidence=0.52, status=500), ""),
        (record("a", confidence=0.52, role=AgentRole.HELPER), ""),
        (record("a", confidence=0.52, outcomes=(Outcome(decision="a", score=1.0),)), ""),
    ],
)
def test_what_is_queued(kept: Record, why: str) -> None:
    assert [reason for each in queue([kept]) for reason in each.why] == ([why] if why else [])


def test_one_decision_of_a_message_and_the_most_reasons_first() -> None:
    both = record("b-2", confidence=0.52, code="guidance.error_streak")
    found = queue([record("b-1", confidence=0.52), both, record("c", confidence=0.52)])
    assert [each.decision for each in found] == ["b-2", "c"]
    other = msgspec.structs.replace(both.decision.input, user_message=2)
    assert len(queue([both, record("b-1", confidence=0.52, message=other.user_message)])) == 2


def test_a_message_that_was_judged_is_not_asked_about_again() -> None:
    said, derived = (
        Outcome(decision="d-1", score=1.0),
        Outcome(decision="e-1", score=0.0, source="implicit:retry"),
    )
    judged = record("d-1", confidence=0.52, outcomes=(said,))
    assert queue([judged, record("d-2", confidence=0.52)]) == []
    assert [each.decision for each in queue([judged, record("d-2", confidence=0.52, message=2)])] == ["d-2"]
    retried = record("e-1", confidence=0.52, outcomes=(derived,))
    assert queue([retried]) == []
    assert [each.decision for each in queue([retried, record("e-2", confidence=0.52)])] == ["e-2"]


def test_the_newest_message_comes_first_by_its_first_request() -> None:
    found = queue([record("b-2", at=4.0), record("b-1", at=3.0), record("c", at=2.0), record("a", at=1.0)])
    assert found == [
        Queued("b-1", (), "p-1", 3.0), Queued("c", (), "p-1", 2.0), Queued("a", (), "p-1", 1.0),
    ]  # fmt: skip


def test_ordinary_traffic_is_offered_after_what_tells_more() -> None:
    found = queue([record("a", confidence=0.52), record("b"), record("c", code="escalation.long")])
    assert [(each.decision, len(each.why)) for each in found] == [("a", 1), ("c", 1), ("b", 0)]


def test_kept_answers_of_two_models_come_first() -> None:
    """Their labels are what a fit compares, however many reasons speak for others."""
    shadow = ShadowAnswer(decision="b-1", at=0.0, model="x", upstream="u", text="One", beside_text="Two")
    kept = msgspec.structs.replace(record("b-1"), text="Hello!", shadows=(shadow,))
    twice = msgspec.structs.replace(record("a-1", confidence=0.5, code="escalation.long"), text="Hello!")
    of_its_message = msgspec.structs.replace(
        record("b-2", confidence=0.5, code="escalation.long"), text="Hi!"
    )
    found = queue([twice, of_its_message, kept])
    assert [each.decision for each in found] == ["b-1", "a-1"]
    assert found[0].why == ("answers of two models are kept",)
    for model in ("", "x"):
        half = msgspec.structs.replace(kept, outcomes=(Outcome(decision="b-1", score=1.0, model=model),))
        assert [each.why for each in queue([half])] == [("the other answer has no label",)]
    both = tuple(Outcome(decision="b-1", score=1.0, model=model) for model in ("", "x"))
    assert queue([msgspec.structs.replace(kept, outcomes=both)]) == []


def test_decisions_without_words_come_last() -> None:
    """No fit can use their labels, whatever speaks for them."""
    wordless, worded = record("a", confidence=0.51), msgspec.structs.replace(record("b-1"), text="Hello!")
    assert [each.decision for each in queue([wordless, worded])] == ["b-1", "a"]
