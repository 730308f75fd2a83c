"""The pages with which a person works: Label, Policy with replay, and Try."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.config import load
from pointsman.config.shapes import demo_config
from pointsman.console._jobs import Replays
from pointsman.console._label import CHOICES
from pointsman.errors import Overloaded
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import DecisionFilter, Outcome, PolicyText
from pointsman.stores.ledger.reading import Page
from support.consoles import Browser, console_gateway, console_state, demo_engine

#: Near a boundary by the profile ``default``, and so worth a label.
NEAR = "Run the test suite and fix it"
POLICY = """[upstreams.demo]
base_url = "demo:"
[models.demo-large]
upstream = "demo"
id = "demo-large"
[tiers]
simple = "demo-large"
"""


def test_labels_are_given_one_after_another(browser: Browser) -> None:
    made = [browser.chat(NEAR, session=f"s-{number}") for number in range(3)]
    token = browser.token("/console/label")
    for choice, wanted in zip(CHOICES, reversed(made), strict=False):
        page = browser.get("/console/label").body.decode()
        assert f'action="/console/label/{wanted}"' in page
        assert f'data-key="{choice.key}"' in page
        form = {"token": token, "score": str(choice.score), "label": choice.label}
        assert browser.post(f"/console/label/{wanted}", form).headers["location"] == "/console/label"
    assert b"Nothing waits for a label" in browser.get("/console/label").body
    said = [browser.get(f"/console/decisions/{each}.json").json()["outcomes"][0]["score"] for each in made]
    assert said == [0.5, 0.25, 0.0]
    assert browser.get("/console/label.json").json() == {
        "labelled": 3,
        "pairs": {"models": [], "prompts": 0, "single": 1},
        "is_complete": True,
        "queue": [],
    }


def test_a_decision_is_put_off(browser: Browser) -> None:
    first, second = (browser.chat(NEAR, session=session) for session in ("a", "b"))
    token = browser.token("/console/label")
    browser.post(f"/console/label/{second}", {"token": token, "skip": "1"})
    assert f'action="/console/label/{first}"' in browser.get("/console/label").body.decode()
    assert browser.get(f"/console/decisions/{second}.json").json()["outcomes"] == []


def test_a_label_out_of_bounds_is_explained(browser: Browser) -> None:
    decision = browser.chat(NEAR)
    form = {"token": browser.token("/console/label"), "score": "2"}
    page = browser.post(f"/console/label/{decision}", form)
    assert (page.status, b"must be a number from 0 to 1, not 2" in page.body) == (400, True)


def test_the_policy_in_force_is_shown_without_secrets(browser: Browser) -> None:
    browser.chat("Hello!")
    page = browser.get("/console/policy").body.decode()
    assert "demo-large at demo; $3.00 in, $15.00 out per million" in page
    found = browser.get("/console/policy.json").json()
    assert [(each["decisions"], each["version"]) for each in found["versions"]] == [(1, found["in_force"])]
    assert 'simple = [{ model = "demo-small" }]' in found["toml"] or 'simple = "demo-small"' in found["toml"]


def test_a_period_is_replayed_under_another_policy(browser: Browser) -> None:
    decision = browser.chat("Hello!")
    form = {"token": browser.token("/console/policy"), "last": "1h", "policy": POLICY}
    place = browser.post("/console/policy/replay", form).headers["location"]
    found = _finished(browser, place)
    assert (found["state"], found["summary"]["replayed"], found["summary"]["changed"]["model"]) == (
        "done",
        1,
        1,
    )
    page = browser.get(place).body.decode()
    assert f'href="/console/decisions/{decision}"' in page
    assert "demo-small → demo-large" in page
    assert browser.get(f"{place}.csv").body.splitlines()[1].startswith(decision.encode())
    assert place in browser.get("/console/policy").body.decode()


def test_a_replay_says_whether_the_other_model_is_good_enough(browser: Browser) -> None:
    """The page gives the answer of the page Quality about the models that change."""
    decision = browser.chat("Hello!")
    ledger = browser.gateway.state.runtime.ledger
    for model, score in (("", 0.5), ("demo-large", 1.0)):
        ledger.append(Outcome(decision=decision, model=model, score=score))
    ledger.flush()
    priced = "".join(
        f'{name} = {{ upstream = "demo", id = "x", input_per_million = 1, output_per_million = {price} }}\n'
        for name, price in (("demo-small", 2), ("demo-large", 9))
    )
    policy = f'[upstreams.demo]\nbase_url = "demo:"\n[models]\n{priced}[tiers]\nsimple = "demo-large"\n'
    form = {"token": browser.token("/console/policy"), "last": "1h", "policy": policy}
    place = browser.post("/console/policy/replay", form).headers["location"]
    said = _finished(browser, place)["summary"]["models"][0]["quality"]
    needs = (
        "“demo-small” beside “demo-large” needs about 959 more pairs (1 of the 30 that the first look takes)."
    )
    assert said == (f"Not known yet: the one request that changes has labels of both models; {needs}")
    assert f"demo-small → demo-large, 1 turn. Good enough? {said}" in unescape(
        browser.get(place).body.decode()
    )
    assert f"Not known yet: {needs}" in unescape(browser.get("/console/quality").body.decode())


def test_of_two_replays_begun_at_once_one_runs(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, each had looked for another one before either was among the jobs."""
    browser.chat("Hello!")
    ledger, both, over = browser.gateway.state.runtime.ledger, threading.Barrier(2), threading.Event()
    search = ledger.search

    def together(wanted: DecisionFilter, *, limit: int) -> Page:
        both.wait(30)
        return search(wanted, limit=limit)

    def begun(_: int) -> str:
        try:
            return replays.begin(ledger, demo_engine(), None, None)
        except Overloaded as error:
            return str(error)

    monkeypatch.setattr(ledger, "search", together)
    monkeypatch.setattr("pointsman.console._jobs.replay_period", lambda *_, **__: over.wait(30))
    replays = Replays()
    with ThreadPoolExecutor(2) as threads:
        said = list(threads.map(begun, range(2)))
    over.set()
    assert said.count("a replay runs already; wait for it, or cancel it") == 1


