"""``pointsman report guidance``: from records to a verdict."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.cli.report import followed_in
from pointsman.decision import Decision
from pointsman.guidance import Arm, Firing, FollowUp, GuidanceDecision, Mode, Rung
from pointsman.integrations.claude_code import HookState
from pointsman.ledger import SqliteLedger
from pointsman.types import WireFormat


def decision(number: int, arm: Arm, *, continued: bool, mode: Mode = Mode.ON) -> Decision:
    follow_up = FollowUp(number=1, classifier="error_streak", continued=continued)
    return Decision(
        id=f"d{number}",
        session=f"s{number}",
        format=WireFormat.CHAT,
        model_asked="auto",
        arrived_at=float(number),
        policy="p",
        tier=None,
        chain=("m",),
        guidance=GuidanceDecision(mode=mode, arm=arm, follow_up=follow_up),
    )


def decisions(sessions: int, treated: float, withheld: float) -> list[Decision]:
    """Half of the sessions on each side, with these shares of streaks that went on."""
    half = sessions // 2
    return [
        *(decision(n, Arm.TREATED, continued=n < treated * half) for n in range(half)),
        *(decision(half + n, Arm.WITHHELD, continued=n < withheld * half) for n in range(half)),
    ]


def report(tmp_path: Path, kept: list[Decision], *arguments: str) -> Result:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for entry in kept:
        ledger.append(entry)
    ledger.close()
    return CliRunner().invoke(
        app, ["report", "guidance", "--ledger", str(tmp_path / "ledger.sqlite"), *arguments]
    )


@pytest.mark.parametrize(
    ("sessions", "treated", "withheld", "verdict"),
    [
        (20, 0.2, 0.8, "Too little data: 30 sessions a side are needed, the smaller side has 10."),
        (200, 0.3, 0.6, "Guidance helps"),
        (200, 0.6, 0.3, "Guidance harms"),
        (200, 0.5, 0.52, "No difference can be shown"),
    ],
)
def test_the_verdict(tmp_path: Path, sessions: int, treated: float, withheld: float, verdict: str) -> None:
    result = report(tmp_path, decisions(sessions, treated, withheld))
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


def test_observed_decisions_have_no_treated_side() -> None:
    observed = [decision(1, Arm.TREATED, continued=True, mode=Mode.OBSERVE)]
    assert list(followed_in(observed)) == []
    firing = Firing(1, 2, Rung.HINT, "p", "c", 0.5, "r", delivered=True)
    without = Decision(
        id="x", session="s", format=WireFormat.CHAT, model_asked="", arrived_at=0.0, policy="", tier=None,
        chain=(), guidance=GuidanceDecision(mode=Mode.ON, arm=Arm.TREATED, firing=firing),
    )  # fmt: skip
    assert list(followed_in([without])) == []


def test_the_hooks_own_records(tmp_path: Path) -> None:
    file = tmp_path / "hooks.sqlite"
    with HookState(file).session("s"):
        pass
    result = CliRunner().invoke(app, ["report", "guidance", "--hooks", str(file)])
    assert "Too little data" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name one source of records"),
        (["--ledger", "a", "--hooks", "b"], "name one source of records"),
        (["--ledger", "missing.sqlite"], "no such file"),
    ],
)
def test_what_cannot_be_read_is_said(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["report", "guidance", *arguments])
    assert message in str(result.exception)
