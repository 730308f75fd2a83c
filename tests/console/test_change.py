"""Why an hour cost more than another: from the page and the terminal to the decisions behind it."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.stores.ledger import SqliteLedger
from pointsman.stores.ledger.port import PolicyText
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from support.consoles import Browser, console_gateway

FIRST = 1_795_431_600.0  # a whole hour
HOUR = 3_600.0


def local(at: float) -> datetime:
    """A time of this machine's zone, as the command takes it."""
    return datetime.fromtimestamp(at, UTC).astimezone()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Ten requests on the small model, then ten of which five are on the large one."""
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        for number in range(20):
            is_late = number >= 10
            model = "demo-large" if is_late and number % 2 else "demo-small"
            made = a_decision(f"d-{number}", at=FIRST + is_late * HOUR + number, session=f"s-{number}")
            name = "billing" if model == "demo-large" else "shop"
            whose = {"project": f"p-{name}", "project_name": name}
            ledger.append(replace(made, input=replace(made.input, **whose), chain=(model,)))
            ledger.append(an_answer(made.id, model=model))
    return path


def test_a_dearer_hour_is_explained_and_its_decisions_are_a_link_away(file: Path) -> None:
    with closing(SqliteLedger(file)) as ledger, closing(Browser(console_gateway(ledger=ledger))) as browser:
        path = f"/console/change?from={FIRST:.0f}&to={FIRST + HOUR + 59:.0f}"
        found = browser.get(path.replace("/change", "/change.json")).json()
        assert found["contributions"][0]["name"] == "model mix"
        amounts = [each["amount"] for each in found["contributions"]]
        assert sum(amounts) == pytest.approx(found["difference"], abs=1e-5)
        assert found["difference"] == pytest.approx(found["to"]["cost"] - found["from"]["cost"], abs=1e-5)
        assert (found["from"]["since"], found["to"]["since"]) == (FIRST, FIRST + HOUR)
        assert [row["name"] for row in found["by"]["project"]] == ["billing", "shop"]
        page = browser.get(path).body.decode()
        link = re.search(r'href="(/console/decisions)\?([^"]*)">demo-large', page)
        assert link
        query = link[2].replace("&amp;", "&")
        listed = browser.get(f"{link[1]}.json?{query}").json()["decisions"]
        assert {row["id"] for row in listed} == {f"d-{number}" for number in range(11, 20, 2)}
        assert browser.get(f"/console/change?from={FIRST}&to={FIRST}").status == 400
        assert browser.get("/console/change?to=yesterday").status == 400


@pytest.mark.parametrize("name", ["from", "to"])
@pytest.mark.parametrize(
    "time",
    ["nan", "inf", "-inf", "-1", "1e18", "1e400", "253402300800", "9999-12-31T23:59:59-10:00", "9" * 5_000],
)
def test_a_time_that_no_date_holds_is_refused(file: Path, name: str, time: str) -> None:
    with closing(SqliteLedger(file)) as ledger, closing(Browser(console_gateway(ledger=ledger))) as browser:
        for kind in ("", ".json", ".csv"):
            answer = browser.get(f"/console/change{kind}?{name}={quote(time)}")
            assert answer.status == 400
            assert f"{name}" in answer.body.decode()
            assert "must be a date from 1970 to 9998, such as 2026-01-31" in answer.body.decode()


def test_each_hour_is_counted_at_the_prices_then_in_force(file: Path) -> None:
    later = "".join(
        f"[models.demo-{size}]\ninput_per_million = {price}\noutput_per_million = {price}\n"
        for size, price in (("small", 7), ("large", 70))
    )
    with closing(SqliteLedger(file)) as ledger:
        for number, (policy, text) in enumerate(
            (("before", "[models]"), ("after", later), ("odd", "models"))
        ):
            at = FIRST + (number + 2) * HOUR
            made = replace(
                a_decision(f"p-{number}", at=at, session="p"), policy=policy, chain=("demo-small",)
            )
            ledger.append(PolicyText(version=policy, text=text))
            ledger.append(made)
            ledger.append(an_answer(made.id, model="demo-small"))
    with closing(SqliteLedger(file)) as ledger, closing(Browser(console_gateway(ledger=ledger))) as browser:

        def prices(hour: int) -> dict[str, Any]:
            path = f"/console/change.json?from={FIRST + 2 * HOUR:.0f}&to={FIRST + hour * HOUR:.0f}"
            found = browser.get(path).json()
            return next(each for each in found["contributions"] if each["name"] == "prices")

        assert prices(3)["amount"] > 0
        assert prices(3)["detail"].endswith(", then $7/$7")
        assert prices(3)["detail"].startswith("demo-small $")
        assert (prices(4)["amount"], prices(4)["detail"]) == (0.0, "the same in both periods")


def test_a_model_that_is_no_longer_configured_has_the_prices_of_its_policy(tmp_path: Path) -> None:
    models = '"m.1" = { input_per_million = 5.0, output_per_million = 10.0 }\n'
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.append(PolicyText(version="old", text=f"[models]\n{models}"))
        for policy, model, at in (("old", "m.1", FIRST), ("now", "demo-small", FIRST + HOUR)):
            made = replace(a_decision(policy, at=at, session="s"), policy=policy, chain=(model,))
            ledger.append(made)
            ledger.append(an_answer(made.id, model=model))
        with closing(Browser(console_gateway(ledger=ledger))) as browser:
            found = browser.get(f"/console/change.json?from={FIRST:.0f}&to={FIRST + HOUR:.0f}").json()
    assert found["from"]["cost"] > found["to"]["cost"] > 0
    [mix] = [each for each in found["contributions"] if each["name"] == "model mix"]
    assert (mix["models"]["m.1"] < 0, "m.1 100%" in mix["detail"]) == (True, True)


def test_the_terminal_says_the_same(file: Path) -> None:
    config = file.with_name("pointsman.toml")
    models = "".join(
        f'[models.{name}]\nupstream = "main"\nid = "{name}"\ninput_per_million = {price}\n'
        f"output_per_million = {price * 4}\n"
        for name, price in (("demo-small", 0.1), ("demo-large", 3.0))
    )
    tiers = '[tiers]\nsimple = "demo-small"\ncomplex = "demo-large"\n'
    config.write_text(f'[upstreams.main]\nbase_url = "http://127.0.0.1:1/v1"\n{models}{tiers}')
    command = ["report", "change", "--ledger", str(file), "--config", str(config), "--to"]
    later, earlier = (f"{local(at):%Y-%m-%dT%H:%M}" for at in (FIRST + HOUR, FIRST - HOUR))
    told = CliRunner().invoke(app, [*command, later])
    assert told.exit_code == 0, told.output
    assert "above all by model mix (demo-small 100%, then demo-large 50%" in told.output.splitlines()[0]
    found = json.loads(CliRunner().invoke(app, [*command, later, "--json"]).output)
    assert (found["from"]["since"], found["to"]["since"]) == (FIRST, FIRST + HOUR)
    nothing = CliRunner().invoke(app, [*command, earlier])
    newest = nothing.stderr.split("--to ")[1].strip()
    assert "no request" not in CliRunner().invoke(app, [*command, newest]).output
    assert nothing.stdout.splitlines()[:2] == [
        "no request in either period",
        (
            f"{local(FIRST - 2 * HOUR):%Y-%m-%d %H:%M} to {local(FIRST - HOUR):%H:%M}, beside "
            f"{local(FIRST - HOUR):%Y-%m-%d %H:%M} to {local(FIRST):%H:%M}"
        ),
    ]
    assert CliRunner().invoke(app, [*command, later, "--from", later]).exit_code != 0
