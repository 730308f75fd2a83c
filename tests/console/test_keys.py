"""The page Keys, and what the roles of keys allow in the console."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.console import _now
from pointsman.upstreams.port import hash_key
from support.consoles import Browser, console_gateway, console_state
from support.in_process import Received, ask
from support.limited import CHAT, Trial

KEYS = """
[keys.alice]
team = "ml"
budget = { money = 0.1, per = "week" }
models = ["small"]
[keys.vera]
role = "viewer"
[keys.adam]
role = "admin"
[keys.old]
expires = 2020-01-31
role = "admin"
[keys.gone]
revoked = true
role = "admin"
[teams.ml]
requests_per_minute = 9
"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with closing(Browser(Trial(KEYS).gateway)) as made:
        yield made


def signed_in(browser: Browser, key: str) -> int:
    return browser.post("/console/login", {"key": key}).status


def test_who_may_open_the_console(browser: Browser) -> None:
    found = {name: signed_in(browser, name) for name in ("alice", "vera", "adam", "old", "gone")}
    assert found == {"alice": 401, "vera": 303, "adam": 303, "old": 401, "gone": 401}


def test_an_admin_sees_what_is_left(browser: Browser) -> None:
    browser.agent(CHAT, "s-1", "alice")
    assert signed_in(browser, "adam") == 303
    page = browser.get("/console/keys").body.decode()
    assert "Counted in a file of this machine" in page
    assert 'data-go="k" aria-current="page"' in page
    rows = {row["name"]: row for row in browser.get("/console/keys.json").json()["keys"]}
    assert [rows[name]["state"] for name in ("alice", "old", "gone")] == ["valid", "expired", "revoked"]
    (budget,) = rows["alice"]["limits"]
    assert (budget["most"], budget["per"], rows["alice"]["models"]) == (0.1, "week", ["small"])
    (rate,) = rows["ml"]["limits"]
    assert (rate["kind"], rate["most"], rows["ml"]["keys"]) == ("requests", 9, 1)
    lines = list(csv.DictReader(io.StringIO(browser.get("/console/keys.csv").body.decode())))
    assert [line["name"] for line in lines] == ["alice", "vera", "adam", "old", "gone", "ml"]
    assert (lines[0]["limit"], lines[0]["per"], lines[1]["limit"]) == ("money", "week", "")


def test_what_was_used_is_that_of_the_window_of_now() -> None:
    trial = Trial('[keys.adam]\nbudget = { money = 1, per = "month" }\nrole = "admin"\n')
    with closing(Browser(trial.gateway)) as browser:
        browser.agent(CHAT, "s-1", "adam")
        assert signed_in(browser, "adam") == 303
        (row,) = browser.get("/console/keys.json").json()["keys"]
        (budget,) = row["limits"]
        # The page takes the gateway's clock, which is the test's.
        assert (budget["used"], budget["left"], budget["text"]) == (0.05, 0.95, "0.95 of 1.00 per month left")
        assert budget["ends_at"] == 1_769_904_000.0  # 2026-02-01
        assert "window ends" in browser.get("/console/keys").body.decode()


def test_a_viewer_reads_and_changes_nothing(browser: Browser) -> None:
    decision = browser.agent(CHAT, "s-1", "alice")
    assert signed_in(browser, "vera") == 303
    path = f"/console/decisions/{decision}"
    token = browser.token(path)
    assert b"/console/keys" not in browser.get("/console").body
    for ending in ("", ".json", ".csv"):
        assert browser.get(f"/console/keys{ending}").status == 403
    refused = browser.post(f"{path}/outcome", {"token": token, "label": "good"})
    assert (refused.status, b"a viewer changes nothing here" in refused.body) == (403, True)
    assert browser.post(f"/console/label/{decision}", {"token": token, "score": "1"}).status == 403
    assert browser.post("/console/policy/replay", {"token": token}).status == 403
    for ending in ("", ".json", ".csv"):
        assert browser.post(f"/console/try{ending}", {"token": token, "request": "Hello!"}).status == 200
    assert browser.post("/console/logout", {"token": token}).status == 303


def test_a_viewer_is_offered_no_label() -> None:
    tables = '[keys.vera]\nrole = "viewer"\n[keys.adam]\nrole = "admin"\n'
    with closing(Browser(Trial(tables).gateway)) as browser:
        browser.chat("Run the test suite and fix it", key="adam")  # near a boundary
        found = {}
        for name in ("vera", "adam"):
            assert signed_in(browser, name) == 303
            page = browser.get("/console/label").body.decode()
            found[name] = ("A viewer labels nothing" in page, 'action="/console/label/' in page)
        assert found == {"vera": (True, False), "adam": (False, True)}


