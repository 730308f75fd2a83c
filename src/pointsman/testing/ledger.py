"""Contract checks of every ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from pointsman.agreement import Compared, Result
from pointsman.decision.diff import Verdict
from pointsman.errors import CallerError, StoreUnavailable, TooManyOutcomes, UnknownDecision
from pointsman.stores.ledger import (
    Attempt,
    ComparedAnswers,
    Ledger,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PolicyUse,
    PromptText,
    RunEntry,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger.outcome_reports import MAX_OUTCOMES
from pointsman.testing.ledger_summaries import SUMMARY_CHECKS, a_decision
from pointsman.vocabulary import AgentRole, Tier
from pointsman.wire.format import CompletionSummary

__all__ = ["a_decision", "a_run_entry", "an_attempt", "ledger_checks"]


def an_attempt(decision_id: str, number: int = 1) -> Attempt:
    """Return one try of one model."""
    return Attempt(
        decision=decision_id,
        number=number,
        model="large",
        upstream="main",
        status=200,
        started_at=1.5,
        first_byte_ms=20.0,
        total_ms=40.0,
        input_tokens=10,
    )


def a_run_entry(run: str, number: int = 1, *, session: str = "s", at: float = 1.5) -> RunEntry:
    """Return one step of an agent's run."""
    return RunEntry(
        run=run,
        number=number,
        session=session,
        at=at,
        kind="selection",
        node="classifier",
        code="capabilities.selected",
        detail="1 selected",
        delay=0.5,
        selected=("weather",),
        scores={"weather": 0.9},
        asked_model=("weather",),
        abstained="unavailable: timeout",
    )


def ledger_checks() -> Iterator[Callable[[Ledger], None]]:
    """Yield checks; each wants a new, empty ledger with text mode ``off``."""
    yield from (
        _nothing_is_there_at_first,
        _everything_comes_back_as_it_was,
        _what_was_appended_is_seen_without_flushing,
        _a_decision_is_of_its_caller,
        _an_outcome_is_taken_from_the_caller_of_the_decision,
        _what_was_made_belongs_to_who_made_it_first,
        _decisions_come_by_time,
        _decisions_of_one_session,
        _sub_agents_belong_to_their_session,
        _many_decisions_come_once_each,
        _records_hold_what_belongs_together,
        _a_decision_said_twice_is_the_last_one,
        _text_is_kept_only_when_asked_for,
        _an_outcome_of_a_new_decision_is_taken,
        _an_outcome_of_an_unknown_decision_is_refused,
        _a_decision_takes_so_many_outcomes,
        _outcomes_are_counted_across_writes,
        _what_cannot_be_kept_is_counted,
        _policies_are_kept_once_with_when_they_decided,
        _requests_passed_on_come_newest_first,
        _runs_come_newest_first_each_in_order,
        _an_entry_said_twice_is_one,
        _closing_twice_does_no_harm,
        *SUMMARY_CHECKS,
    )


def _policies_are_kept_once_with_when_they_decided(ledger: Ledger) -> None:
    assert (ledger.policies(), ledger.policy("p1")) == ((), None)
    ledger.append(PolicyText(version="p1", text="[tiers]"))
    for name, at, policy in (("a", 5.0, "p1"), ("b", 3.0, "p2"), ("c", 9.0, "p1"), ("d", 4.0, "p2")):
        ledger.append(replace(a_decision(name, at=at), policy=policy))
    ledger.append(PolicyText(version="p3", text="of one that decides nothing"))
    assert ledger.policies() == (
        PolicyUse(version="p1", first=5.0, last=9.0, decisions=2, has_text=True),
        PolicyUse(version="p2", first=3.0, last=4.0, decisions=2, has_text=False),
    )
    assert (ledger.policy("p1"), ledger.policy("p2")) == ("[tiers]", None)


