"""Each page, as a browser gets it: what it shows, what stays text, and what is a clear error."""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from pointsman.capabilities import CapabilityDecision, Strategy
from pointsman.config import ConsoleSpec
from pointsman.config.shapes import demo_config
from pointsman.console import _login
from pointsman.console._render import STATIC
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.ledger.reading import NO_PRICES, DecisionFilter, Page, Position
from pointsman.testing import a_decision
from support.consoles import Browser, console_gateway

#: What a caller may say to have a page do something.
PLANTED = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202etxt.exe \x1b[31mred"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGES = ["/console/now", "/console/decisions"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_shown_with_its_policy(browser: Browser, path: str) -> None:
    browser.chat("Hello!")
    page = browser.get(path)
    assert (page.status, page.headers["content-security-policy"]) == (200, POLICY)
    assert page.headers["cache-control"] == "no-store"
    assert b"demo-small" in page.body


@pytest.mark.parametrize(
    "path",
    [
        "/console/home", "/console/now", "/console/decisions", "/console/decisions/{id}",
        "/console/sessions", "/console/sessions/s-1", "/console/savings", "/console/quality",
        "/console/policy", "/console/label",
        "/console/try?request=Hello",
    ],
)  # fmt: skip
def test_every_view_is_json_and_csv_too(browser: Browser, path: str) -> None:
    name, _, query = path.format(id=browser.chat("Run the test suite and fix it")).partition("?")
    found = browser.get(f"{name}.json?{query}")
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert found.json()
    table = browser.get(f"{name}.csv?{query}")
    assert (table.status, table.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert b"," in table.body.partition(b"\n")[0]
    if name not in {"/console/home", "/console/now"}:
        assert f'href="{name}.json'.encode() in browser.get(path.format(id=name.rpartition("/")[2])).body


#: A page, a query that it does not understand, the parameter, and what the page has instead.
UNKNOWN = {
    "a list": ("/console/decisions.json", "by=hour", "by", "abstained, before, caller, "),
    "beside a known one": ("/console/decisions.json", "tier=SIMPLE&sort=cost", "sort", "it has abstained"),
    "a table": ("/console/decisions.csv", "Tier=SIMPLE", "Tier", "it has abstained"),
    "sums": ("/console/savings.json", "by=hour", "by", "it has baseline, last, since, until, zone"),
    "a page": ("/console/savings", "by=hour", "by", "it has baseline, last, since, until, zone"),
    "the last hour": ("/console/now.json", "last=24h", "last", "it has none"),
    "no parameters": ("/console/quality.json", "since=2026-01-01", "since", "it has none"),
    "an odd name": ("/console/quality.json", "%E2%80%AE=1", "?", "it has none"),
}


@pytest.mark.parametrize(("path", "query", "name", "known"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_parameter_is_no_answer(
    browser: Browser, path: str, query: str, name: str, known: str
) -> None:
    browser.chat("Hello!")
    found = browser.get(f"{path}?{query}")
    assert found.status == 400
    if path.endswith(("json", "csv")):
        told = found.json()["error"]
        assert told["message"] == f'unknown query parameter "{name}" of {path}'
        assert known in told["hint"]
    else:
        assert f"unknown query parameter &#34;{name}&#34; of {path}" in found.body.decode()
        assert known in found.body.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/console/decisions?text=a&last=1h&tier=&model=&session=&domain=&signal=&role=&stuck=&downgraded=yes",
        "/console/decisions?abstained=&labelled=no&status=&cost=&label=&caller=&since=2026-01-31&until=",
        "/console/decisions.json?limit=1",
        "/console/savings.json?last=24h&zone=-3&baseline=demo-large",
        "/console/try.json?request=Hello&format=chat",
        "/console/login?to=/console/decisions",
        "/console/static/console.js?v=1",
    ],
)
def test_known_parameters_are_understood(browser: Browser, path: str) -> None:
    assert browser.get(path).status in {200, 303}


def test_a_page_that_is_not_there_is_not_asked_for_its_parameters(browser: Browser) -> None:
    assert browser.get("/console/nothing?by=hour").status == 404


def test_what_is_tried_is_the_same_as_json(browser: Browser) -> None:
    long = '{"messages": [{"role": "user", "content": "' + "Prove this step by step. " * 200 + '"}]}'
    for entered, tier in (("prove this theorem step by step", "REASONING"), (long, "COMPLEX")):
        form = {"token": browser.token("/console/try"), "request": entered, "format": "chat"}
        posted = browser.post("/console/try.json", form)
        assert (posted.status, posted.json()["decision"]["tier"]) == (200, tier)
        assert posted.json()["guidance"]["mode"] == "on"
        page = browser.post("/console/try", form).body
        assert (b"Address of this view" in page) is (entered is not long)
    wrong = browser.post("/console/try.json", {**form, "request": "{"})
    assert (wrong.status, "not JSON" in wrong.json()["error"]) == (400, True)
    assert browser.post("/console/try.json", {"request": "Hello", "token": "forged"}).status == 401


def test_what_callers_say_stays_text(browser: Browser) -> None:
    decision = browser.chat(PLANTED, session=PLANTED.encode("ascii", "ignore").decode().replace("\x1b", ""))
    browser.post(
        f"/console/decisions/{decision}/outcome",
        {"token": browser.token(f"/console/decisions/{decision}"), "label": PLANTED, "comment": PLANTED},
    )
    for path in (*PAGES, f"/console/decisions/{decision}", f"/console/decisions?label={PLANTED[:8]}"):
        page = browser.get(path).body.decode()
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert "\u202e" not in page, path
        assert "\x1b" not in page, path
    shown = browser.get("/console/sessions").body.decode()
    [session] = set(re.findall(r'href="(/console/sessions/[^"?]+)"', shown))
    for path in (f"/console/decisions/{decision}.json", f"{session}.json"):
        found = browser.get(path)
        assert found.status == 200
        assert found.body.isascii(), path
        assert "\u202e" in json.dumps(found.json(), ensure_ascii=False), path
    shown = browser.get(f"/console/decisions/{decision}").body.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def test_an_empty_gateway_shows_the_lines_to_copy_with_the_address_in_use(browser: Browser) -> None:
    page = browser.get("/console").body.decode()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:4747" in page
    assert page.count('class="fits"') == page.count("not tried</span>") == 10
    assert "works</span>" not in page
    assert page.count('class="fails"') == 1  # Cursor calls from its maker's servers


def test_a_browser_at_the_root_finds_the_console_and_a_program_does_not(browser: Browser) -> None:
    assert browser.get("/").headers["location"] == "/console"
    assert browser.get("/", {"accept": "*/*"}).json()["name"] == "pointsman"


def test_a_console_that_is_off_is_not_there() -> None:
    config = msgspec.structs.replace(demo_config(), console=ConsoleSpec(enabled=False))
    with closing(Browser(console_gateway(config))) as browser:
        assert [browser.get(path).status for path in ("/console", "/console/decisions", "/")] == [
            404,
            404,
            200,
        ]


def test_a_decision_explains_itself(browser: Browser) -> None:
    decision = browser.chat("Prove the theorem step by step, then refactor the database architecture.")
    page = browser.get(f"/console/decisions/{decision}").body.decode()
    assert '<mark class="up" title="code">refactor</mark>' in page
    assert 'aria-label="Score of this decision: score' in page
    assert "<h3>The smallest change that gives another tier</h3>" in page
    assert 'name="policy"' in page


def test_a_decision_without_words_says_how_to_keep_them() -> None:
    with closing(Browser(console_gateway(ledger=MemoryLedger(text="off")))) as browser:
        page = browser.get(f"/console/decisions/{browser.chat('Refactor this!')}").body.decode()
    assert "No words are kept" in page
    assert "refactor" in page  # the dimension's keyword, from the recorded signal


@pytest.mark.parametrize(("mode", "is_told"), [("off", True), ("redacted", False), ("full", False)])
def test_the_page_label_says_when_no_words_are_kept(
    mode: Literal["off", "redacted", "full"], is_told: bool
) -> None:
    config = replace(demo_config(), ledger=replace(demo_config().ledger, text=mode))
    with closing(Browser(console_gateway(config, MemoryLedger(text=mode)))) as browser:
        page = browser.get("/console/label").body.decode()  # also while nothing waits for a label
        assert ("The words of prompts are not kept" in page) is is_told


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("tier=SIMPLE", 1),
        ("tier=REASONING", 0),
        ("model=demo-large", 1),
        ("session=s-1", 1),
        ("text=capital", 1),
        ("status=200", 2),
        ("status=500", 0),
        ("stuck=yes", 0),
        ("stuck=no", 2),
        ("labelled=no&last=1h", 2),
        ("labelled=no&label=good", 0),
        ("cost=1000", 0),
        ("since=2001-01-01", 2),
        ("until=2001-01-01T00:00", 0),
        ("limit=1", 1),
    ],
)
def test_filters_are_the_address(browser: Browser, query: str, count: int) -> None:
    browser.chat("What is the capital of France?", session="s-1")
    browser.chat("Hello!", session="s-2", model="demo-large")
    found = browser.get(f"/console/decisions.json?{query}").json()
    assert len(found["decisions"]) == count
    table = browser.get(f"/console/decisions.csv?{query}")
    assert (table.headers["content-type"], table.body.count(b"\n")) == ("text/csv; charset=utf-8", count + 1)


