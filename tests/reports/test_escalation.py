"""Lengths of own successful runs, and the effect of escalation."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.decision import Decision, RequestInput
from pointsman.reports.escalation import escalations, runs_in
from pointsman.stores.ledger import Attempt, Outcome, Record, SqliteLedger
from pointsman.trajectory import Step
from pointsman.vocabulary import Reason, WireFormat

STEP = Step("t", "a", "r", 1)


def run(
    number: int, calls: int, score: float | None, *, model: str = "small", code: str = ""
) -> list[Record]:
    """A user message and one request for each tool call after it; the outcome is of the last."""
    found = []
    for place in range(calls + 1):
        asked = RequestInput(
            format=WireFormat.CHAT, model_asked="auto", session=f"s{number}", arrived_at=number + place / 100,
            user_message=1, project="p-1", project_name="shop", steps=(STEP,) if place else (),
        )  # fmt: skip
        name = f"d{number}-{place}"
        why = (Reason(code, "…"),) if code and place == calls else ()
        attempt = Attempt(
            decision=name, number=1, model=model, upstream="u", status=200, started_at=0.0, total_ms=1.0
        )
        said = (Outcome(decision=name, score=score),) if score is not None and place == calls else ()
        decision = Decision(id=name, input=asked, policy="p", tier=None, chain=(model,), reasons=why)
        found.append(Record(decision, (attempt,), said, None))
    return found


def runs(*each: list[Record]) -> list[Record]:
    return [record for one in each for record in one]


def test_a_limit_needs_twenty_successes_of_its_source() -> None:
    kept = runs(*(run(n, n % 10, 1.0) for n in range(20)), run(20, 40, 0.0), run(21, 50, None))
    found = runs_in(kept)[0]
    assert (found.source, found.runs, len(found.successes), found.failures) == ("p-1|small", 22, 20, [40])
    assert found.limit(1.0) == 9
    assert found.limit(0.95) == 9
    assert found.limit(1.0, margin=1.5) == 13
    assert runs_in(runs(*(run(n, 3, 1.0) for n in range(19))))[0].limit(1.0) is None
    assert len(runs_in(runs(run(0, 1, 1.0), run(1, 1, 1.0, model="large")))) == 2


def test_a_raised_run_says_nothing_of_the_model_that_began_it() -> None:
    assert runs_in(run(0, 5, 1.0, code="escalation.long")) == []
    assert runs_in(run(0, 5, 1.0, code="escalation.withheld"))[0].successes == [5]


def test_the_sign_that_the_tier_was_raised_is_no_failure_of_the_run() -> None:
    raised = run(0, 3, 1.0, code="escalation.stuck")
    signs = (Outcome(decision="d0-2", score=0.0, label="escalation", source="implicit:escalation"),)
    raised[2] = msgspec.structs.replace(raised[2], outcomes=signs)
    found = escalations(raised)
    assert (found.treated, found.treated_said, found.treated_good) == (1, 1, 1)
    again = run(1, 3, None, code="escalation.stuck")
    again[2] = msgspec.structs.replace(
        again[2], outcomes=(msgspec.structs.replace(signs[0], decision="d1-2"),)
    )
    assert escalations(again).treated_said == 0


def test_the_sides_are_compared_where_there_are_enough() -> None:
    treated = [run(n, 2, float(n < 25), code="escalation.stuck") for n in range(30)]
    control = [run(100 + n, 2, float(n < 5), code="escalation.withheld") for n in range(30)]
    found = escalations(runs(*treated, *control))
    assert (found.treated, found.treated_good, found.control, found.control_good) == (30, 25, 30, 5)
    assert list(found.lines())[-1] == "difference of success: 95 % interval +43% to +80%"
    few = escalations(runs(treated[0], run(500, 1, None, code="escalation.withheld")))
    assert list(few.lines())[1:] == [
        "not raised (control group): 1 user message, no outcome",
        "too little data: 20 user messages with an outcome are needed on each side",
    ]


def with_outcome(records: list[Record], place: int, **said: object) -> list[Record]:
    kept = records[place]
    outcome = msgspec.convert({"decision": kept.decision.id, **said}, Outcome)
    changed = msgspec.structs.replace(kept, outcomes=(*kept.outcomes, outcome))
    return [changed if each is kept else each for each in records]


@pytest.mark.parametrize(
    ("answer", "shadow", "successes", "failures"),
    [(0.0, 1.0, [], [3]), (1.0, 0.0, [3], []), (None, 1.0, [], []), (0.0, None, [], [3])],
)
def test_a_shadow_is_not_what_became_of_the_run(
    answer: float | None, shadow: float | None, successes: list[int], failures: list[int]
) -> None:
    kept = run(0, 3, answer)
    if shadow is not None:
        kept = with_outcome(kept, -1, score=shadow, model="other")
    found = runs_in(kept)[0]
    assert (found.successes, found.failures) == (successes, failures)


@pytest.mark.parametrize("sign", ["error-streak", "escalation"])
def test_the_sign_of_the_trouble_is_not_its_outcome(sign: str) -> None:
    raised = run(0, 3, None, code="escalation.stuck")
    raised = with_outcome(raised, 0, score=0.0, source=f"implicit:{sign}")
    assert (escalations(raised).treated, escalations(raised).treated_said) == (1, 0)
    passed = with_outcome(raised, 0, score=1.0, source="implicit:tests-passed")
    assert (escalations(passed).treated_said, escalations(passed).treated_good) == (1, 1)
    ended = with_outcome(raised, 0, score=0.0, source="implicit:ended-in-error")
    assert (escalations(ended).treated_said, escalations(ended).treated_good) == (1, 0)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_prints_lines_for_the_configuration(tmp_path: Path, as_json: bool) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite")
    at_once = [run(n, 0, 1.0, model="huge") for n in range(30, 50)]  # a limit of 0 would raise every call
    for record in runs(*(run(n, n % 10, 1.0) for n in range(20)), run(20, 40, 0.0, model="large"), *at_once):
        ledger.append(record.decision)
        for attempt in record.attempts:
            ledger.append(attempt)
        for outcome in record.outcomes:
            ledger.append(outcome)
    ledger.close()
    arguments = ["report", "escalation", "--ledger", str(tmp_path / "l.sqlite")]
    output = CliRunner().invoke(app, [*arguments, *(["--json"] if as_json else [])]).output
    if as_json:
        assert json.loads(output)["longest"] == {"p-1|small": 9}
        return
    assert output.splitlines()[-2:] == ["[tiers.escalation.longest]", '"p-1|small" = 9  # shop']
    assert "a limit needs 20 successful runs of its source" in output
    assert 'no tier is raised without mode = "on" under [tiers.escalation]' in output
    assert output.splitlines()[0].split()[:2] == ["project", "source"]
