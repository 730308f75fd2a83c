"""Savings and Quality: the figures are those of the reports, and what is not known is said."""

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import combinations
from pathlib import Path

import msgspec
import pytest

from pointsman.config import ConsoleSpec
from pointsman.config.shapes import demo_config
from pointsman.console import _quality
from pointsman.console._svg import points_chart
from pointsman.guidance import Arm, Firing, FollowUp, GuidanceDecision, Rung
from pointsman.reports.guidance import guidance_report
from pointsman.reports.quality import router_quality
from pointsman.reports.savings import SavingsCalculator, usual_baseline
from pointsman.stores.ledger import MemoryLedger, Outcome
from pointsman.testing import a_decision
from pointsman.tiers.projects import Cell, ProjectPolicy, Projects, cell_name
from pointsman.vocabulary import Mode
from support.consoles import Browser, console_gateway
from support.learned_routers import blank


def _ledger(browser: Browser) -> MemoryLedger:
    ledger = browser.gateway.state.runtime.ledger
    assert isinstance(ledger, MemoryLedger)
    return ledger


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_without_a_price_or_a_model_of_this_name_nothing_is_an_error_of_ours(kind: str) -> None:
    """Once, it was a 500."""
    demo = demo_config()
    for priced, query in ((False, ""), (True, "?baseline=nothing")):
        models = {
            name: model
            if priced
            else msgspec.structs.replace(model, input_per_million=None, output_per_million=None)
            for name, model in demo.models.items()
        }
        config = msgspec.structs.replace(demo, models=models)
        with closing(Browser(console_gateway(config))) as browser:
            got = browser.get(f"/console/savings.{kind}{query}")
            assert got.status == 400
            assert (b"nothing" if priced else b"no model has a price") in got.body


def test_savings_are_those_of_the_report(browser: Browser) -> None:
    browser.chat("Hello!")
    browser.chat("Prove this theorem step by step, and then prove it again formally.")
    models = demo_config().models
    expected = SavingsCalculator(models, "demo-large").total(_ledger(browser).totals()).to_json()
    found = browser.get("/console/savings.json").json()
    assert found["total"] == expected
    assert found["total"]["net"] > 0
    assert len(found["days"]) == len(found["x"]) == 1
    assert set(found["models"]) == {"demo-small", "demo-large"}
    page = browser.get("/console/savings").body.decode()
    drawn = re.search(r'data-values="([^"]*)"', page)
    assert drawn
    chart = msgspec.json.decode(unescape(drawn[1]))  # the chart asks for nothing more
    assert chart == {"x": found["x"], "series": found["series"]}
    assert "at least, against always &quot;demo-large&quot;" in page
    assert browser.get("/console/savings.csv").body.count(b"\n") == 2


@pytest.mark.parametrize("zone", [-14, -12, -5, 0, 11, 12, 13, 14])
def test_days_are_named_by_the_dates_of_their_zone(browser: Browser, zone: int) -> None:
    before = datetime.now(UTC) + timedelta(hours=zone)
    browser.chat("Hello!")
    after = datetime.now(UTC) + timedelta(hours=zone)
    days = browser.get(f"/console/savings.json?zone={zone}").json()["days"]
    assert len(days) == 1
    assert set(days) <= {before.date().isoformat(), after.date().isoformat()}
    named = (
        f"Per day, in UTC{zone:+d}<" if zone else "Per day, in UTC<"
    )  # beside "Times in" the reader's zone
    assert named in browser.get(f"/console/savings?zone={zone}").body.decode()


def test_another_baseline_is_asked_for_by_the_address(browser: Browser) -> None:
    browser.chat("Hello!")
    assert browser.get("/console/savings.json?baseline=demo-small").json()["total"]["net"] == 0
    page = browser.get("/console/savings?baseline=nothing")
    assert (page.status, b"no model &#34;nothing&#34; to compare with" in page.body) == (400, True)


