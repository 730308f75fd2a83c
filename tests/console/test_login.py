"""Who may open the console, and which changes it takes."""

from contextlib import closing

import pytest

from pointsman.config import Config, ConsoleSpec
from pointsman.console._login import MOST_FAILURES, MOST_SESSIONS, Logins
from pointsman.errors import Unauthorized
from support.consoles import HOST, KEY, Browser, console_gateway, with_keys

TWO = ("alice", "bob")


def test_without_a_login_every_page_leads_to_it() -> None:
    with closing(Browser(console_gateway(with_keys(KEY)))) as browser:
        for path in ("/console", "/console/decisions?tier=SIMPLE", "/console/decisions/d-1"):
            page = browser.get(path)
            assert (page.status, page.headers["location"].partition("?")[0]) == (303, "/console/login")
        assert browser.get("/console/decisions.json").status == 401
        assert browser.get("/console/events").status == 401
        assert browser.get("/console/login").status == 200


def test_a_key_opens_a_session_that_does_not_hold_it() -> None:
    with closing(Browser(console_gateway(with_keys(KEY)))) as browser:
        wrong = browser.post("/console/login", {"key": "another"})
        assert (wrong.status, b"no key of the gateway" in wrong.body, browser.cookie) == (401, True, "")
        answer = browser.post("/console/login", {"key": KEY, "to": "/console/decisions?tier=SIMPLE"})
        assert (answer.status, answer.headers["location"]) == (303, "/console/decisions?tier=SIMPLE")
        cookie = answer.headers["set-cookie"]
        assert KEY not in cookie
        assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= {
            part.strip() for part in cookie.split(";")
        }
        assert "Secure" not in cookie
        decision = browser.chat("Hello!", key=KEY)
        path = f"/console/decisions/{decision}"
        token = browser.token(path)
        assert browser.post(f"{path}/outcome", {"token": token, "label": "good"}).status == 303
        assert browser.post("/console/logout", {"token": token}).headers["location"] == "/console/login"
        assert browser.get(path).status == 303


def test_behind_tls_the_cookie_is_secure() -> None:
    with closing(Browser(console_gateway(with_keys(KEY)))) as browser:
        answer = browser.post("/console/login", {"key": KEY}, {"origin": f"https://{HOST}"})
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "to",
    ["https://evil.example", "//evil.example", "/console/../v1", "/v1", "", "/console\\evil", "/consolex"],
)
def test_a_login_leads_nowhere_else(to: str) -> None:
    with closing(Browser(console_gateway(with_keys(KEY)))) as browser:
        place = browser.post("/console/login", {"key": KEY, "to": to}).headers["location"]
        assert place.startswith("/console")
        assert "evil" not in place or place == "/console"


@pytest.mark.parametrize("token", ["", "forged", "\u00e9"])
def test_a_change_without_the_token_of_the_session_is_refused(browser: Browser, token: str) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    assert browser.post(f"{path}/outcome", {"token": token, "label": "good"}).status == 401
    assert browser.post(f"{path}/outcome", {"label": "good"}).status == 401
    assert browser.get(f"{path}.json").json()["outcomes"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "evil.example", "origin": "http://evil.example"},
    ],
)
def test_another_origin_is_refused(browser: Browser, headers: dict[str, str]) -> None:
    path = f"/console/decisions/{browser.chat('Hello!')}"
    form = {"token": browser.token(path), "label": "good"}
    assert browser.post(f"{path}/outcome", form, headers).status == 401
    assert browser.get(f"{path}.json").json()["outcomes"] == []


def test_without_keys_a_name_made_to_resolve_here_is_refused(browser: Browser) -> None:
    assert browser.get("/console", {"host": "evil.example"}).status == 401
    assert browser.get("/console", {"host": "localhost:1"}).status == 200


@pytest.mark.parametrize(
    ("config", "key", "admitted"),
    [
        (with_keys("a", "b", names=TWO), "a", False),
        (with_keys("a", "b", names=TWO, console=ConsoleSpec(callers=("alice",))), "a", True),
        (with_keys("a", "b", names=TWO, console=ConsoleSpec(callers=("alice",))), "b", False),
        (with_keys("a", names=("alice",)), "a", True),
        (with_keys("a", "b", names=("alice", "alice")), "b", True),
        (with_keys("a", names=("alice",), console=ConsoleSpec(callers=("bob",))), "a", False),
    ],
)
def test_of_several_callers_those_named_may_look(config: Config, key: str, admitted: bool) -> None:
    logins = Logins()
    if admitted:
        session = logins.begin(key, config)
        assert logins.find(session.id, config) == session
    else:
        with pytest.raises(Unauthorized, match="may not open the console"):
            logins.begin(key, config)


def test_sessions_end_are_bounded_and_follow_the_configuration() -> None:
    now = 0.0
    logins, config = Logins(lambda: now), with_keys("a", names=("alice",))
    first = logins.begin("a", config)
    assert logins.find(first.id, with_keys("b", names=("bob",))) is None  # the key was taken away
    first = logins.begin("a", config)
    others = [logins.begin("a", config) for _ in range(MOST_SESSIONS)]
    assert logins.find(first.id, config) is None
    now = config.console.login_hours * 3600
    assert logins.find(others[-1].id, config) is None
    assert logins.find("", config) is None


def test_wrong_keys_lock_nobody_out() -> None:
    """Once, 31 wrong keys a minute, of anybody, kept the operator's right key out."""
    with closing(Browser(console_gateway(with_keys(KEY)))) as browser:
        said = [browser.post("/console/login", {"key": "wrong"}) for _ in range(MOST_FAILURES + 1)]
        assert [page.status for page in said] == [401] * (MOST_FAILURES + 1)
        assert b"too many wrong keys" in said[-1].body
        assert b"too many wrong keys" not in said[-2].body
        assert browser.post("/console/login", {"key": KEY}).status == 303


def test_wrong_keys_are_counted_by_address() -> None:
    now = 0.0
    logins, config = Logins(lambda: now), with_keys("a", names=("alice",))
    for _ in range(MOST_FAILURES):
        with pytest.raises(Unauthorized, match="no key of the gateway"):
            logins.begin("wrong", config, "192.0.2.1")
    with pytest.raises(Unauthorized, match="too many"):
        logins.begin("wrong", config, "192.0.2.1")
    with pytest.raises(Unauthorized, match="no key of the gateway"):
        logins.begin("wrong", config, "192.0.2.2")
    assert logins.begin("a", config, "192.0.2.1").caller == "alice"
    now = 60.0
    with pytest.raises(Unauthorized, match="no key of the gateway"):
        logins.begin("wrong", config, "192.0.2.1")
    for number in range(3_000):
        with pytest.raises(Unauthorized):
            logins.begin("wrong", config, f"address {number}")
    assert len(logins._failures) <= 1_000