def _finished(browser: Browser, place: str) -> dict[str, Any]:
    until = time.monotonic() + 30
    while (found := browser.get(f"{place}.json").json())["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.01)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"last": "1h", "policy": ""}, "no decision in this period"),
        ({"last": "1h", "policy": '[tiers]\nprofile = "nothing.toml"'}, "may name only files and classes"),
        (
            {"last": "1h", "policy": '[capabilities]\napplication = "app.py"'},
            "may name only files and classes",
        ),
        ({"last": "1h", "policy": '[console]\ncurve = "/etc/hosts"'}, "may name only files and classes"),
        ({"last": "1h", "policy": '[ext_proc]\nclient_ca = "/etc/hosts"'}, "may name only files and classes"),
        ({"last": "1h", "policy": '[tiers]\nkinds = "/etc/hostname"'}, "may name only files and classes"),
        (
            {"last": "1h", "policy": '[[guidance.providers]]\nentry_point = "os:PathLike"'},
            "may name only files and classes",
        ),
        (
            {"last": "1h", "policy": "[[guidance.providers]]\nclassifier = {any = [{entry_point = 'a:B'}]}"},
            "may name only files and classes",
        ),
        ({"last": "1h", "policy": '[tiers]\nprofile = "a\\u0000b"'}, "may name only files and classes"),
        ({"last": "1h", "policy": "[tiers]\nsimpel = 1"}, "line 2 of the text: unknown key &#34;simpel&#34;"),
        ({"last": "1h", "policy": '[tiers]\nsimple = "large"'}, "must be whole: upstreams, models, tiers"),
        ({"last": "1y", "policy": ""}, "&#34;last&#34; must be one of"),
    ],
)
def test_a_replay_that_cannot_begin_says_why(browser: Browser, form: dict[str, str], message: str) -> None:
    page = browser.post("/console/policy/replay", {"token": browser.token("/console/policy"), **form})
    assert (page.status, message in page.body.decode()) == (400, True), page.body.decode()


@pytest.mark.parametrize("key", ["simple", "base_url"])
def test_an_entered_policy_reads_no_variable_of_the_environment(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "planted-key")
    text = (
        '[upstreams.main]\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "${PROVIDER_KEY}"\n'
        '[models]\nsmall = { upstream = "main", id = "small-1" }\n'
        '[tiers]\nsimple = "small"\nmedium = "small"\ncomplex = "small"\nreasoning = "small"\n'
    )
    path = f"/console/decisions/{browser.chat('Hello!')}"
    form = {"token": browser.token(path), "policy": text}
    assert browser.post(f"{path}/again", form).status == 200
    lines = (f'{key} = "${{PROVIDER_KEY}}"' if line.startswith(key) else line for line in text.split("\n"))
    page = browser.post(f"{path}/again", form | {"policy": "\n".join(lines)})
    assert (page.status, "planted-key" in page.body.decode()) == (200 if key == "base_url" else 400, False)
    assert (page.status == 400) == ("variables of the environment are not read here" in page.body.decode())


