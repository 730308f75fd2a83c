"""Sessions as a list, and one as a conversation: what was said, what served it, what it cost."""

from __future__ import annotations

import re
import time
from contextlib import closing

import msgspec
import pytest

from pointsman.cli.demo_traffic import one_round
from pointsman.config.shapes import demo_config
from pointsman.prices import dollars
from pointsman.stores.ledger import MemoryLedger
from pointsman.testing import a_decision, an_attempt
from support.consoles import Browser, console_gateway, console_state


def play(browser: Browser) -> None:
    for request in one_round("1"):
        if request.path == "/v1/chat/completions":
            browser.agent(request.body, request.session)


def test_sessions_are_listed_and_one_is_read_as_a_conversation(browser: Browser) -> None:
    """From the list to one session: the words, the calls of tools, what was added, and the money."""
    play(browser)
    listed = browser.get("/console/sessions.json").json()["sessions"]
    of = {row["session"]: row for row in listed}
    assert {"demo-stuck-agent-1", "demo-question-1"} <= of.keys()
    stuck = of["demo-stuck-agent-1"]
    assert (stuck["requests"], stuck["stuck"]) == (8, 1)
    assert stuck["cost"] > 0
    assert [row["session"] for row in browser.get("/console/sessions.json?stuck=yes").json()["sessions"]] == [
        "demo-stuck-agent-1"
    ]
    page = browser.get("/console/sessions/demo-stuck-agent-1").body.decode()
    said = page[page.index("Conversation</h2>") :]
    assert (
        said.index("tests/test_invoices.py")
        < said.index("<code>bash</code>")
        < said.index("Added by guidance")
    )
    assert said.count('class="said user"') == 1
    assert said.count('class="said model"') == 8
    assert "on demo-large" in said


def test_another_policy_is_shown_beside_each_answer(browser: Browser) -> None:
    play(browser)
    version = browser.get("/console/policy.json").json()["in_force"]
    page = browser.get(f"/console/sessions/demo-stuck-agent-1?version={version}").body.decode()
    assert page.count(">the same</span>") == 8
    assert "No model was asked." in page
    assert "is not kept" in browser.get("/console/sessions/demo-stuck-agent-1?version=none").body.decode()


def test_a_long_list_is_paged_without_a_session_twice(browser: Browser) -> None:
    for number in range(30):
        browser.chat("Hello!", f"s-{number:02}")
    first = browser.get("/console/sessions.json").json()
    names = [row["session"] for row in first["sessions"]]
    assert names == [f"s-{number:02}" for number in range(29, 4, -1)]
    query = "&".join(f"{key}={value}" for key, value in first["next"].items())
    second = browser.get(f"/console/sessions.json?{query}").json()
    assert [row["session"] for row in second["sessions"]] == [f"s-{number:02}" for number in range(4, -1, -1)]
    assert second["next"] is None


def test_words_that_were_not_kept_are_not_shown(browser: Browser) -> None:
    assert "No session yet." in browser.get("/console/sessions").body.decode()
    assert "No session matches." in browser.get("/console/sessions?project=p-0").body.decode()


def test_the_money_of_a_session_is_that_of_the_first_page() -> None:
    """Retries are paid for, and the baseline would have read the turn before from its cache."""
    ledger = MemoryLedger()
    at = time.time()
    for number in (1, 2, 3):
        decision = a_decision(f"d-{number}", session="s", at=at + number / 1e3)
        ledger.append(decision)
        for tried, error in enumerate(("cut", "") if number == 2 else ("",), start=1):
            ledger.append(
                msgspec.structs.replace(
                    an_attempt(decision.id, tried),
                    error=error,
                    model="demo-small",
                    input_tokens=100_000,
                    cached_tokens=0,
                    output_tokens=0 if error else 10,
                )
            )
    config = demo_config()
    large = msgspec.structs.replace(config.models["demo-large"], cached_input_per_million=0.1)
    config = msgspec.structs.replace(config, models={**config.models, "demo-large": large})
    with closing(Browser(console_gateway(ledger=ledger))) as browser:
        browser.gateway.replace(console_state(config, browser))
        home = browser.get("/console/home.json").json()["total"]
        [listed] = browser.get("/console/sessions.json").json()["sessions"]
        page = browser.get("/console/sessions/s").body.decode()
    assert home["counted"] == 3
    assert home["retries"] > 0
    assert home["baseline_cache"] > 0
    assert listed["cost"] == pytest.approx(home["paid"], abs=1e-6)
    [tile] = re.findall(r"<dt>Cost</dt><dd>(.*?)</dd>", page)
    assert tile == f"{dollars(home['paid'])} <small>{dollars(home['expected'])} on demo-large</small>"
    lines = re.findall(r'<span class="dim">\$([\d.]+) on demo-large', page)
    assert sum(map(float, lines)) == pytest.approx(home["expected"], rel=0.05)
