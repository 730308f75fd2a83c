"""``pointsman report guidance``: from records to a verdict."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config.shapes import demo_config
from pointsman.decision.decision import Decision, RequestInput
from pointsman.errors import ConfigError
from pointsman.factory import policy_toml
from pointsman.guidance import Arm, Firing, FollowUp, GuidanceDecision, Mode, Rung
from pointsman.integrations.hooks import HookState
from pointsman.reports.guidance import followed_in
from pointsman.stores.ledger import Entry, Outcome, PolicyText, Retention, ShadowAnswer, SqliteLedger
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.vocabulary import AgentRole, WireFormat


def decision(number: int, arm: Arm, *, continued: bool, mode: Mode = Mode.ON) -> Decision:
    follow_up = FollowUp(number=1, classifier="error_streak", continued=continued)
    return Decision(
        id=f"d{number}",
        input=RequestInput(
            session=f"s{number}",
            format=WireFormat.CHAT,
            model_asked="auto",
            arrived_at=float(number),
        ),
        policy="p",
        tier=None,
        chain=("m",),
        guidance=GuidanceDecision(mode=mode, arm=arm, follow_up=follow_up),
    )


def decisions(sessions: int, treated: float, control: float) -> list[Decision]:
    """Half of the sessions on each side, with these shares of streaks that went on."""
    half = sessions // 2
    return [
        *(decision(n, Arm.TREATED, continued=n < treated * half) for n in range(half)),
        *(decision(half + n, Arm.CONTROL, continued=n < control * half) for n in range(half)),
    ]


def report(tmp_path: Path, kept: Sequence[Entry], *arguments: str) -> Result:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for entry in kept:
        ledger.append(entry)
    ledger.close()
    return CliRunner().invoke(
        app, ["report", "guidance", "--ledger", str(tmp_path / "ledger.sqlite"), *arguments]
    )


@pytest.mark.parametrize(
    ("sessions", "treated", "control", "verdict"),
    [
        (20, 0.2, 0.8, "Too little data: 30 sessions a side are needed, the smaller side has 10."),
        (200, 0.3, 0.6, "Guidance helps"),
        (200, 0.6, 0.3, "Guidance harms"),
        (200, 0.5, 0.52, "No difference can be shown"),
    ],
)
def test_the_verdict(tmp_path: Path, sessions: int, treated: float, control: float, verdict: str) -> None:
    result = report(tmp_path, decisions(sessions, treated, control))
    assert result.exit_code == 0
    assert verdict in result.stdout
    assert ("interval" in result.stdout.splitlines()[-2]) is (sessions > 60)


def test_the_table_counts_each_classifier(tmp_path: Path) -> None:
    lines = report(tmp_path, decisions(20, 0.2, 0.8)).stdout.splitlines()
    assert lines[1].split() == ["error_streak", "10", "2", "10", "8"]


def test_json(tmp_path: Path) -> None:
    printed = json.loads(report(tmp_path, decisions(20, 0.2, 0.8), "--json").stdout)
    assert printed["effect"]["treated"] == {"sessions": 10, "continued": 2}
    assert printed["enough"] is False
    assert len(printed["rows"]) == 20


def due(number: int, arm: Arm, *, mode: Mode = Mode.ON) -> Decision:
    """A turn in which a hint was due."""
    firing = Firing(1, 2, Rung.HINT, "p", "c", 0.5, "r", delivered=arm is Arm.TREATED)
    return Decision(
        id=f"d{number}",
        input=RequestInput(
            session=f"s{number}",
            format=WireFormat.CHAT,
            model_asked="",
            arrived_at=float(number),
        ),
        policy="",
        tier=None,
        chain=(),
        guidance=GuidanceDecision(mode=mode, arm=arm, firing=firing),
    )


def after(number: int, name: str = "after", *, at: float = 2_000.0) -> Decision:
    """A later turn of the same session, in which none was."""
    first = due(number, Arm.TREATED)
    read = msgspec.structs.replace(first.input, arrived_at=at)
    return msgspec.structs.replace(first, id=f"d{number}-{name}", input=read, guidance=None)


def test_how_sessions_ended(tmp_path: Path) -> None:
    kept: list[Entry] = []
    for number in range(100):
        arm = Arm.TREATED if number < 50 else Arm.CONTROL
        before = after(number, "before", at=-1.0)
        kept += [before, due(number, arm), after(number)]
        kept.append(Outcome(decision=f"d{number}-before", score=0.0))  # before any hint: says nothing of it
        if number % 50 < 40:
            kept.append(Outcome(decision=f"d{number}-after", score=0.9 if arm is Arm.TREATED else 0.3))
    output = report(tmp_path, kept).stdout
    assert output.splitlines()[-5:] == [
        "how sessions ended, by the scores given from the first due hint on (1 is good):",
        "guidance given: 0.90 in 40 of 50 sessions",
        "guidance withheld: 0.30 in 40 of 50 sessions",
        "difference: +0.60, 95 % interval +0.40 to +0.73",
        "Guidance helps: sessions end better with it than without.",
    ]
    printed = json.loads(report(tmp_path, [], "--json").stdout)["endings"]
    assert printed.keys() == {"said"}
    assert printed["said"]["treated"] == {"sessions": 50, "scored": 40, "mean": 0.9}
    assert printed["said"]["enough"] is True


def test_derived_signs_are_compared_apart(tmp_path: Path) -> None:
    kept: list[Entry] = [due(number, Arm.TREATED if number < 50 else Arm.CONTROL) for number in range(100)]
    kept.extend(Outcome(decision=f"d{n}", score=0.0, source="implicit:retry") for n in range(60, 100))
    kept.extend(Outcome(decision=f"d{n}", score=0.0, source="implicit:escalation") for n in range(50))
    output = report(tmp_path, kept).stdout
    assert "by the scores given" not in output
    assert "guidance given: 1.00 in 50 of 50 sessions\nguidance withheld: 0.20 in 50 of 50 sessions" in output


def test_where_nothing_is_known_of_endings_nothing_is_said(tmp_path: Path) -> None:
    observed: list[Entry] = [due(1, Arm.TREATED, mode=Mode.OBSERVE), Outcome(decision="d1", score=1.0)]
    assert "ended" not in report(tmp_path, observed).stdout
    assert json.loads(report(tmp_path, [], "--json").stdout)["endings"] == {}


def test_observed_decisions_have_no_treated_side() -> None:
    observed = [decision(1, Arm.TREATED, continued=True, mode=Mode.OBSERVE)]
    assert list(followed_in(observed)) == []
    firing = Firing(1, 2, Rung.HINT, "p", "c", 0.5, "r", delivered=True)
    without = Decision(
        id="x",
        input=RequestInput(
            session="s",
            format=WireFormat.CHAT,
            model_asked="",
            arrived_at=0.0,
        ),
        policy="",
        tier=None,
        chain=(),
        guidance=GuidanceDecision(mode=Mode.ON, arm=Arm.TREATED, firing=firing),
    )
    assert list(followed_in([without])) == []


def test_the_hooks_own_records(tmp_path: Path) -> None:
    file = tmp_path / "hooks.sqlite"
    with HookState(file).session("s"):
        pass
    result = CliRunner().invoke(app, ["report", "guidance", "--hooks", str(file)])
    assert result.stdout.startswith("guidance given: 0 sessions")
    assert "Too little data" in result.stdout
    assert 'with mode = "on" under [guidance], after a hint was due' in result.stdout.splitlines()[-1]


def test_the_effect_of_guidance_is_read_from_the_configured_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pointsman.toml").write_text('[ledger]\npath = "own.sqlite"\n')
    with closing(SqliteLedger(tmp_path / "own.sqlite", retention=Retention(None, None))) as ledger:
        ledger.append(decision(0, Arm.TREATED, continued=True))
    assert "guidance given: 1 session" in CliRunner().invoke(app, ["report", "guidance"]).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ledger", "a", "--hooks", "b"], "--hooks names a source of its own"),
        (["--demo", "--hooks", "b"], "--hooks names a source of its own"),
        (["--ledger", "missing.sqlite"], "there is no ledger at missing.sqlite"),
        (["--hooks", "missing.sqlite"], "there is no file of the hook at missing.sqlite"),
    ],
)
def test_what_cannot_be_read_is_said(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["report", "guidance", *arguments])
    assert message in str(result.exception)


def test_programs_are_compared_each_by_itself(tmp_path: Path) -> None:
    kept: list[Entry] = []
    for number, found in enumerate(decisions(40, 0.2, 0.8)):
        client = "codex_exec" if number % 2 else "claude-cli"
        kept.append(msgspec.structs.replace(found, input=msgspec.structs.replace(found.input, client=client)))
    lines = report(tmp_path, kept).stdout.splitlines()
    assert lines[-2].split() == ["claude-cli", "10", "20%", "10", "80%", "-", "-"]
    assert lines[-1].split()[0] == "codex_exec"
    assert len(report(tmp_path, decisions(40, 0.2, 0.8)).stdout.splitlines()) > 0


@pytest.mark.parametrize(
    ("name", "first"),
    [("roles", "role,requests,share,kB each"), ("kinds", "messages,shift"), ("savings", "part,amount")],
)
def test_a_report_is_csv_too(tmp_path: Path, name: str, first: str) -> None:
    path = str(tmp_path / "ledger.sqlite")
    with closing(SqliteLedger(Path(path))) as ledger:
        ledger.append(a_decision("d-1"))
    config = tmp_path / "pointsman.toml"
    config.write_text(
        '[upstreams.demo]\nbase_url = "demo:"\n[models.small]\nupstream = "demo"\nid = "s"\n'
        "input_per_million = 1\noutput_per_million = 2\n"
    )
    command = ["report", name, "--ledger", path, "--config", str(config)]
    told = CliRunner().invoke(app, [*command, "--csv"])
    assert told.exit_code == 0, told.output
    assert told.output.startswith(first)
    assert CliRunner().invoke(app, [*command, "--csv", "--json"]).exception.message == "give --json or --csv"  # type: ignore[union-attr]


def test_quality_without_pairs_says_how_to_get_them(tmp_path: Path) -> None:
    path, config = tmp_path / "ledger.sqlite", tmp_path / "pointsman.toml"
    config.write_text("")
    with closing(SqliteLedger(path)) as ledger:
        ledger.append(a_decision("d-1"))
    told = CliRunner().invoke(app, ["report", "quality", "--ledger", str(path), "--config", str(config)])
    answer, following = told.stdout.splitlines()
    assert answer.startswith("Not known yet")
    assert following.startswith("[shadow] model")


def test_quality_names_the_page_where_kept_answers_wait_for_labels(tmp_path: Path) -> None:
    path, config = tmp_path / "ledger.sqlite", tmp_path / "pointsman.toml"
    config.write_text("")
    with closing(SqliteLedger(path)) as ledger:
        for name, session in {"d-1": "s", "d-2": "s", "d-3": "t", "d-4": "t", "d-5": "title"}.items():
            decision = a_decision(name, session=session)
            role = AgentRole.HELPER if session == "title" else None  # the page offers none of a helper call
            asked = msgspec.structs.replace(decision.input, role=role)
            ledger.append(msgspec.structs.replace(decision, input=asked))
            ledger.append(an_answer(name, model="large"))
            ledger.append(
                ShadowAnswer(decision=name, at=0.0, model="small", upstream="u", text="a", beside_text="b")
            )
        ledger.add_outcome(Outcome(decision="d-1", score=1.0))
        ledger.add_outcome(Outcome(decision="d-1", score=1.0, model="small"))
    told = CliRunner().invoke(app, ["report", "quality", "--ledger", str(path), "--config", str(config)])
    answer, following = told.stdout.splitlines()
    assert answer.startswith("Not known yet")  # neither model has a price
    assert following.startswith("1 session with answers of two models: give both a score on the page Label")


def test_a_report_without_tables_refuses_csv(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        ledger.append(a_decision("d-1"))
    told = CliRunner().invoke(app, ["report", "judge", "--ledger", str(path), "--csv"])
    assert "this report has no table to print as CSV" in str(told.exception)


def test_a_ledger_alone_is_counted_at_the_prices_of_its_latest_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    text, decided = policy_toml(demo_config()), a_decision("d-1")
    code = '[capabilities]\napplication = "theirs.py"\n'
    Path("theirs.py").write_text("open('ran', 'w')", encoding="utf-8")
    Path("theirs.toml").write_text(text + code, encoding="utf-8")
    trial = '[shadow]\npolicy = "theirs.toml"\n'
    file = text.replace("[tiers]\n", '[tiers]\nkinds = "/theirs/kinds.json"\n')
    for name, texts in (
        ("none", ()),
        ("policy", (text,)),
        ("code", (text + code,)),
        ("trial", (text + trial,)),
        ("file", (file,)),
    ):
        with closing(SqliteLedger(tmp_path / name, retention=Retention(None, None))) as ledger:
            for each in texts:
                ledger.append(PolicyText(version=decided.policy, text=each))
            ledger.append(decided)
    names = ("none", "policy", "code", "trial", "file")
    alone = [CliRunner().invoke(app, ["report", "savings", "--ledger", name]) for name in names]
    assert isinstance(alone[0].exception, ConfigError), "neither a configuration nor a policy is there"
    assert 'against always "demo-large"' in alone[1].stdout
    for refused in alone[2:4]:
        assert "names Python code, which a report does not run" in str(refused.exception)
    assert not Path("ran").exists()
    why = 'the latest policy of the ledger cannot be read here: no kinds "/theirs/kinds.json"'
    assert str(alone[4].exception) == f"{why}; --config names the configuration with the prices"