def test_capabilities_selected_are_listed_and_found(browser: Browser) -> None:
    ledger = browser.gateway.state.runtime.ledger
    names = ("send_mail", "<script>alert(1)</script>", "forecast", "search")
    for name, selected in (("of-four", names), ("of-one", names[:1]), ("of-none", ())):
        chosen = CapabilityDecision(strategy=Strategy.LOCAL, selected=selected)
        ledger.append(replace(a_decision(name), capabilities=chosen))
    page = browser.get("/console/decisions").body.decode()
    assert "selected: send_mail, &lt;script&gt;alert(1)&lt;/script&gt;, forecast, +1</span>" in page
    assert page.count("selected: ") == 2
    for query, found in (
        ("capability=send_mail", ["of-four", "of-one"]),
        ("capability=search", ["of-four"]),
        ("capability=send", []),
        ("capability=search&stuck=yes", []),
    ):
        rows = browser.get(f"/console/decisions.json?{query}").json()["decisions"]
        assert sorted(row["id"] for row in rows) == found
    table = browser.get("/console/decisions.csv?capability=search").body.decode()
    assert ",send_mail <script>alert(1)</script> forecast search," in table


def test_pages_follow_each_other_without_gap_or_repetition(browser: Browser) -> None:
    made = [browser.chat(f"Hello {number}!") for number in range(5)]
    found: list[str] = []
    following: Mapping[str, str] | None = {"limit": "2"}
    while following is not None:
        query = "&".join(f"{key}={value}" for key, value in following.items())
        page = browser.get(f"/console/decisions.json?{query}").json()
        found += [row["id"] for row in page["decisions"]]
        following = page["next"]
    assert found == made[::-1]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("status=ok", "status"),
        ("cost=much", "cost"),
        ("stuck=maybe", "stuck"),
        ("last=1y", "last"),
        ("since=yesterday", "since"),
        ("before=x_y", "before"),
        ("before=3", "before"),
        ("limit=0", "limit"),
    ],
)
def test_a_filter_that_is_none_is_named(browser: Browser, query: str, named: str) -> None:
    page = browser.get(f"/console/decisions?{query}")
    assert (page.status, f"&#34;{named}&#34; " in page.body.decode()) == (400, True)
    answer = browser.get(f"/console/decisions.json?{query}")
    assert (answer.status, answer.json()["error"]["message"].startswith(f'"{named}"')) == (400, True)