def test_a_key_that_a_reload_revokes_is_signed_out() -> None:
    trial = Trial('[keys.adam]\nrole = "admin"\n')
    with closing(Browser(trial.gateway)) as browser:
        assert signed_in(browser, "adam") == 303
        assert browser.get("/console/keys").status == 200
        trial.reload('[keys.adam]\nrole = "admin"\nrevoked = true\n')
        assert browser.get("/console/keys").headers["location"].startswith("/console/login")


@pytest.mark.parametrize(
    "after", ["revoked = true\n", "[console]\nenabled = false\n"], ids=["key", "console"]
)
def test_live_events_end_with_the_key_and_with_the_console(
    monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    monkeypatch.setattr(_now, "_EVERY", 0.001)
    trial = Trial('[keys.adam]\nrole = "admin"\n')

    async def watched(browser: Browser) -> Received:
        watching = asyncio.create_task(
            ask(trial.gateway, "/console/events", b"", {"cookie": browser.cookie}, method="GET")
        )
        for _ in range(1000):  # turns of the loop: the stream has begun
            await asyncio.sleep(0)
        trial.reload(f'[keys.adam]\nrole = "admin"\n{after}')
        async with asyncio.timeout(30):
            return await watching

    with closing(Browser(trial.gateway)) as browser:
        assert signed_in(browser, "adam") == 303
        assert browser._loop.run(watched(browser)).status == 200


def test_without_keys_the_page_says_how_to_make_one() -> None:
    with closing(Browser(Trial("").gateway)) as browser:
        page = browser.get("/console/keys")
        assert (page.status, b"pointsman keys new NAME --write" in page.body) == (200, True)
        assert browser.get("/console/keys.json").json() == {"keys": [], "unnamed": 0}


CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"

[models.small]
upstream = "main"
id = "small"
[tiers]
simple = "small"
[teams.ml]
requests_per_minute = 9
"""


def test_a_key_is_made_and_shown_once(tmp_path: Path) -> None:
    """From the form to a configuration that takes the key; it is on no later page."""
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG)
    with closing(Browser(console_gateway())) as browser:
        browser.gateway.replace(console_state(load(file), browser))
        form = {"token": browser.token("/console/keys"), "name": "ana", "team": "ml"}
        page = browser.post("/console/keys", form)
        found = re.search(rb">(pm-[A-Za-z0-9_-]{43})<", page.body)
        assert page.status == 200
        assert found
        key = found[1].decode()
        loaded = load(file)
        assert (loaded.keys["ana"].team, loaded.keys["ana"].sha256) == ("ml", hash_key(key).hex())
        assert key not in file.read_text()
        assert key.encode() not in browser.get("/console/keys").body
        browser.gateway.replace(console_state(loaded, browser))
        assert browser.get("/console/keys").status == 303  # to the login: keys are asked for now
        assert browser.post("/console/login", {"key": key}).status == 303
        assert b">ana" in browser.get("/console/keys").body


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "<script>"])
def test_a_name_that_names_no_key_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG)
    with closing(Browser(console_gateway())) as browser:
        browser.gateway.replace(console_state(load(file), browser))
        page = browser.post("/console/keys", {"token": browser.token("/console/keys"), "name": name})
        assert (page.status, b"cannot name a key" in page.body) == (400, True)
        assert b"<script>" not in page.body
        assert file.read_text() == CONFIG


def test_a_viewer_makes_no_key_and_a_gateway_without_a_file_says_so(browser: Browser) -> None:
    assert signed_in(browser, "vera") == 303
    form = {"token": browser.token("/console/try"), "name": "eve"}
    assert browser.post("/console/keys", form).status == 403
    with closing(Browser(console_gateway())) as demo:
        page = demo.post("/console/keys", {"token": demo.token("/console/keys"), "name": "eve"})
        assert (page.status, b"no configuration file" in page.body) == (400, True)


def test_pages_are_compressed_for_who_takes_it(browser: Browser) -> None:
    assert signed_in(browser, "adam") == 303
    plain = browser.get("/console/keys")
    packed = browser.get("/console/keys", {"accept-encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 2
    assert b"<h1>Keys</h1>" in gzip.decompress(packed.body)
    sheet = "/console/static/console.css"
    assert gzip.decompress(browser.get(sheet, {"accept-encoding": "gzip"}).body) == browser.get(sheet).body