@pytest.mark.parametrize("kind", ["", ".json", ".csv"])
@pytest.mark.parametrize("zone", ["99", "-15", "x", "1" * 4_301, "-" + "1" * 5_000])
def test_a_zone_that_is_none_is_refused(browser: Browser, kind: str, zone: str) -> None:
    answer = browser.get(f"/console/savings{kind}?zone={zone}")
    assert (answer.status, b"must be a number of hours from -14 to 14" in answer.body) == (400, True)


def test_the_baseline_is_the_dearest_model() -> None:
    assert usual_baseline(demo_config().models) == "demo-large"
    assert usual_baseline({}) == ""


def test_an_empty_period_is_said_to_be(browser: Browser) -> None:
    assert b"No request in this period" in browser.get("/console/savings").body


def test_quality_says_what_labels_say(browser: Browser) -> None:
    empty = browser.get("/console/quality").body
    assert b"No decision has a label with a score yet" in empty
    assert b"A pair is a request that two models answered" in empty
    assert b"one-sided level" not in empty
    for score in ("1", "0.5"):
        path = f"/console/decisions/{browser.chat('Hello!')}"
        browser.post(f"{path}/outcome", {"token": browser.token(path), "score": score})
    found = browser.get("/console/quality.json").json()
    assert (found["observed"]["point"]["score"], found["observed"]["point"]["labels"]) == (0.75, 2)
    page = browser.get("/console/quality").body.decode()
    assert "too few labels to tell" in page
    assert "No file of projects is configured" in page
    assert "Too little data: 30 sessions a side are needed" in page
    assert browser.get("/console/quality.csv").body.count(b"\n") == 3


def test_the_interval_of_twelve_good_labels_is_as_wide_as_they_allow(browser: Browser) -> None:
    for number in range(12):
        decision = browser.chat("Hello!", session=f"s-{number}")
        _ledger(browser).append(Outcome(decision=decision, score=1.0))
    page = browser.get("/console/quality").body.decode()
    assert "<strong>1.00</strong> on average, 95 % interval 0.74 to 1.00, from 12 labels." in page


def test_the_control_group_is_that_of_the_report(browser: Browser) -> None:
    ledger = _ledger(browser)
    fired = Firing(1, 2, Rung.HINT, "p", "doom-loop", 0.5, "r", delivered=True)
    for number in range(64):
        arm = Arm.CONTROL if number % 2 else Arm.TREATED
        guidance = GuidanceDecision(
            mode=Mode.ON, arm=arm, firing=fired, follow_up=FollowUp(1, "doom-loop", number % 2 > 0)
        )
        made = msgspec.structs.replace(a_decision(f"d{number}", session=f"s{number}"), guidance=guidance)
        ledger.append(made)
        ledger.append(Outcome(decision=made.id, score=1.0 - number % 2))
    expected = guidance_report(ledger.records()).to_json()
    found = browser.get("/console/quality.json").json()["guidance"]
    assert found == msgspec.json.decode(msgspec.json.encode(expected))
    page = browser.get("/console/quality").body.decode()
    assert "Guidance helps: fewer streaks go on with it than without." in page
    assert "Guidance helps: sessions end better with it than without." in page
    assert "1.00 in 32 of 32 sessions" in page


def test_the_claim_of_a_learned_router_is_that_of_the_report(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_quality, "_router", lambda _view: blank())
    found = browser.get("/console/quality.json").json()["learned_router"]
    router = blank()
    claim = router.claim
    assert found == msgspec.json.decode(msgspec.json.encode(router_quality(router)))
    page = browser.get("/console/quality").body.decode()
    assert f"Held out, APGR {claim.apgr:.3f}, 95 % interval {claim.low:.3f} to {claim.high:.3f}." in page