@pytest.mark.parametrize("table", ["ledger", "sessions"])
def test_an_entered_policy_does_not_tell_which_users_and_folders_there_are(
    browser: Browser, tmp_path: Path, table: str
) -> None:
    text = '[upstreams.m]\nbase_url = "demo:"\n[models]\ns = { upstream = "m", id = "s" }\n'
    text += f'[tiers]\nsimple = "s"\n[{table}]\n'
    path = f"/console/decisions/{browser.chat('Hello!')}"
    for named in ("~root/a", "~nobody-of-this-name/a", str(tmp_path), str(tmp_path / "none"), "a" * 5_000):
        form = {"token": browser.token(path), "policy": f"{text}path = {json.dumps(named)}\n"}
        assert browser.post(f"{path}/again", form).status == 200, named


@pytest.mark.parametrize(
    "provider",
    [
        'entry_point = "planted:Said"',
        'text = "Stop."\nclassifier = { not = { entry_point = "planted:Said" } }',
    ],
)
def test_an_entered_policy_runs_no_code(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: str
) -> None:
    """Once, a viewer's text had any module imported: the key that names one had been renamed."""
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\nclass Said: version = '1'\n"
    (tmp_path / "planted.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = '[upstreams.m]\nbase_url = "demo:"\n[models]\ns = { upstream = "m", id = "s" }\n'
    text += '[tiers]\nsimple = "s"\n'
    path = f"/console/decisions/{browser.chat('Hello!')}"
    text = f"{text}[[guidance.providers]]\n{provider}\n"
    ledger = browser.gateway.state.runtime.ledger
    ledger.append(PolicyText(version="theirs", text=text))  # the ledger may be another's
    decision = ledger.get(browser.chat("Hello!"))
    assert decision is not None
    ledger.append(msgspec.structs.replace(decision, id="d-theirs", policy="theirs"))
    ledger.flush()
    for chosen in ({"policy": text}, {"version": "theirs"}):
        page = browser.post(f"{path}/again", {"token": browser.token(path), **chosen})
        assert "may name only files and classes that the configuration names" in page.body.decode()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("address", "is_priced"), [("https://api.openai.com/v1", True), ("${LLM_URL}", False)]
)
def test_a_replay_names_models_without_a_price(browser: Browser, address: str, is_priced: bool) -> None:
    """The catalogue's prices belong to an address, which an entered policy cannot take from a variable."""
    browser.chat("Hello!")
    policy = f'[upstreams.m]\nbase_url = "{address}"\n[models]\ns = {{ upstream = "m", id = "gpt-5" }}\n'
    form = {
        "last": "1h",
        "policy": f'{policy}[tiers]\nsimple = "s"\n',
        "token": browser.token("/console/policy"),
    }
    place = browser.post("/console/policy/replay", form).headers["location"]
    _finished(browser, place)
    assert ("The price of s is unknown" in browser.get(place).body.decode()) != is_priced
    assert json.loads(browser.get(f"{place}.json").body)["unpriced"] == ([] if is_priced else ["s"])


def test_a_text_that_came_back_is_posted_again(browser: Browser) -> None:
    """A browser ends the lines of a text area with CR LF."""
    path = f"/console/decisions/{browser.chat('Hello!')}"
    token, text = browser.token(path), POLICY
    for _ in range(2):
        page = browser.post(f"{path}/again", {"token": token, "policy": text.replace("\n", "\r\n")})
        assert (page.status, b"demo-large" in page.body) == (200, True), page.body.decode()
        text = unescape(page.body.decode().partition('name="policy"')[2].partition(">")[2])
        text = text.partition("</textarea>")[0]
        assert text == POLICY


def test_a_replay_that_is_not_there_is_said_to_be(browser: Browser) -> None:
    assert browser.get("/console/policy/replays/nothing").status == 404


def test_the_policy_as_a_file_decides_the_same(browser: Browser) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    text = browser.get("/console/policy.json").json()["toml"]
    page = browser.post(f"{path}/again", {"token": browser.token(path), "policy": text})
    assert (page.status, b"changed</span>" in page.body) == (200, False), page.body.decode()


