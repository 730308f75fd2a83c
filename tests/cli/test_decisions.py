"""``pointsman decisions``: list, show, export."""

import json
import os
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.decision.diff import Verdict
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.stores.ledger import (
    Attempt,
    Outcome,
    PromptText,
    Retention,
    ShadowAnswer,
    ShadowDecision,
    SqliteLedger,
)
from pointsman.testing import a_decision, an_attempt
from pointsman.vocabulary import AgentRole, Tier
from pointsman.wire.format import CompletionSummary


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ledger = SqliteLedger(tmp_path / "l.sqlite", text="full", retention=Retention(None, None))
    ledger.append(a_decision("d1", at=1.0, session="s1"))
    ledger.append(a_decision("d2", at=2.0, session="s2"))
    ledger.append(an_attempt("d2"))
    ledger.append(Outcome(decision="d2", score=1.0, label="solved", comment="thanks"))
    ledger.append(PromptText(decision="d2", text="the words"))
    ledger.append(
        ShadowDecision(
            decision="d2",
            at=2.0,
            policy="p2",
            why=("score 0.100, then 0.250",),
            verdict=Verdict(tier=Tier.MEDIUM, model="small"),
            changed=("tier", "model"),
        )
    )
    ledger.append(ShadowDecision(decision="d2", at=2.0, policy="p2", error="UnknownModel"))
    said = CompletionSummary("tool_calls", ("edit", "run"))
    ledger.append(
        ShadowAnswer(
            decision="d2",
            at=2.0,
            model="small",
            upstream="main",
            status=200,
            said=said,
            total_ms=31.0,
            input_tokens=10,
            output_tokens=4,
        )
    )
    ledger.close()
    return tmp_path / "l.sqlite"


def run(path: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["decisions", *args, "--ledger", str(path)])


def test_list_is_newest_first(path: Path) -> None:
    heading, *lines = run(path, "list").output.splitlines()
    assert heading.split("  ")[0] == "time (UTC)"
    assert [line.split()[2] for line in lines] == ["d2", "d1"]
    assert lines[0].split()[4:9] == ["COMPLEX", "0.90", "learned!", "large", "200"]
    assert "+guidance" in lines[0]
    assert heading.index("answered by") == lines[0].index("large")
    assert heading.index("status") == lines[0].index("200  ")
    assert [line.split()[2] for line in run(path, "list", "-n", "1").output.splitlines()[1:]] == ["d2"]
    assert [line.split()[2] for line in run(path, "list", "--session", "s1").output.splitlines()[1:]] == [
        "d1"
    ]


def test_a_long_name_of_a_model_moves_the_heading_with_it(tmp_path: Path) -> None:
    with closing(SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))) as ledger:
        ledger.append(a_decision("d1", at=1.0, session="s1"))
        ledger.append(msgspec.structs.replace(an_attempt("d1"), model="claude-sonnet-4-5-of-last-year"))
    heading, line = run(tmp_path / "l.sqlite", "list").output.splitlines()
    assert heading.index("status") == line.index("200  ")


@pytest.mark.parametrize(
    ("attempts", "shown"),
    [
        ([("large", 503, "status"), ("largest", 200, "")], "largest 200"),
        ([("large", 503, "status"), ("largest", 0, "connect")], "none connect"),
        ([("large", 0, "translation")], "none translation"),
        ([("large", 0, "credential"), ("largest", 401, "status")], "none 401"),
        ([], "none refused"),
    ],
)
def test_list_tells_what_happened(tmp_path: Path, attempts: list[tuple[str, int, str]], shown: str) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(a_decision("d1", at=1.0, session="s1"))
    for number, (model, status, error) in enumerate(attempts, 1):
        tried = an_attempt("d1")
        ledger.append(msgspec.structs.replace(tried, number=number, model=model, status=status, error=error))
    ledger.close()
    assert run(tmp_path / "l.sqlite", "list").output.splitlines()[1].split()[6:9] == [
        "learned!",
        *shown.split(),
    ]
    told = "left out: large at main: not asked: its upstream takes the caller's own credential"
    assert (told in run(tmp_path / "l.sqlite", "show", "d1").output) == (
        ("large", 0, "credential") in attempts
    )


