"""The first page: what was spent and saved, when, and for what and whom."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import ConsoleSpec
from pointsman.stores.ledger import MemoryLedger, SqliteLedger
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from support.consoles import Browser, console_gateway, with_keys

DAY = 86_400.0
CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"

[models.demo-small]
upstream = "main"
id = "small"
input_per_million = 1.0
output_per_million = 4.0

[tiers]
simple = "demo-small"
"""
AGENT = {"user-agent": "claude-cli/2.1.197 (external, cli)", "x-claude-code-session-id": "s"}


def chat(browser: Browser, folder: str, key: str = "") -> None:
    """Send a request as Claude Code does, from a directory."""
    body = {
        "model": "auto",
        "messages": [
            {
                "role": "system",
                "content": f"You are Claude Code.\n<env>\nWorking directory: {folder}\n</env>",
            },
            {"role": "user", "content": "Rename x to y in a.py"},
        ],
    }
    browser.agent(body, f"s-{folder}", key, AGENT)


def test_the_first_request_is_on_the_chart_under_its_project(browser: Browser) -> None:
    """From an agent's request to the money of its folder, by its name, and from there to the decision."""
    chat(browser, "/home/ana/shop")
    chat(browser, "/home/ana/shop")
    chat(browser, "/home/ana/blog")
    found = browser.get("/console/home.json").json()
    assert found["period"] == "24h"  # the first day
    assert found["total"]["baseline_caches"] is False  # as of the period before
    assert found["before"]["baseline_caches"] is False
    assert [bar["requests"] for bar in found["bars"]][-2:] in ([0, 3], [3, 0])
    assert {row["name"]: row["turns"] for row in found["by"]["project"]} == {"shop": 2, "blog": 1}
    assert [row["name"] for row in found["by"]["client"]] == ["claude-cli"]
    assert sum(row["paid"] for row in found["by"]["project"]) == pytest.approx(
        found["total"]["paid"], abs=1e-5
    )
    page = browser.get("/console").body.decode()
    assert "Spent</dt><dd>$" in page
    assert ">shop</a>" in page
    key = next(row["key"] for row in found["by"]["project"] if row["name"] == "shop")
    assert len(browser.get(f"/console/decisions.json?project={key}").json()["decisions"]) == 2
    assert browser.get("/console/decisions.json?project=p-0").json()["decisions"] == []


def test_people_are_named_by_their_keys() -> None:
    config = with_keys("ana-s", "ben-s", names=("ana", "ben"), console=ConsoleSpec(callers=("ana",)))
    with closing(Browser(console_gateway(config))) as browser:
        chat(browser, "/work/shop", "ana-s")
        chat(browser, "/work/shop", "ben-s")
        browser.post("/console/login", {"key": "ana-s"})
        found = browser.get("/console/home.json").json()
        assert {row["name"] for row in found["by"]["person"]} == {"ana", "ben"}
        assert [row["name"] for row in found["by"]["project"]] == ["shop", "shop"]  # two keys, two projects


def test_a_period_is_told_beside_the_one_before_it() -> None:
    ledger, now = MemoryLedger(), time.time()
    for number, days in enumerate((0, 1, 2, 8, 9)):
        made = a_decision(f"d-{number}", at=now - days * DAY, session=f"s-{number}")
        ledger.append(replace(made, input=replace(made.input, project="p-1", project_name="shop")))
        ledger.append(an_answer(f"d-{number}", model="demo-small"))
    with closing(Browser(console_gateway(ledger=ledger))) as browser:
        found = browser.get("/console/home.json").json()
        assert (found["period"], found["total"]["turns"], found["before"]["turns"]) == ("7d", 3, 2)
        assert [bar["requests"] for bar in found["bars"]] == [0, 0, 0, 0, 1, 1, 1]
        assert "+50 % against the period before" in browser.get("/console").body.decode()
        assert browser.get("/console/home.json?last=30d").json()["by"]["project"][0]["turns"] == 5
        assert browser.get("/console/home.json?last=5y").status == 400


def test_a_stream_without_usage_has_no_known_cost() -> None:
    """What OpenRouter, Ollama and vLLM stream unasked: $0 would be false, and the page says what to ask."""
    ledger, now = MemoryLedger(), time.time()
    made = a_decision("d", at=now, session="s")
    ledger.append(replace(made, input=replace(made.input, project="p-1", project_name="shop")))
    ledger.append(an_answer("d", model="demo-small", input_tokens=None, output_tokens=None))
    with closing(Browser(console_gateway(ledger=ledger))) as browser:
        page = browser.get("/console").body.decode()
        decision = browser.get("/console/decisions/d").body.decode()
    assert "cost unknown: no usage (a chat stream reports it where" in decision
    assert "Spent</dt><dd>unknown" in page
    assert '<td class="num">unknown</td><td class="num">unknown</td>' in page
    assert "1 answer without usage, whose cost is unknown: a chat stream reports it where" in page
    assert "stream_options.include_usage" in page


def test_decisions_of_an_empty_ledger_have_no_filter_to_clear() -> None:
    with closing(Browser(console_gateway())) as browser:
        empty, filtered = (
            browser.get(f"/console/decisions{asked}").body.decode() for asked in ("", "?tier=SIMPLE")
        )
    assert "No decision yet." in empty
    assert "No decision matches." in filtered


def test_without_prices_the_page_says_what_to_set() -> None:
    config = with_keys()
    models = {
        name: replace(model, input_per_million=None, output_per_million=None)
        for name, model in config.models.items()
    }
    with closing(Browser(console_gateway(replace(config, models=models)))) as browser:
        browser.chat("Hello!")
        page = browser.get("/console").body.decode()
        assert "No model has a price" in page
        assert 'Requests are on <a href="/console/now">' in page


def test_the_terminal_divides_the_same_money(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(file)) as ledger:
        for number in range(3):
            made = a_decision(f"d-{number}", at=1e9 + number, session=f"s-{number}")
            name = ("shop", "shop", "blog")[number]
            whose = {"project": f"p-{name}", "project_name": name, "caller": "ana"}
            ledger.append(replace(made, input=replace(made.input, **whose)))
            ledger.append(an_answer(made.id, model="demo-small"))
    config = tmp_path / "pointsman.toml"
    config.write_text(CONFIG)
    command = ["report", "savings", "--ledger", str(file), "--config", str(config), "--by"]
    ran = CliRunner().invoke(app, [*command, "project"])
    assert ran.exit_code == 0, ran.output
    lines = [line.split() for line in ran.output.splitlines() if line.startswith(("shop", "blog"))]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("shop", "2", "p-shop"),
        ("blog", "1", "p-blog"),
    ]
    found = json.loads(CliRunner().invoke(app, [*command, "person", "--json"]).output)
    assert [(row["name"], row["turns"]) for row in found["by"]["person"]] == [("ana", 3)]
    assert found["by"]["person"][0]["paid"] == found["paid"] > 0
