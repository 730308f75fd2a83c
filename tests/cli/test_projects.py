"""``pointsman fit projects`` and ``report projects``: from a ledger's outcomes to a file that decides."""

import json
import re
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from pointsman import Pointsman
from pointsman.cli import app
from pointsman.config import AnyKey, load
from pointsman.decision.decision import Decision, RequestInput
from pointsman.errors import ConfigError
from pointsman.factory import build_policy
from pointsman.learning.projects import ProjectOutcome
from pointsman.reports.labels import labels
from pointsman.reports.projects import outcomes_of
from pointsman.stores.ledger import Attempt, Outcome, Retention, SqliteLedger
from pointsman.tiers.projects import cell_name, read_projects
from pointsman.vocabulary import AgentRole, Mode, Purpose, Reason, WireFormat

CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"

[models]
small = { upstream = "main", id = "s", input_per_million = 1.0, output_per_million = 5.0 }
large = { upstream = "main", id = "l", input_per_million = 5.0, output_per_million = 25.0 }

[tiers]
simple = "small"
complex = "large"
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A configuration, and a ledger of a project whose outcomes are good with both models."""
    (tmp_path / "pointsman.toml").write_text(CONFIG)
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for number in range(80):
        model = "small" if number % 2 else "large"
        asked = RequestInput(
            format=WireFormat.CHAT, model_asked="auto", session=f"s{number}", arrived_at=float(number),
            user_message=1, role=AgentRole.MAIN, purpose=Purpose.MESSAGE, project="p-1", project_name="shop",
            client="claude-cli",
        )  # fmt: skip
        again = msgspec.structs.replace(asked, purpose=Purpose.TOOL_ITERATION)
        for place, read in enumerate((asked, again)):
            name = f"d{number}-{place}"
            why = (Reason("projects.observe", "…"),)
            ledger.append(Decision(id=name, input=read, policy="p", tier=None, chain=(model,), reasons=why))
            ledger.append(
                Attempt(
                    decision=name,
                    number=1,
                    model=model,
                    upstream="main",
                    status=200,
                    started_at=0.0,
                    total_ms=1.0,
                )
            )
        ledger.append(Outcome(decision=f"d{number}-1", score=float(number % 20 > 0)))
    ledger.close()
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    config = ("--config", str(folder / "pointsman.toml"))
    return CliRunner().invoke(app, [*arguments, *config])


def test_fit_writes_a_file_that_the_configuration_takes(files: Path) -> None:
    out = files / "projects.json"
    ledger = ("--ledger", str(files / "ledger.sqlite"))
    done = run(files, "fit", "projects", *ledger, "--out", str(out), "--target", "0.8", "--keep")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(
        "80 outcomes, 2 cells, 2 with a tier"
    )  # one for each message, not each step
    assert "may be named wrongly" in done.output
    text = (files / "pointsman.toml").read_text()
    (files / "pointsman.toml").write_text(text + f'[tiers.projects]\nfile = "{out}"\nmode = "on"\n')
    projects = build_policy(load(files / "pointsman.toml", AnyKey())).projects
    assert projects is not None
    assert projects.mode is Mode.ON
    assert projects.projects.cells[cell_name("p-1", role="message")].tier == "simple"


def test_the_report_shows_each_model_and_the_tier(files: Path) -> None:
    ledger = ("--ledger", str(files / "ledger.sqlite"))
    lines = run(files, "report", "projects", *ledger, "--target", "0.8", "--keep").output.splitlines()
    assert lines[0] == "good enough: 0.8 of the last tier's success, with probability 0.9"
    assert lines[1].startswith("the probabilities hold if chance decided")
    assert "only where its own outcomes alone reach the target with that probability too" in lines[1]
    assert lines[1].endswith("; old outcomes count less, and those of one session as far as they differ")
    assert lines[3].split()[:6] == ["shop", "*", "*", "simple", "large", "40.0"]
    assert re.search(r"  simple [01]\.\d\d.*  claude-cli  p-1$", lines[3]), lines
    assert lines[-1] == "160 requests of projects; decided by project: observe 160"
    found = json.loads(run(files, "report", "projects", *ledger, "--json").output)
    assert found["requests"]["requests"] == 160


def test_a_file_of_outcomes_does_without_a_ledger(files: Path) -> None:
    data, out = files / "o.jsonl", files / "p.json"
    rows = [ProjectOutcome(id=str(n), project="p", model="large", score=1.0) for n in range(30)]
    data.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    given = ("--data", str(data), "--out", str(out), "--json")
    done = run(files, "fit", "projects", *given, "--target", "0.5")
    assert json.loads(done.output) == {
        "file": str(out), "outcomes": 30, "by_chance": 0, "cells": 1, "with_tier": 1,
    }  # fmt: skip


def test_one_outcome_of_each_model_names_no_tier_however_good_the_models_are_elsewhere(files: Path) -> None:
    data, out = files / "o.jsonl", files / "p.json"
    rows = [
        ProjectOutcome(id=f"{project}{n}", project=project, model=model, score=1.0)
        for project, count in (("a", 100), ("b", 100), ("new", 1))
        for model in ("small", "large")
        for n in range(1, count + 1)
    ]
    data.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    done = run(files, "fit", "projects", "--data", str(data), "--out", str(out), "--target", "0.9")
    assert "3 cells, 2 with a tier" in done.output
    (new,) = (each for each in read_projects(out.read_bytes(), "p").cells.values() if each.outcomes == 2)
    assert (new.tier, new.chance["simple"] > 0.9) == ("", True)


def test_outcomes_of_messages_drawn_by_chance_are_told_apart(files: Path) -> None:
    data, out = files / "o.jsonl", files / "p.json"
    rows = [
        ProjectOutcome(id=str(n), project="p", model="large", score=1.0, by_chance=n < 20) for n in range(30)
    ]
    data.write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    given = ("fit", "projects", "--data", str(data), "--out", str(out), "--target", "0.5")
    said = run(files, *given).output
    assert "20 of models chosen by chance; 10 of models chosen by rules or a policy, used" in said
    assert "may be named wrongly" in said
    said = run(files, *given, "--by-chance").output
    assert said.startswith("20 outcomes,")
    assert "left out" in said
    assert "may be named wrongly" not in said


def test_exploration_and_shadow_are_chance(files: Path) -> None:
    with closing(SqliteLedger(files / "ledger.sqlite")) as ledger:
        (known,) = (each for each in ledger.records() if each.decision.id == "d0-1")
    records = [
        replace(known, outcomes=[Outcome(decision="d0-1", score=1.0, model=model)]) for model in ("", "small")
    ]
    assert [each.by_chance for each in outcomes_of(records)] == [False, True]
    nobody = replace(records[0], attempts=[], outcomes=[Outcome(decision="d0-1", score=1.0, model="small")])
    assert [each.by_chance for each in outcomes_of([nobody])] == [False]
    explored = replace(known.decision, reasons=(Reason("projects.explore", "…"),))
    assert [each.by_chance for each in outcomes_of([replace(records[0], decision=explored)])] == [True]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "does not exist"), ("{", "truncated"), ('{"format": 1}', "missing")]
)
def test_a_wrong_file_is_an_error_of_the_configuration(
    files: Path, content: str | None, message: str
) -> None:
    file = files / "x.json"
    if content is not None:
        file.write_text(content)
    config = files / "pointsman.toml"
    config.write_text(config.read_text() + f'[tiers.projects]\nfile = "{file}"\n')
    with pytest.raises(ConfigError, match=message):
        load(config, AnyKey())


def test_one_tier_alone_is_nothing_to_choose_from(files: Path) -> None:
    config = files / "pointsman.toml"
    config.write_text(config.read_text().replace('complex = "large"\n', ""))
    done = run(files, "fit", "projects", "--out", str(files / "p.json"))
    assert done.exit_code
    assert "fewer than two tiers" in str(done.exception)


def test_a_judge_needs_pairs_that_people_judged(files: Path) -> None:
    ledger = ("--ledger", str(files / "ledger.sqlite"))
    done = run(files, "outcomes", "judge", *ledger, "--judge", "small")
    assert "0 sessions have outcomes of people" in str(done.exception)
    done = run(files, "outcomes", "judge", *ledger, "--judge", "smal")
    assert 'no model "smal"' in str(done.exception)
    assert run(files, "report", "judge", *ledger).output.startswith("no model has judged")
    assert json.loads(run(files, "report", "judge", *ledger, "--json").output) == {}


def test_an_export_without_scores_says_where_they_come_from(tmp_path: Path) -> None:
    SqliteLedger(tmp_path / "ledger.sqlite").close()
    (tmp_path / "ledger.sqlite").touch()
    said = run(tmp_path, "outcomes", "export", "--ledger", str(tmp_path / "ledger.sqlite")).stderr
    assert "no decision has a score" in said


def test_the_queue_lists_the_first_request_of_a_message_as_the_page_label_does(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(file, retention=Retention(None, None))) as ledger:
        for number in (1, 2):
            asked = RequestInput(
                format=WireFormat.CHAT, model_asked="auto", session="q", arrived_at=number, user_message=1
            )
            ledger.append(Decision(id=f"q-{number}", input=asked, policy="p", tier=None, chain=("small",)))
            ledger.append(
                Attempt(
                    decision=f"q-{number}",
                    number=1,
                    model="small",
                    upstream="m",
                    status=200,
                    started_at=0.0,
                    total_ms=1.0,
                )
            )
        page = labels(ledger).queue
    listed = json.loads(run(tmp_path, "outcomes", "queue", "--ledger", str(file), "--json").output)
    assert [each.decision for each in page] == [listed["decision"]] == ["q-1"]


def test_the_queue_lists_what_is_worth_an_outcome(files: Path) -> None:
    ledger = SqliteLedger(files / "ledger.sqlite")
    asked = RequestInput(
        format=WireFormat.CHAT,
        model_asked="auto",
        session="q",
        arrived_at=99.0,
        project="p-9",
        project_name="shop",
    )
    why = (Reason("escalation.long", "…"),)
    ledger.append(Decision(id="q", input=asked, policy="p", tier=None, chain=("small",), reasons=why))
    ledger.append(
        Attempt(decision="q", number=1, model="small", upstream="m", status=200, started_at=0.0, total_ms=1.0)
    )
    ledger.close()
    given = ("outcomes", "queue", "--ledger", str(files / "ledger.sqlite"))
    heading, line = run(files, *given).output.splitlines()
    assert heading.split() == ["decision", "project", "why"]
    assert line.split() == ["q", "shop", "the", "agent", "was", "in", "trouble"]
    listed = json.loads(run(files, *given, "--json").output)
    assert listed["why"] == ["the agent was in trouble"]
    assert (listed["project"], listed["name"]) == ("p-9", "shop")


@pytest.mark.parametrize(
    ("line", "message"),
    [('{"id": "1", "project": "a|b", "kind": "x|y", "model": "large", "score": 1}', 'may not hold "|"')],
)
def test_a_line_that_names_no_cell_is_refused(files: Path, line: str, message: str) -> None:
    (files / "o.jsonl").write_text(line)
    done = run(files, "fit", "projects", "--data", str(files / "o.jsonl"), "--out", str(files / "p.json"))
    assert message in str(done.exception)
    assert "o.jsonl:1" in str(done.exception)


def test_a_project_may_hold_the_separator(files: Path) -> None:
    ledger = SqliteLedger(files / "words.sqlite")
    with Pointsman(build_policy(load(files / "pointsman.toml", AnyKey())), ledger=ledger) as pointsman:
        decided = pointsman.decide("fix the bug", project="shop|web")
        pointsman.record_outcome(decided.id, 1.0, model="small")
        ledger.append(replace(decided, id="old", input=replace(decided.input, project="shop|web")))
        pointsman.record_outcome("old", 1.0, model="small")
    for command in (("report", "projects"), ("fit", "projects", "--out", str(files / "p.json"))):
        done = run(files, *command, "--ledger", str(files / "words.sqlite"))
        assert done.exit_code == 0, done.exception
    assert "shop|web|*|*" in read_projects((files / "p.json").read_bytes(), "p").cells