def test_the_policy_in_force_decides_again_where_it_names_a_file_beside_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration names it relatively, the printed policy in full: it is the same file."""
    monkeypatch.chdir(tmp_path.parent)  # not where the file stands
    listed = [{"name": "send_mail", "instructions": "Send an e-mail"}]
    (tmp_path / "caps.json").write_text(json.dumps(listed))
    (tmp_path / "other.json").write_text(json.dumps(listed))
    file = tmp_path / "pointsman.toml"
    file.write_text(f'{POLICY}[capabilities]\nfile = "caps.json"\n[ledger]\npath = "l.sqlite"\n')
    with closing(Builder(lambda: load(file))) as builder, closing(Browser(Gateway(builder()))) as browser:
        path = f"/console/decisions/{browser.chat('Hello!')}"
        token, text = browser.token(path), browser.get("/console/policy.json").json()["toml"]
        assert str(tmp_path / "caps.json") in text
        for entered in (text, text.replace(str(tmp_path / "caps.json"), "caps.json")):
            page = browser.post(f"{path}/again", {"token": token, "policy": entered})
            assert page.status == 200, page.body.decode()
        changed = text.replace("caps.json", "other.json")
        other = browser.post(f"{path}/again", {"token": token, "policy": changed})
        assert (other.status, b"may name only files and classes" in other.body) == (400, True)


@pytest.mark.parametrize(
    ("entered", "shown"),
    [
        ("prove this theorem step by step", "REASONING"),
        ('{"messages": [{"role": "user", "content": "Hello!"}]}', "SIMPLE"),
        ("<script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_what_is_entered_is_decided(browser: Browser, entered: str, shown: str) -> None:
    page = browser.post("/console/try", {"token": browser.token("/console/try"), "request": entered})
    assert (page.status, shown in page.body.decode()) == (200, True), page.body.decode()
    assert b"<script>alert" not in page.body
    assert browser.get("/console/decisions.json").json()["decisions"] == []


@pytest.mark.parametrize(
    ("entered", "message"),
    [
        ("{not json", "not JSON"),
        ('{"messages":' + "[" * 50_000, "nested too deep"),
        ('{"model": "auto"}', "a whole request has"),
        ('{"messages": 3}', "messages"),
        ('{"model": "nothing", "messages": []}', "nothing"),
    ],
)
def test_what_cannot_be_decided_says_why(browser: Browser, entered: str, message: str) -> None:
    page = browser.post("/console/try", {"token": browser.token("/console/try"), "request": entered})
    assert (page.status, message in page.body.decode()) == (400, True), page.body.decode()


def test_the_test_case_of_a_try_passes(browser: Browser) -> None:
    form = {"token": browser.token("/console/try"), "request": 'It\'s "quoted"\nand </textarea>'}
    page = browser.post("/console/try", form).body.decode()
    assert "</textarea>\n" not in page.partition('name="request"')[2].partition("</textarea>")[0]
    assert "def test_tier() -&gt; None:" in page
    assert demo_config().source == ""


def test_an_earlier_policy_decides_again() -> None:
    with closing(Browser(console_gateway())) as browser:
        decision = browser.chat("Hello!")
        before = browser.get("/console/policy.json").json()["policy"]
        tiers = msgspec.structs.replace(demo_config().tiers, simple="demo-large")
        browser.gateway.replace(console_state(msgspec.structs.replace(demo_config(), tiers=tiers), browser))
        path = f"/console/decisions/{decision}"
        token = browser.token(path)
        now = browser.get("/console/policy.json").json()["policy"]
        assert now != before
        assert f"{before}, earlier" in browser.get(path).body.decode()
        changed = "changed</span>"
        for version, differs in ((now, True), (before, False)):
            page = browser.post(f"{path}/again", {"token": token, "version": version}).body.decode()
            assert (changed in page) is differs
        unknown = browser.post(f"{path}/again", {"token": token, "version": "nothing"})
        assert (unknown.status, b"is not kept" in unknown.body) == (400, True)
        browser.chat("Hello!")
        listed = browser.get("/console/policy.json").json()["versions"]
        assert [(each["version"], each["has_text"]) for each in listed] == [(now, True), (before, True)]
        page = browser.get(f"/console/policy?version={before}").body.decode()
        assert "What changed since" in page
        assert '+simple = "demo-large"' in page.replace("&#34;", '"')
        assert browser.get("/console/policy?version=nothing").status == 404
