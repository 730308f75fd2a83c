"""The page of a session: the run as a lane, switches of models, and what was added."""

import asyncio
from collections.abc import Sequence
from contextlib import closing

import msgspec
import pytest

from pointsman.console._session import lane
from pointsman.decision.decision import Decision, TextMode
from pointsman.stores.ledger import Attempt, MemoryLedger, Record
from pointsman.testing import a_decision
from pointsman.trajectory.step import CallOutcome, Step
from support.consoles import HOST, Browser, console_gateway
from support.in_process import ask


def _attempt(of: str, model: str) -> Attempt:
    return Attempt(decision=of, number=1, model=model, upstream="u", status=200, started_at=0.0, total_ms=1.0)


def _record(number: int, model: str, steps: str = "", *, message: int = 1, spoke: bool = False) -> Record:
    outcomes = {"E": CallOutcome.ERROR, ".": CallOutcome.OK, "R": CallOutcome.THROTTLED}
    made = tuple(Step("bash", "a", "r", 1, outcomes[each]) for each in steps)
    decision: Decision = a_decision(f"d-{number}", at=float(number))
    asked = msgspec.structs.replace(decision.input, steps=made, user_message=message, person_spoke=spoke)
    decision = msgspec.structs.replace(decision, input=asked)
    return Record(decision, (_attempt(decision.id, model),), (), None)


@pytest.mark.parametrize(
    ("records", "kinds", "switches"),
    [
        ([_record(1, "a")], "user request", 0),
        ([_record(1, "a", "E.")], "user error ok request", 0),
        ([_record(1, "a"), _record(2, "a", "R")], "user request throttled request", 0),
        ([_record(1, "a"), _record(2, "b", "E")], "user request error request", 1),
        ([_record(1, "a"), _record(2, "a", ".", message=2, spoke=True)], "user request ok user request", 0),
        ([_record(*each) for each in enumerate("abba")], "user request request request request", 2),
    ],
)  # fmt: skip
def test_the_lane_has_each_event_in_its_order(records: Sequence[Record], kinds: str, switches: int) -> None:
    made = lane(records)
    assert " ".join(mark.kind for mark in made.marks) == kinds
    assert len(made.switches) == switches
    assert [mark.x for mark in made.marks] == sorted({mark.x for mark in made.marks})


def _stuck(browser: Browser, calls: int) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "Run the tests"}]
    for number in range(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "Error: <script>alert(1)</script>"},
        ]
        tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
        browser.agent({"model": "auto", "messages": messages, "tools": tools}, session="stuck")


def test_a_stuck_agent_is_seen_with_what_it_was_told(browser: Browser) -> None:
    _stuck(browser, 4)
    page = browser.get("/console/sessions/stuck")
    text = page.body.decode()
    assert page.status == 200
    assert text.count('class="mark-error"') == 4
    assert 'class="mark-fired"' in text
    assert "after the hint, the streak went on" in text
    assert "<script>alert" not in text
    stuck = browser.get("/console/decisions.json?stuck=yes").json()["decisions"]
    assert [row["session"] for row in stuck] == ["stuck"]
    [classifier] = stuck[0]["classifiers"]
    assert f"stuck: {classifier}</span>" in browser.get("/console/decisions").body.decode()
    for name, count in ((classifier, 1), (classifier[:-1], 0), (f"stuck:{classifier}", 0)):
        found = browser.get(f"/console/decisions.json?classifier={name}").json()["decisions"]
        assert len(found) == count
    assert not any(each.startswith("stuck:") for each in stuck[0]["signals"])
    assert len(browser.get("/console/sessions/stuck.json").json()) == 4
    assert browser.get("/console/sessions/stuck.csv").body.count(b"\n") == 5


@pytest.mark.parametrize(
    ("session", "text", "shown"),
    [
        ("build-the-docs", "full", "build-the-docs"),  # the program's own name
        ("f-28eaa5ba7c7b947dc2573192", "full", "Fix the login page"),
        ("0a1b2c3d-0a1b-4c3d-8e9f-001122334455", "full", "Fix the login page"),
        ("f-28eaa5ba7c7b947dc2573192", "off", "a-client <time"),
        ("f-28eaa5ba7c7b947dc2573192", "hash", "a-client <time"),
    ],
)
def test_a_session_has_a_name_and_no_bare_hash(session: str, text: TextMode, shown: str) -> None:
    """A list of hashes that differ in nothing but the time cannot be searched by a person."""
    with closing(Browser(console_gateway(ledger=MemoryLedger(text=text)))) as browser:
        body = {"model": "auto", "messages": [{"role": "user", "content": "Fix the\nlogin page"}]}
        headers = {"x-session-id": session, "host": HOST, "user-agent": "a-client/1.2"}
        asyncio.run(ask(browser.gateway, "/v1/chat/completions", body, headers))
        for path in ("/console/now", "/console/decisions"):
            page = browser.get(path).body.decode()
            assert f'title="{session}">{shown}' in page, path
        [row] = browser.get("/console/decisions.json").json()["decisions"]
        page = browser.get(f"/console/decisions/{row['id']}").body.decode()
        assert f'title="{session}">{shown}' in page
        page = browser.get(f"/console/sessions/{session}").body.decode()
        assert f"<h1>Session {shown.partition(' <')[0]}</h1>" in page
        assert f"<code>{session}</code>" in page


def test_long_first_words_are_cut(browser: Browser) -> None:
    browser.chat("Fix it. " * 100, session="f-28eaa5ba7c7b947dc2573192")
    page = browser.get("/console/sessions/f-28eaa5ba7c7b947dc2573192").body.decode()
    assert f"<h1>Session {('Fix it. ' * 8)[:59]}…</h1>" in page


def test_a_session_that_is_gone_is_said_to_be(browser: Browser) -> None:
    page = browser.get("/console/sessions/a%2Fb")
    assert (page.status, b"no decision of session &#34;a/b&#34;" in page.body) == (404, True)