def test_what_nobody_answered_is_no_answer_and_an_unknown_session_is_said(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with closing(SqliteLedger(path, retention=Retention(None, None))) as ledger:
        ledger.append(msgspec.structs.replace(a_decision("d1", session="s1"), refused=()))
    assert "chosen: large" in run(path, "list").stdout.splitlines()[1]
    assert run(path, "list", "--session", "s2").stderr == 'no decision of session "s2"\n'


def test_list_as_json_lines(path: Path) -> None:
    first, second = map(json.loads, run(path, "list", "--json").output.splitlines())
    assert (first["id"], second["id"]) == ("d2", "d1")


def test_show_tells_all_there_is(path: Path) -> None:
    result = run(path, "show", "d2")
    assert result.exit_code == 0
    for part in (
        "d2  1970-01-01 00:00:02 UTC  session s2",
        "tier COMPLEX, decided by the learned router",
        "  code (déjà)",
        "fallback chain: large, largest",
        "added by guidance: Try another tool.",
        "failed open: domains.failed: unavailable",
        "text:",
        "  the words",
        "attempt 1: large at main: status 200, 40 ms",
        "outcome (api) score 1 solved: thanks",
        "shadow policy p2: tier COMPLEX -> MEDIUM, model large -> small\n  score 0.100, then 0.250",
        "shadow policy p2: could not decide this request (UnknownModel)",
        "shadow model small at main: status 200, 31 ms, 10 tokens in and 4 out",
        ", ended with tool_calls, calls edit, run",
    ):
        assert part in result.output
    shown = json.loads(run(path, "show", "d2", "--json").output)
    assert shown["attempts"][0]["model"] == "large"


def test_show_prices_the_answer_of_a_shadow_model(path: Path, tmp_path: Path) -> None:
    config = tmp_path / "prices.toml"
    config.write_text(
        '[upstreams.main]\nbase_url = "http://127.0.0.1:9/v1"\n'
        '[models.small]\nupstream = "main"\nid = "s"\ninput_per_million = 100_000\noutput_per_million = 0\n'
    )
    assert "calls edit, run, cost $1.00" in run(path, "show", "d2", "--config", str(config)).output


@pytest.mark.parametrize(("role", "shown"), [(AgentRole.SUBAGENT, ", role subagent;"), (None, "responses;")])
def test_show_tells_the_role_within_the_agent(tmp_path: Path, role: AgentRole | None, shown: str) -> None:
    decision = a_decision("d1", at=1.0, session="s1")
    asked = msgspec.structs.replace(decision.input, role=role, project="p-1", project_name="shop")
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(msgspec.structs.replace(decision, input=asked))
    ledger.close()
    told = run(tmp_path / "l.sqlite", "show", "d1").output
    assert shown in told.replace(", project shop (p-1)", "")
    assert ", project shop (p-1); policy" in told


def test_show_names_the_program_where_no_folder_is_known(tmp_path: Path) -> None:
    decision = a_decision("d1", at=1.0, session="s1")
    asked = msgspec.structs.replace(decision.input, project="c-1", project_name="", client="aider")
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(msgspec.structs.replace(decision, input=asked))
    ledger.close()
    assert ", project aider (c-1); policy" in run(tmp_path / "l.sqlite", "show", "d1").output


def test_show_of_an_unknown_decision(path: Path) -> None:
    result = run(path, "show", "d9")
    assert isinstance(result.exception, PointsmanError)
    assert result.exception.message == 'there is no decision "d9"'


def test_export_in_every_format(path: Path) -> None:
    assert [json.loads(line)["decision"]["id"] for line in run(path, "export").output.splitlines()] == [
        "d1",
        "d2",
    ]
    assert len(json.loads(run(path, "export", "--format", "json").output)) == 2
    assert run(path, "export", "--format", "csv", "-n", "1").output.splitlines()[1].startswith("d1,1970-")


def test_nothing_kept_steers_the_terminal(path: Path) -> None:
    ledger = SqliteLedger(path, retention=Retention(None, None))
    ledger.append(a_decision("evil", at=3.0, session="\x1b]0;owned\x07"))
    ledger.close()
    for args in (["show", "evil"], ["list"]):
        assert "\x1b" not in run(path, *args).output
    assert "\ufffd]0;owned" in run(path, "show", "evil").output


def test_the_ledger_of_the_configuration(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = path.with_name("pointsman.toml")
    config.write_text(f"[ledger]\npath = '{path.name}'\n")
    result = CliRunner().invoke(app, ["decisions", "list", "--config", str(config)])
    assert len(result.output.splitlines()) == 3
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    assert len(CliRunner().invoke(app, ["decisions", "list"]).output.splitlines()) == 3


def test_without_any_configuration_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["decisions", "list"])
    assert isinstance(result.exception, StoreUnavailable)
    assert result.exception.message == f"there is no ledger at {tmp_path}/pointsman/ledger.sqlite"


def test_the_demos_ledger_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("POINTSMAN_CONFIG", "")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    before = runner.invoke(app, ["decisions", "list", "--demo"])
    assert (before.exit_code, before.stdout) == (0, "")
    assert before.stderr.startswith("no decisions yet")
    for report in (["savings"], ["savings", "--json"], ["shadow"], ["change"]):
        told = runner.invoke(app, ["report", *report, "--demo"])
        assert (told.exit_code, told.stdout, told.stderr) == (0, "", before.stderr)
    missing = runner.invoke(app, ["decisions", "show", "d-1", "--demo"]).exception
    assert isinstance(missing, StoreUnavailable)
    assert missing.hint == "pointsman serve --demo writes it with its first decision: send a request"
    demo = tmp_path / "pointsman" / "demo.sqlite"
    demo.parent.mkdir()
    ledger = SqliteLedger(demo)
    ledger.append(a_decision("of-the-demo"))
    ledger.close()
    other = runner.invoke(app, ["decisions", "list"]).exception
    assert isinstance(other, StoreUnavailable)
    assert other.hint == f"that of pointsman serve --demo is {demo}: pointsman decisions list --demo"
    assert "of-the-demo" in runner.invoke(app, ["decisions", "list", "--demo"]).output
    assert "of-the-demo" in runner.invoke(app, ["decisions", "show", "of-the-demo", "--demo"]).output


def test_a_demo_decision_is_priced_by_the_demo_and_hinted_at_without_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("POINTSMAN_CONFIG", "")
    monkeypatch.chdir(tmp_path)
    Path("pointsman.toml").write_text(f"[ledger]\npath = '{path}'\n")
    demo = tmp_path / "pointsman" / "demo.sqlite"
    demo.parent.mkdir()
    ledger = SqliteLedger(demo)
    ledger.append(a_decision("of-the-demo"))
    asked = {"decision": "of-the-demo", "number": 1, "model": "demo-large", "upstream": "demo", "status": 200}
    used = {"started_at": 0.0, "total_ms": 1.0, "input_tokens": 1_000_000, "output_tokens": 0}
    ledger.append(msgspec.convert(asked | used, Attempt))
    ledger.close()
    shown = CliRunner().invoke(app, ["decisions", "show", "of-the-demo", "--demo"])
    assert "cost $3.00" in shown.stdout
    missing = CliRunner().invoke(app, ["decisions", "show", "of-the-demo"]).exception
    assert isinstance(missing, PointsmanError)
    assert "--demo looks in the ledger of pointsman serve --demo" in (missing.hint or "")


def test_a_demo_that_ran_since_is_named(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "pointsman.toml"
    file.write_text(f"[ledger]\npath = '{path}'\n")
    said = CliRunner().invoke(app, ["decisions", "list", "--config", str(file)])
    assert "--demo" not in said.stderr
    demo = tmp_path / "pointsman" / "demo.sqlite"
    demo.parent.mkdir()
    demo.touch()
    os.utime(demo, (2e9, 2e9))
    said = CliRunner().invoke(app, ["decisions", "list", "--config", str(file)])
    assert said.stdout.splitlines()[1].startswith("1970-01-01")
    assert "that of pointsman serve --demo is newer: --demo lists it" in said.stderr


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ("", ", cost unknown: no price"),
        ("input_per_million = 0\noutput_per_million = 0\n", ", cost $0"),
        ("input_per_million = 1\noutput_per_million = 5\n", ", cost $0.00060"),
    ],
)
def test_show_tells_what_an_attempt_costs_or_that_it_is_unknown(
    tmp_path: Path, prices: str, cost: str
) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(a_decision("d1", at=1.0))
    ledger.append(msgspec.structs.replace(an_attempt("d1"), input_tokens=100, output_tokens=100))
    ledger.close()
    config = tmp_path / "pointsman.toml"
    upstream = '[upstreams.main]\nbase_url = "http://127.0.0.1:9/v1"\n'
    config.write_text(f'{upstream}[models.large]\nupstream = "main"\nid = "x"\n{prices}')
    shown = run(tmp_path / "l.sqlite", "show", "d1", "--config", str(config)).output
    assert f"100 tokens in and 100 out{cost}\n" in shown