def test_a_label_is_no_formula(browser: Browser) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    browser.post(f"{path}/outcome", {"token": browser.token(path), "label": "=cmd|' /C calc'!A0"})
    assert b",'=cmd" in browser.get("/console/decisions.csv").body


def test_an_outcome_is_kept(browser: Browser) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    form = {"token": browser.token(path), "score": "0.5", "label": "fair", "comment": "slow"}
    assert browser.post(f"{path}/outcome", form).headers["location"] == f"{path}#outcome"
    found = browser.get(f"{path}.json").json()["outcomes"]
    assert [(each["score"], each["label"], each["comment"]) for each in found] == [(0.5, "fair", "slow")]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"score": "1.5"}, "must be a number from 0 to 1, not 1.5"),
        ({"score": "-1"}, "must be a number from 0 to 1, not -1"),
        ({"score": "nan"}, "must be a number from 0 to 1, not nan"),
        ({"score": "good"}, "must be a number from 0 to 1, not &#34;good&#34;"),
        ({}, "an outcome needs"),
        ({"label": "x" * 201}, "is longer than 200"),
    ],
)
def test_a_wrong_outcome_is_explained_on_the_page(
    browser: Browser, form: dict[str, str], message: str
) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    page = browser.post(f"{path}/outcome", {"token": browser.token(path), **form})
    assert (page.status, message in page.body.decode()) == (400, True), page.body
    assert browser.get(f"{path}.json").json()["outcomes"] == []


