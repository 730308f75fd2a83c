"""Outcomes: read, derived once, and written for fitting. Near misses beside hits."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.decision.decision import Decision, RequestInput
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.drivers import drive
from pointsman.errors import StoreUnavailable
from pointsman.factory import build_engine, read_profile
from pointsman.learning.datasets import read_outcomes
from pointsman.reports.outcomes import Fittable, derive, prompts, scored
from pointsman.stores import _sqlite_file as sqlite_file
from pointsman.stores.ledger import Attempt, Outcome, PromptText, Record, SqliteLedger
from pointsman.stores.ledger.outcome_reports import MAX_OUTCOMES
from pointsman.tiers import TierDecision
from pointsman.trajectory import Step
from pointsman.trajectory.step import CallOutcome
from pointsman.vocabulary import AgentRole, ModelReply, Reason, Stage, Tier, WireFormat
from pointsman.wire.request import request_from_text


def fittable(records: list[Record], models: Sequence[str] = ()) -> list[Fittable]:
    """What ``outcomes export`` writes."""
    return list(prompts(filter(None, map(scored, records)), models))


ASKED = "why does the parser fail on nested lists?"


def a_request(number: int, message: int, text: str | None = None, **given: Any) -> Record:
    outcomes = given.pop("outcomes", ())
    model = given.pop("model", "small")
    read: dict[str, Any] = {"size": 100 + number, "characters": len(text or "")}
    read |= {name: given.pop(name) for name in RequestInput.__struct_fields__ if name in given}
    decision = Decision(
        id=f"d{number}",
        input=RequestInput(
            format=WireFormat.CHAT,
            model_asked="auto",
            arrived_at=float(number),
            user_message=message,
            **{"session": "s", **read},
        ),
        policy="p",
        chain=(model,),
        **{"tier": None, **given},
    )
    attempt = Attempt(
        decision=decision.id, number=1, model=model, upstream="up", status=200, started_at=0.0, total_ms=1.0
    )
    return Record(decision, (attempt,), tuple(outcomes), text)


def a_step(came: CallOutcome) -> Step:
    return Step("bash", "a", "r", 1, outcome=came)


def a_tier(tier: Tier, stage: Stage = Stage.RULES) -> TierDecision:
    return TierDecision(tier, 0.0, 1.0, (), stage, needs_verification=False, reasons=())


def signs(*records: Record) -> list[tuple[str, str]]:
    found = list(derive(records))
    assert all(each.score == 0.0 and each.source == f"implicit:{each.label}" for each in found)
    return [(each.decision, each.label) for each in found]


E, OK, DENIED = CallOutcome.ERROR, CallOutcome.OK, CallOutcome.DECLINED
RAISED = (Reason("guidance.raise-tier", "stuck"),)


def codes(*names: str) -> tuple[Reason, ...]:
    return tuple(Reason(name, "…") for name in names)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (a_request(2, 2, ASKED), [("d1", "retry")]),
        (a_request(2, 2, ASKED + " And in maps?"), []),
        (a_request(2, 2, None, characters=len(ASKED)), []),  # words on one side only: unknown
        (a_request(2, 1, ASKED, size=101), [("d1", "retry")]),  # the same request sent again
        (a_request(2, 1, ASKED, size=101, steps=(a_step(OK),)), []),  # it goes on working
        (a_request(2, 2, ASKED, session="other"), []),
        (a_request(2, 2, ASKED, role=AgentRole.HELPER), []),  # an agent asks for the title of this message
        (a_request(2, 2, ASKED, role=AgentRole.MAIN), [("d1", "retry")]),
        (a_request(2, 2, "no, that is not what I asked"), [("d1", "correction")]),
        (a_request(2, 2, "That's wrong: the list is empty"), [("d1", "correction")]),
        (a_request(2, 2, "Nein, das meinte ich nicht"), [("d1", "correction")]),
        (a_request(2, 2, "You broke the build"), [("d1", "correction")]),
        (a_request(2, 2, "it still doesn't work"), [("d1", "correction")]),
        (a_request(2, 2, "no, that is all I need"), []),
        (a_request(2, 2, "No, it is enough. Now the docs"), []),  # it answers a question of the agent
        (a_request(2, 2, "no rush, thanks"), []),
        (a_request(2, 2, "explain what is wrong: that's wrong is what it says"), []),
        (a_request(2, 2, "next one", tier=a_tier(Tier.REASONING, Stage.FORCED)), [("d1", "escalation")]),
        (a_request(2, 2, "next one", tier=a_tier(Tier.SIMPLE, Stage.FORCED)), []),
        (a_request(2, 2, "next one", tier=a_tier(Tier.REASONING)), []),  # a harder question is no complaint
        (a_request(2, 1, ASKED, reasons=RAISED), [("d1", "escalation")]),
        (a_request(2, 1, ASKED, reasons=codes("escalation.stuck")), [("d1", "escalation")]),
        (a_request(2, 1, ASKED, reasons=codes("escalation.long")), [("d1", "escalation")]),
        *[
            (a_request(2, 1, ASKED, reasons=codes(f"escalation.{code}")), [])
            for code in ("stays", "withheld", "observe", "none-higher")  # nothing is raised at this request
        ],
        (a_request(2, 1, ASKED, steps=tuple(map(a_step, (E, E, E)))), [("d1", "error-streak")]),
        (a_request(2, 1, ASKED, steps=tuple(map(a_step, (E, E, DENIED, E)))), [("d1", "error-streak")]),
        (a_request(2, 1, ASKED, steps=tuple(map(a_step, (E, E, OK, E)))), []),
    ],
)
def test_signs(second: Record, expected: list[tuple[str, str]]) -> None:
    assert signs(a_request(1, 1, ASKED, tier=a_tier(Tier.MEDIUM)), second) == expected


@pytest.mark.parametrize("before", ["guidance.raise-tier", "escalation.stuck", "escalation.stays"])
def test_a_tier_is_raised_once(before: str) -> None:
    first, second = (
        a_request(n, 1, ASKED, size=n, reasons=codes(*why))
        for n, why in ((1, (before,)), (2, ("guidance.raise-tier", "escalation.stays")))
    )
    assert signs(first, second) == []


PASSED = Step("bash", "a", "r", 1, progress="test_passed")
PLAN = Step("todo", "a", "r", 1, progress="plan_step_completed")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((PASSED,), [("tests-passed", 1.0)]),
        ((a_step(E), PASSED), [("tests-passed", 1.0)]),
        ((PASSED, a_step(DENIED)), [("tests-passed", 1.0)]),  # says nothing of the agent
        ((PASSED, a_step(E)), [("ended-in-error", 0.0)]),
        ((PASSED, a_step(OK)), []),  # something was done after the tests
        ((PLAN,), []),
        ((), []),
    ],
)
def test_the_last_call_of_a_message_says_how_it_ended(
    steps: tuple[Step, ...], expected: list[tuple[str, float]]
) -> None:
    turns = [a_request(1, 1, ASKED), a_request(2, 1, steps=steps), a_request(3, 2, "now the docs, please")]
    found = [each for each in derive(turns) if each.label in {"tests-passed", "ended-in-error"}]
    assert [(each.label, each.score) for each in found] == expected
    assert all(each.decision == "d1" for each in found)
    assert not [each for each in derive(turns[:2]) if each.label == "tests-passed"]  # it may go on


def test_a_streak_over_several_turns_counts_against_the_message_once() -> None:
    tail = [a_request(n, 1, ASKED, steps=(a_step(E),)) for n in range(2, 7)]
    assert signs(a_request(1, 1, ASKED), *tail) == [("d1", "error-streak")]


def test_short_go_aheads_are_no_retries() -> None:
    assert signs(a_request(1, 1, "yes, go on"), a_request(2, 2, "yes, go on")) == []


def test_without_words_equal_facts_are_a_retry() -> None:
    facts: dict[str, Any] = {"characters": 40, "tokens": 10, "signals": ("a", "b")}
    assert signs(a_request(1, 1, **facts), a_request(2, 2, **facts)) == [("d1", "retry")]
    assert signs(a_request(1, 1, **facts), a_request(2, 2, **{**facts, "tokens": 11})) == []


def test_what_is_recorded_is_not_derived_again() -> None:
    said = Outcome(decision="d1", score=0.0, source="implicit:retry")
    assert signs(a_request(1, 1, ASKED, outcomes=(said,)), a_request(2, 2, ASKED)) == []


def test_scores_by_model_are_means_and_what_was_said_goes_before_signs() -> None:
    def said(*scores: float, source: str = "api") -> tuple[Outcome, ...]:
        return tuple(Outcome(decision="d", score=score, source=source) for score in scores)

    records = [
        a_request(1, 1, "p", outcomes=said(1.0, 0.5)),
        a_request(2, 1, "p", outcomes=(*said(1.0), *said(0.0, source="implicit:retry")), model="large"),
        a_request(3, 1, "q", outcomes=said(0.0, source="implicit:retry")),
        a_request(4, 1, "sha256:00", outcomes=said(1.0)),
        a_request(5, 1, None, outcomes=said(1.0)),
        a_request(6, 1, "unsaid"),
        a_request(7, 1, "labelled", outcomes=(Outcome(decision="d", label="fine"),)),
    ]
    assert {line.prompt: line.scores for line in fittable(records)} == {
        "p": {"small": 0.75, "large": 1.0},
        "q": {"small": 0.0},
    }
    assert [line.prompt for line in fittable(records, ["small", "large"])] == ["p"]


def test_models_that_chance_chose_for_the_same_words_stay_apart() -> None:
    chances = {"small": 0.9, "large": 0.1}
    drawn = [Fittable("go on", {"small": 1.0}, "", chances, f"s{number}") for number in range(3)]
    rare = Fittable("go on", {"large": 0.0}, "", chances, "s3")
    ruled = [Fittable("go on", {"small": score}, "code") for score in (0.0, 1.0)]
    paired = Fittable("go on", {"small": 0.5, "large": 1.0}, "code", chances, "s4")  # a shadow answered too
    found = list(prompts([*drawn, rare, *ruled]))
    assert [(dict(line.scores), line.session) for line in found] == [
        ({"small": 1.0}, "s0"),
        ({"small": 1.0}, "s1"),
        ({"small": 1.0}, "s2"),
        ({"large": 0.0}, "s3"),
        ({"small": 0.5}, ""),
    ]
    assert [line.chances for line in found] == [*[chances] * 4, {}]
    (both,) = prompts([paired, *ruled])
    assert (both.scores, both.chances) == ({"small": 0.5, "large": 1.0}, {})
    (pair,) = prompts([*drawn, rare], ["small", "large"])
    assert (pair.scores, pair.chances) == ({"small": 1.0, "large": 0.0}, {})


def test_a_prompt_of_one_session_is_exported_with_it() -> None:
    judged = (Outcome(decision="d", score=1.0),)
    records = [
        a_request(1, 1, ASKED, outcomes=judged),
        a_request(2, 2, "said in two sessions", outcomes=judged),
    ]
    first = scored(records[0])
    assert first is not None
    assert first.session, "whatever chose the model"
    assert records[0].decision.input.session not in first.session
    said = Fittable("said in two sessions", {"small": 1.0}, "", {}, "another")
    lines = {line.prompt: line.session for line in prompts([*filter(None, map(scored, records)), said])}
    assert lines == {ASKED: first.session, "said in two sessions": ""}


def test_a_prompt_is_exported_with_the_domain_it_was_decided_in() -> None:
    engine = build_engine(
        Policy(profile=read_profile("default"), domains=DomainPolicy(domains=default_domains()))
    )
    found = drive(
        engine.decide(request_from_text(ASKED), Memory(), "d"), lambda need: ModelReply()
    ).decision.domains
    assert found is not None
    judged = (Outcome(decision="d", score=1.0),)
    lines = fittable(
        [a_request(1, 1, ASKED, outcomes=judged, domains=found), a_request(2, 2, "p", outcomes=judged)]
    )
    assert [line.domain for line in lines] == [found.effective.domains[0], ""]
    assert b"domain" not in msgspec.json.encode(lines[1])


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "l.sqlite"
    store = SqliteLedger(path, text="full")
    for record in (
        a_request(1, 1, ASKED),
        a_request(2, 2, ASKED, model="large"),
        a_request(3, 3, "no, that is not it"),
    ):
        store.append(record.decision)
        store.append(record.attempts[0])
        store.append(PromptText(decision=record.decision.id, text=record.text or ""))
    store.close()
    return path


def run(ledger: Path, *arguments: object) -> Result:
    return CliRunner().invoke(app, ["outcomes", *map(str, arguments), "--ledger", str(ledger)])


def kept(ledger: Path) -> list[Outcome]:
    store = SqliteLedger(ledger)
    try:
        return [outcome for record in store.records() for outcome in record.outcomes]
    finally:
        store.close()


def test_deriving_twice_adds_nothing(ledger: Path) -> None:
    assert "added 2 implicit outcomes" in run(ledger, "derive").stdout
    assert "added 0 implicit outcomes" in run(ledger, "derive").stdout
    assert [(each.decision, each.source) for each in kept(ledger)] == [
        ("d1", "implicit:retry"),
        ("d2", "implicit:correction"),
    ]


def test_importing_says_which_lines_are_wrong_and_goes_on(ledger: Path, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    lines = [
        '{"decision": "d1", "score": 0.5, "label": "meh", "source": "survey", "comment": "slow"}',
        '{"decision": "d1", "score": 1.5}',
        "not json",
        '{"decision": "d9", "score": 1}',
        '{"decision": "d2"}',
        '{"decision": "d2", "scores": 1}',
        "",
        '{"decision": "d2", "label": "solved"}',
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    result = run(ledger, "import", file)
    assert result.exit_code == 1
    assert "added 2 outcomes; 5 lines were invalid" in result.stdout
    assert [f"said.jsonl:{n}:" in result.stderr for n in (1, 2, 3, 4, 5, 6, 8)] == [
        False, True, True, True, True, True, False,
    ]  # fmt: skip
    assert 'there is no decision "d9"' in result.stderr
    first, second = kept(ledger)
    assert (first.score, first.label, first.source, first.comment) == (0.5, "meh", "survey", "slow")
    assert (second.label, second.source) == ("solved", "import")
    assert "added 0 outcomes" in run(ledger, "import", file).stdout


def test_importing_takes_no_more_outcomes_than_the_gateway(ledger: Path, tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    lines = [json.dumps({"decision": "d1", "label": f"check {n}"}) for n in range(MAX_OUTCOMES + 2)]
    file.write_text("\n".join([*lines, '{"decision": "d2", "score": 1e300}']), encoding="utf-8")
    result = run(ledger, "import", file)
    assert f"added {MAX_OUTCOMES} outcomes; 3 lines were invalid" in result.stdout
    assert f'said.jsonl:{MAX_OUTCOMES + 1}: decision "d1" has {MAX_OUTCOMES} outcomes' in result.stderr
    assert '"score" must be a number from 0 to 1, not 1e+300' in result.stderr
    assert len(kept(ledger)) == MAX_OUTCOMES


def test_importing_into_a_ledger_that_cannot_be_written_is_an_error(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY", 0.01)
    said = tmp_path / "said.jsonl"
    said.write_text('{"decision": "d1", "score": 0.25}', encoding="utf-8")
    with closing(sqlite3.connect(ledger, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = run(ledger, "import", said)
    assert "added" not in result.stdout
    assert isinstance(result.exception, StoreUnavailable)
    assert "could not be written: cannot write the ledger" in str(result.exception)


def test_a_shadows_answer_can_be_scored_too(ledger: Path, tmp_path: Path) -> None:
    said = tmp_path / "said.jsonl"
    lines = ['{"decision": "d1", "score": 0.25}', '{"decision": "d1", "score": 1, "model": "large"}']
    said.write_text("\n".join(lines), encoding="utf-8")
    assert "added 2 outcomes" in run(ledger, "import", said).stdout
    assert "added 0 outcomes" in run(ledger, "import", said).stdout
    [line] = run(ledger, "export", "--weak", "small", "--strong", "large").stdout.splitlines()
    assert json.loads(line)["scores"] == {"small": 0.25, "large": 1.0}


def test_what_is_exported_can_be_fitted(ledger: Path, tmp_path: Path) -> None:
    said = tmp_path / "said.jsonl"
    said.write_text('{"decision": "d1", "score": 0}\n{"decision": "d2", "score": 1}\n', encoding="utf-8")
    assert run(ledger, "import", said).exit_code == 0
    result = run(ledger, "export", "--weak", "small", "--strong", "large")
    data = tmp_path / "data.jsonl"
    data.write_text(result.stdout, encoding="utf-8")
    [row] = read_outcomes(data, weak="small", strong="large")
    assert (row.prompt, row.weak, row.strong) == (ASKED, 0.0, 1.0)
    assert json.loads(result.stdout)["scores"] == {"small": 0.0, "large": 1.0}
    assert result.stderr == "wrote 1 prompt\n"


def test_an_export_says_what_it_left_out_and_why(ledger: Path, tmp_path: Path) -> None:
    wordless = a_request(4, 4, None, session="other")
    with closing(SqliteLedger(ledger, text="full")) as store:
        store.append(wordless.decision)
        store.append(wordless.attempts[0])
    said = tmp_path / "said.jsonl"
    said.write_text("\n".join(f'{{"decision": "d{number}", "score": 1}}' for number in (3, 4)))
    assert run(ledger, "import", said).exit_code == 0
    result = run(ledger, "export", "--weak", "small", "--strong", "large")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "wrote 0 prompts\nleft out: 1 decisions without stored words ([ledger] text), "
        "1 prompts without a score of each of these models\n"
    )


CONFIG = """
[upstreams.up]
base_url = "http://127.0.0.1:9/v1"
[models.small]
upstream = "up"
id = "small"
input_per_million = 1.0
output_per_million = 2.0
[models.large]
upstream = "up"
id = "large"
input_per_million = 10.0
output_per_million = 20.0
"""


def test_savings_are_reported_with_the_date_of_the_prices(ledger: Path, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(CONFIG, encoding="utf-8")
    asked = ["report", "savings", "--baseline", "large", "--ledger", str(ledger), "--config", str(config)]
    result = CliRunner().invoke(app, [*asked, "--prices-as-of", "2026-01-31"])
    assert result.exit_code == 0, result.exception
    assert "left out: 3 turns (100.0%)" in result.stdout
    assert "all requests at prices as of 2026-01-31" in result.stdout
    printed = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert (printed["prices_as_of"], printed["prices"]) == (None, {"small": None, "large": None})
    assert printed["lacking"]["no_usage"] == 3
    assert "prices as of: small unknown, large unknown" in CliRunner().invoke(app, asked).stdout


@pytest.mark.parametrize("named", ["claude-sonnet-5-5", "team-best", "large"])
def test_the_baseline_may_be_named_by_id_or_alias(ledger: Path, tmp_path: Path, named: str) -> None:
    """As requests may name it, except that an id means its model whatever shipped alias it matches."""
    config = tmp_path / "pointsman.toml"
    with_id = CONFIG.replace('id = "large"', 'id = "claude-sonnet-5-5"')
    config.write_text(
        with_id + '[tiers]\ncomplex = "large"\n[aliases]\n"team-*" = "large"\n', encoding="utf-8"
    )
    asked = ["report", "savings", "--baseline", named, "--ledger", str(ledger), "--config", str(config)]
    result = CliRunner().invoke(app, [*asked, "--json"])
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["baseline"] == "large"
    asked[3] = "gpt-9"
    unknown = CliRunner().invoke(app, asked)
    assert 'no model "gpt-9"' in str(unknown.exception)


def test_each_model_may_say_of_when_its_prices_are(ledger: Path, tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    dated = CONFIG.replace("output_per_million = 2.0", "output_per_million = 2.0\nprices_as_of = 2026-01-31")
    config.write_text(dated.replace("= 20.0", '= 20.0\nprices_as_of = "2025-12-01"'), encoding="utf-8")
    asked = ["report", "savings", "--baseline", "large", "--ledger", str(ledger), "--config", str(config)]
    printed = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert printed["prices_as_of"] == "2025-12-01"
    assert printed["prices"] == {"small": "2026-01-31", "large": "2025-12-01"}
    assert "prices as of: small 2026-01-31, large 2025-12-01" in CliRunner().invoke(app, asked).stdout