def test_a_wrong_file_is_an_error_where_it_is_named_and_said_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(a_decision("d1", at=1.0))
    ledger.append(an_attempt("d1"))
    ledger.close()
    (tmp_path / "pointsman.toml").write_text("broken =")
    named = run(tmp_path / "l.sqlite", "show", "d1", "--config", str(tmp_path / "pointsman.toml"))
    assert isinstance(named.exception, ConfigError)
    monkeypatch.chdir(tmp_path)
    found = run(tmp_path / "l.sqlite", "show", "d1")
    assert found.exit_code == 0
    assert "costs are unknown: " in found.stderr


def test_an_answer_without_usage_costs_something_unknown(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))
    ledger.append(a_decision("d1", at=1.0))
    ledger.append(msgspec.structs.replace(an_attempt("d1"), input_tokens=None, output_tokens=None))
    ledger.close()
    config = tmp_path / "pointsman.toml"
    upstream = '[upstreams.main]\nbase_url = "http://127.0.0.1:9/v1"\n'
    config.write_text(f'{upstream}[models.large]\nupstream = "main"\nid = "x"\n')
    assert (
        ", cost unknown: no usage (a chat stream reports it where the request has "
        "stream_options.include_usage, or [server] report_usage = true)\n"
        in run(tmp_path / "l.sqlite", "show", "d1", "--config", str(config)).output
    )


def test_sub_agents_are_listed_with_their_session_and_marked(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "l.sqlite")
    for number, (session, role) in enumerate([("s", None), ("s:a1", AgentRole.SUBAGENT), ("t", None)]):
        made = a_decision(f"d{number}", at=float(number), session=session)
        ledger.append(msgspec.structs.replace(made, input=msgspec.structs.replace(made.input, role=role)))
    ledger.close()
    _, *lines = run(tmp_path / "l.sqlite", "list", "--session", "s").output.splitlines()
    assert [(line.split()[2], "(sub-agent)" in line) for line in lines] == [("d1", True), ("d0", False)]
    exported = run(tmp_path / "l.sqlite", "export", "--session", "s").output.splitlines()
    assert [json.loads(line)["decision"]["id"] for line in exported] == ["d0", "d1"]