def _requests_passed_on_come_newest_first(ledger: Ledger) -> None:
    assert list(ledger.passed()) == []
    rows = [
        PassedRequest(id=f"p{number}", at=float(number), upstream="main", method="GET", path="/v1/files")
        for number in range(1_234)
    ]
    for row in rows:
        ledger.append(row)
    assert list(ledger.passed(limit=None)) == rows[::-1]
    assert list(ledger.passed()) == rows[:-101:-1]
    assert list(ledger.passed(limit=0)) == []
    assert list(ledger.passed(limit=700, newest_first=False)) == rows[:700]
    assert (ledger.count(), ledger.lost) == (0, 0)


def _runs_come_newest_first_each_in_order(ledger: Ledger) -> None:
    assert (list(ledger.runs()), ledger.run("r1")) == ([], ())
    runs = [
        tuple(a_run_entry(f"r{run}", number, session=f"s{run % 2}") for number in (1, 2, 3))
        for run in range(600)
    ]
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        for entry in (first[0], second[0], second[2], first[1], second[1], first[2]):
            ledger.append(entry)
    assert ledger.run("r1") == runs[1]
    assert list(ledger.runs(limit=None)) == runs[::-1]
    assert list(ledger.runs()) == runs[:-101:-1]
    assert list(ledger.runs(session="s1", limit=2)) == [runs[599], runs[597]]
    assert list(ledger.runs(limit=0)) == []
    assert list(ledger.runs(limit=None, newest_first=False)) == runs
    assert (ledger.count(), ledger.lost, list(ledger.records())) == (0, 0, [])


def _an_entry_said_twice_is_one(ledger: Ledger) -> None:
    for entry in (a_run_entry("r", 1), a_run_entry("r", 2), a_run_entry("r", 2), a_run_entry("r", 3)):
        ledger.append(entry)
    ledger.flush()
    ledger.append(a_run_entry("r", 1))
    assert [entry.number for entry in ledger.run("r")] == [1, 2, 3]


def _nothing_is_there_at_first(ledger: Ledger) -> None:
    assert ledger.get("d") is None
    assert (ledger.attempts("d"), ledger.outcomes("d"), ledger.shadows("d")) == ((), (), ())
    assert ledger.text("d") is None
    assert list(ledger.decisions()) == []
    assert list(ledger.records()) == []
    assert ledger.count() == 0
    assert ledger.lost == 0


def _everything_comes_back_as_it_was(ledger: Ledger) -> None:
    decision = a_decision("d")
    tries = (an_attempt("d", 1), an_attempt("d", 2))
    said = (Outcome(decision="d", score=0.5, label="meh"), Outcome(decision="d", score=1.0, at=2.0))
    beside = (
        ShadowDecision(
            decision="d",
            at=1.0,
            policy="p2",
            verdict=Verdict(tier=Tier.MEDIUM),
            changed=("tier",),
            why=("less",),
        ),
        ShadowAnswer(
            decision="d", at=2.0, model="small", upstream="main", said=CompletionSummary("stop", ("edit",))
        ),
        ComparedAnswers(
            decision="d",
            at=3.0,
            rule="tools",
            cheap=("a", "b"),
            result=Result.AGREED,
            compared=Compared.CALLS,
        ),
    )
    for entry in (decision, tries[1], tries[0], *said, *beside, an_attempt("other")):
        ledger.append(entry)
    ledger.flush()
    assert ledger.get("d") == decision
    assert ledger.attempts("d") == tries
    assert ledger.outcomes("d") == said
    assert ledger.shadows("d") == beside
    assert ledger.get("other") is None
    assert ledger.lost == 0


