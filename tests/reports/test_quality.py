"""What a page says of quality: the learned router's claim, the curve, and the control group."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.errors import PointsmanError
from pointsman.guidance import Arm, FollowUp, GuidanceDecision
from pointsman.learning.intervals import Interval
from pointsman.reports.guidance import guidance_report
from pointsman.reports.quality import CurvePoint, WorkingPoint, read_curve, router_quality
from pointsman.stores.ledger import Outcome, Retention, SqliteLedger
from pointsman.testing import a_decision
from pointsman.tiers.learned_router import Claim
from pointsman.vocabulary import Mode
from support.learned_routers import blank


@pytest.mark.parametrize(("low", "refused"), [(0.01, False), (-0.01, True)])
def test_a_claim_that_is_refused_says_why(low: float, refused: bool) -> None:
    against = {"length": (0.1, low, 0.2), "random": (0.3, 0.2, 0.4)}
    claim = Claim(rows=50, apgr=0.6, low=0.5, high=0.7, against=against, improves=not refused)
    found = router_quality(msgspec.structs.replace(blank(), claim=claim))
    said, errors = found["refused"], found["calibration"]
    assert isinstance(said, str)
    assert isinstance(errors, dict)
    assert (found["improves"], bool(said), set(errors)) == (not refused, refused, {"weak", "strong"})
    if refused:
        assert "length +0.100 (-0.010 .. +0.200)" in said
        assert "random" not in said


def test_a_curve_is_read_with_its_working_point(tmp_path: Path) -> None:
    file = tmp_path / "curve.json"
    point = {"cost": 2.0, "kept": {"value": 0.9, "low": 0.8, "high": 1.0}}
    file.write_bytes(
        msgspec.json.encode({"models": [[1.0, 0.7], [5.0, 1.0]], "points": [point], "chosen": point})
    )
    found = read_curve(file)
    assert found.chosen == WorkingPoint(2.0, Interval(0.9, 0.8, 1.0))
    assert found.points == (CurvePoint(2.0, Interval(0.9, 0.8, 1.0)),)
    assert found.models == ((1.0, 0.7), (5.0, 1.0))


@pytest.mark.parametrize("text", ["", "{}", '{"models": 1, "points": []}'])
def test_a_file_that_is_no_curve_says_so(tmp_path: Path, text: str) -> None:
    file = tmp_path / "curve.json"
    file.write_text(text)
    with pytest.raises(PointsmanError, match="is no cost-quality curve") as raised:
        read_curve(file)
    assert "--curve" in raised.value.hint
    with pytest.raises(PointsmanError, match="cannot read"):
        read_curve(tmp_path / "none.json")


def test_the_command_line_prints_the_control_group_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = SqliteLedger(path, retention=Retention(None, None))
    for number in range(8):
        arm = Arm.CONTROL if number % 2 else Arm.TREATED
        followed = GuidanceDecision(mode=Mode.ON, arm=arm, follow_up=FollowUp(1, "doom-loop", number < 3))
        made = msgspec.structs.replace(a_decision(f"d{number}", session=f"s{number}"), guidance=followed)
        ledger.append(made)
        ledger.append(Outcome(decision=made.id, score=float(number % 3 == 0)))
    page = guidance_report(ledger.records())
    ledger.close()
    printed = CliRunner().invoke(app, ["report", "guidance", "--ledger", str(path), "--json"])
    assert printed.exit_code == 0, printed.output
    assert msgspec.json.decode(printed.stdout) == msgspec.json.decode(msgspec.json.encode(page.to_json()))
    assert (page.effect.treated.sessions, page.effect.control.sessions) == (4, 4)
    assert not page.effect.enough