def test_a_decision_is_made_again_under_an_edited_policy(browser: Browser) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    token = browser.token(path)
    same = browser.post(f"{path}/again", {"token": token, "policy": ""}).body.decode()
    assert 'class="flag warn">changed' not in same
    edited = EDITED.format(boundaries="[-0.9, -0.8, -0.7]")
    other = browser.post(f"{path}/again", {"token": token, "policy": edited})
    assert (other.status, "<td>REASONING <span" in other.body.decode()) == (200, True), other.body


EDITED = """[upstreams.demo]
base_url = "demo:"
[models.small]
upstream = "demo"
id = "demo-small"
[tiers]
simple = "small"
reasoning = "small"
boundaries = {boundaries}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EDITED.format(boundaries='"low"'), "line 9 of the text: "),
        ("[tiers]\nboundries = [1, 2, 3]", "unknown key &#34;boundries&#34; in [tiers]; did you mean"),
        ("[tiers", "line 1 of the text: "),
    ],
)
def test_a_policy_that_does_not_load_names_line_and_key(browser: Browser, text: str, message: str) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    page = browser.post(f"{path}/again", {"token": browser.token(path), "policy": text})
    assert (page.status, message in page.body.decode()) == (400, True), page.body.decode()


def test_a_decision_that_retention_removed_is_said_to_be(browser: Browser) -> None:
    page = browser.get("/console/decisions/d-gone")
    assert (page.status, b"it was removed by retention" in page.body) == (404, True)
    assert browser.get("/console/decisions/d-gone.json").status == 404


class _Unreadable(MemoryLedger):
    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        raise StoreUnavailable("cannot read the ledger x.sqlite: database disk image is malformed")


@pytest.mark.parametrize("path", PAGES)
def test_a_ledger_that_cannot_be_read_is_said_to_be_and_the_console_lives(path: str) -> None:
    with closing(Browser(console_gateway(ledger=_Unreadable()))) as browser:
        page = browser.get(path)
        assert (page.status, b"database disk image is malformed" in page.body) == (503, True)
        assert browser.get("/console/static/console.css").status == 200


@pytest.mark.parametrize(
    "path", ["../app.py", "%2e%2e/app.py", "vendor", "nothing.js", "vendor/SHA256SUMS", "/etc/passwd"]
)
def test_nothing_but_the_files_of_the_console_is_served(browser: Browser, path: str) -> None:
    assert browser.get(f"/console/static/{path}").status == 404


def test_vendored_files_are_what_their_checksums_say() -> None:
    vendor = STATIC / "vendor"
    for line in (vendor / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    assert {file.name for file in vendor.iterdir()} == {
        "SHA256SUMS",
        *(line.split()[1] for line in (vendor / "SHA256SUMS").read_text().splitlines()),
    }


def test_a_form_is_bounded(browser: Browser) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    token = browser.token(path)
    assert browser.post(f"{path}/again", {"token": token, "policy": "x" * _login.MOST_BYTES}).status == 413
    many = {f"field{number}": "" for number in range(100)}
    assert browser.post(f"{path}/again", {"token": token, **many}).status == 413