def _what_was_appended_is_seen_without_flushing(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    assert ledger.get("d") is not None


def _decisions_come_by_time(ledger: Ledger) -> None:
    for decision_id, at in (("b", 2.0), ("a", 1.0), ("c", 3.0), ("c2", 3.0)):
        ledger.append(a_decision(decision_id, at=at))
    assert [d.id for d in ledger.decisions()] == ["c2", "c", "b", "a"]
    assert [d.id for d in ledger.decisions(newest_first=False)] == ["a", "b", "c", "c2"]
    assert [d.id for d in ledger.decisions(limit=2)] == ["c2", "c"]
    assert list(ledger.decisions(limit=0)) == []


def _decisions_of_one_session(ledger: Ledger) -> None:
    for number in range(6):
        ledger.append(a_decision(f"d{number}", at=float(number), session=f"s{number % 2}"))
    assert [d.id for d in ledger.decisions(session="s1")] == ["d5", "d3", "d1"]
    assert [d.id for d in ledger.decisions(session="s1", newest_first=False, limit=1)] == ["d1"]
    assert list(ledger.decisions(session="s9")) == []


def _sub_agents_belong_to_their_session(ledger: Ledger) -> None:
    sessions = ["s", "s:one", "s:chosen", "s;", "t:one", "s:two"]
    for number, session in enumerate(sessions):
        role = None if session == "s:chosen" else AgentRole.SUBAGENT
        made = a_decision(f"d{number}", at=float(number), session=session)
        ledger.append(replace(made, input=replace(made.input, role=role)))
    assert [d.id for d in ledger.decisions(session="s")] == ["d5", "d1", "d0"]
    assert [d.id for d in ledger.decisions(session="s", limit=2)] == ["d5", "d1"]
    assert [d.id for d in ledger.decisions(session="s", newest_first=False, limit=2)] == ["d0", "d1"]
    assert [d.id for d in ledger.decisions(session="s:one")] == ["d1"]
    assert [record.decision.id for record in ledger.records(session="s")] == ["d0", "d1", "d5"]


def _many_decisions_come_once_each(ledger: Ledger) -> None:
    ids = [f"d{number:04}" for number in range(1_234)]
    for number, decision_id in enumerate(ids):
        ledger.append(a_decision(decision_id, at=number // 100))
    assert [d.id for d in ledger.decisions(limit=None, newest_first=False)] == ids
    assert [d.id for d in ledger.decisions(limit=None)] == ids[::-1]
    assert [d.id for d in ledger.decisions(limit=700)] == ids[:-701:-1]


def _records_hold_what_belongs_together(ledger: Ledger) -> None:
    ids = [f"d{number:03}" for number in range(611)]
    for number, decision_id in enumerate(ids):
        ledger.append(Outcome(decision=decision_id, label="first"))
        ledger.append(a_decision(decision_id, at=float(number), session=f"s{number % 2}"))
        ledger.append(an_attempt(decision_id, 2))
        ledger.append(an_attempt(decision_id, 1))
        ledger.append(Outcome(decision=decision_id, label="last"))
        ledger.append(ShadowDecision(decision=decision_id, at=float(number), policy="p2"))
    found = list(ledger.records())
    assert [record.decision.id for record in found] == ids
    for record in found:
        wanted = record.decision.id
        assert record.attempts == ledger.attempts(wanted)
        assert record.outcomes == ledger.outcomes(wanted)
        assert record.shadows == ledger.shadows(wanted) != ()
        assert record.text is None
    assert [record.decision.id for record in ledger.records(limit=2, session="s1")] == ["d001", "d003"]
    assert ledger.count() == len(ids)


def _a_decision_said_twice_is_the_last_one(ledger: Ledger) -> None:
    ledger.append(a_decision("d", session="first"))
    ledger.append(a_decision("d", session="last"))
    assert [d.input.session for d in ledger.decisions()] == ["last"]


def _text_is_kept_only_when_asked_for(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    ledger.append(PromptText(decision="d", text="canary"))
    assert ledger.text("d") is None
    assert ledger.lost == 0


def _an_outcome_of_a_new_decision_is_taken(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    first, second = Outcome(decision="d", score=0.5, at=1.0), Outcome(decision="d", label="late", at=2.0)
    ledger.add_outcome(first)  # the decision may still wait to be written
    ledger.flush()
    ledger.add_outcome(second)
    assert ledger.outcomes("d") == (first, second)
    assert ledger.lost == 0


def _an_outcome_of_an_unknown_decision_is_refused(ledger: Ledger) -> None:
    ledger.append(an_attempt("tried"))  # an attempt makes no decision
    for unknown in ("none", "tried"):
        refused = _refused(ledger, Outcome(decision=unknown, score=1.0))
        assert isinstance(refused, UnknownDecision)
        assert refused.status == 404
        assert ledger.outcomes(unknown) == ()
    assert ledger.lost == 0


def _a_decision_takes_so_many_outcomes(ledger: Ledger) -> None:
    for decision_id in ("d", "e"):
        ledger.append(a_decision(decision_id))
    for number in range(MAX_OUTCOMES):
        ledger.add_outcome(Outcome(decision="d", score=1.0, at=float(number)))
    refused = _refused(ledger, Outcome(decision="d", score=1.0))
    assert isinstance(refused, TooManyOutcomes)
    assert refused.status == 409
    assert str(MAX_OUTCOMES) in refused.message
    ledger.add_outcome(Outcome(decision="e", score=1.0))
    assert (len(ledger.outcomes("d")), len(ledger.outcomes("e"))) == (MAX_OUTCOMES, 1)
    assert ledger.lost == 0


def _outcomes_are_counted_across_writes(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    for number in range(MAX_OUTCOMES - 1):
        ledger.append(Outcome(decision="d", label="derived", at=float(number)))
    ledger.flush()
    ledger.add_outcome(Outcome(decision="d", score=1.0))
    ledger.flush()
    assert isinstance(_refused(ledger, Outcome(decision="d", score=1.0)), TooManyOutcomes)
    assert len(ledger.outcomes("d")) == MAX_OUTCOMES


def _a_decision_is_of_its_caller(ledger: Ledger) -> None:
    ledger.append(a_decision("d", caller="alice"))
    ledger.append(a_decision("e"))
    assert ledger.get("d", caller="alice") == ledger.get("d") == a_decision("d", caller="alice")
    assert ledger.get("d", caller="bob") is None
    assert ledger.get("e", caller="alice") is None
    assert ledger.get("e") is not None
    ledger.append(a_decision("d", caller="bob"))
    assert ledger.get("d", caller="alice") is None


def _an_outcome_is_taken_from_the_caller_of_the_decision(ledger: Ledger) -> None:
    ledger.append(a_decision("d", caller="alice"))
    outcome = Outcome(decision="d", score=1.0)
    for _ in ("waiting", "written"):
        assert isinstance(_refused(ledger, outcome, "bob"), UnknownDecision)
        assert _refused(ledger, outcome, "alice") is None
        assert _refused(ledger, outcome) is None
        ledger.flush()
    assert ledger.outcomes("d") == (outcome,) * 4


def _what_was_made_belongs_to_who_made_it_first(ledger: Ledger) -> None:
    assert ledger.owner("o") is None
    for caller in ("alice", "bob", "alice"):
        ledger.append(Owner(object="o", caller=caller, at=1.0))
    ledger.append(Owner(object="p", caller="bob", at=2.0))
    ledger.flush()
    ledger.append(Owner(object="p", caller="alice", at=3.0))
    assert (ledger.owner("o"), ledger.owner("p"), ledger.owner("q")) == ("alice", "bob", None)
    assert list(ledger.owners()) == [
        Owner(object="o", caller="alice", at=1.0),
        Owner(object="p", caller="bob", at=2.0),
    ]
    assert ledger.lost == 0


def _refused(ledger: Ledger, outcome: Outcome, caller: str = "") -> CallerError | None:
    """Return the error with which an outcome was refused."""
    try:
        ledger.add_outcome(outcome, caller=caller)
    except CallerError as error:
        return error
    return None


def _what_cannot_be_kept_is_counted(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    ledger.close()
    before = ledger.lost
    ledger.append(a_decision("late"))
    assert ledger.lost == before + 1
    try:
        ledger.add_outcome(Outcome(decision="d", score=1.0))
    except StoreUnavailable:
        pass
    else:
        raise AssertionError("a closed ledger took an outcome")
    assert ledger.get("d") is not None


def _closing_twice_does_no_harm(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    ledger.close()
    ledger.close()
    assert ledger.lost == 0