def test_quality_shows_the_file_of_projects(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(outcomes=10, models={"small": (8.0, 10.0, 0.71)}, chance={"simple": 0.93}, tier="simple")
    file = Projects(target=0.7, keep=False, certainty=0.9, made_at=0.0, cells={cell_name("p-<1>"): cell})
    policy = ProjectPolicy(projects=file)
    monkeypatch.setattr(_quality, "_project_policy", lambda _view: policy)
    found = browser.get("/console/quality.json").json()["projects"]
    assert (found["mode"], found["projects"]["cells"]["p-<1>|*|*"]["tier"]) == ("observe", "simple")
    page = browser.get("/console/quality").body.decode()
    assert "success 0.7, with probability 0.9" in page
    assert "p-&lt;1&gt;" in page
    assert "<td>small</td><td class=num>10.0</td><td class=num>0.80</td><td class=num>0.71</td>" in page


CURVE = """{"models": [[1.0, 0.6], [10.0, 1.0]],
 "points": [{"cost": 1.0, "kept": {"value": 0.6, "low": 0.5, "high": 0.7}},
            {"cost": 10.0, "kept": {"value": 1.0, "low": 0.95, "high": 1.0}}],
 "chosen": {"cost": 4.0, "kept": {"value": 0.9, "low": 0.85, "high": 0.94}}}"""


SAVINGS = """, "shown": false, "verdict": "not shown: the interval reaches below 90.0%", "savings": {
 "prompts": 400,
 "success_minus_strong": {"value": -0.004, "low": -0.01, "high": 0.0},
 "cost": {"value": 0.6, "low": 0.55, "high": 0.65},
 "saved_beyond_coin": {"value": 0.02, "low": -0.01, "high": 0.05}}}}"""


@pytest.mark.parametrize("page", ["quality", "savings"])
def test_what_the_policy_saves_beyond_a_coin_is_stated(tmp_path: Path, page: str) -> None:
    file = tmp_path / "curve.json"
    file.write_text(CURVE.removesuffix("}}") + SAVINGS)
    config = msgspec.structs.replace(demo_config(), console=ConsoleSpec(curve=file))
    with closing(Browser(console_gateway(config))) as browser:
        text = browser.get(f"/console/{page}").body.decode()
        assert "success -0.004 [-0.010, +0.000] against always strong, at 0.600 [0.550, 0.650] of its" in text
        assert "not shown; if the saving is as large as seen, about 1,437 more outcomes" in text
        assert "Its target: not shown: the interval reaches below 90.0%." in text
        file.write_text(CURVE)
        assert (
            "does not state what the policy saves beyond a coin"
            in browser.get(f"/console/{page}").body.decode()
        )


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (CURVE, "Working point: <strong>90.0%</strong>"),
        ("[]", "is no cost-quality curve"),
        (None, "No such file"),
        ('{"models": [], "points": []}', "None is named"),
    ],
)
def test_the_curve_is_drawn_from_its_file(tmp_path: Path, written: str | None, shown: str) -> None:
    file = tmp_path / "curve.json"
    if written is not None:
        file.write_text(written)
    config = msgspec.structs.replace(demo_config(), console=ConsoleSpec(curve=file))
    with closing(Browser(console_gateway(config))) as browser:
        page = browser.get("/console/quality")
        text = page.body.decode()
        assert (page.status, shown in text) == (200, True), text
        assert ('<polyline class="curve"' in text) is (written == CURVE)


def test_no_name_of_a_chart_stands_on_another() -> None:
    names = ["claude-haiku-4-5-20251001", "", "gpt-5-mini-2025-08-07", "gemini-2.5-flash-lite", "gpt-5"]
    points = [(name, 0.011 + 0.001 * at, 0.8, 0.7, 0.9) for at, name in enumerate(names)]
    chart = points_chart(points, "", "")
    drawn = re.findall(
        r'<text class="point" x="([\d.]+)" y="([-\d.]+)" text-anchor="middle">([^<]+)</text>', chart
    )
    assert [name for *_, name in drawn] == [name or "working point" for name in names]
    for (x, y, name), (other_x, other_y, other) in combinations(drawn, 2):
        apart = abs(float(x) - float(other_x)) >= 6 * (len(name) + len(other))
        assert apart or abs(float(y) - float(other_y)) >= 22
    assert "<line" not in chart[chart.index('class="point"') :]  # no line of another point covers a name
