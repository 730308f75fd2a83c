"""What the doctor looks at, and what it says is wrong."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.config import Config
from pointsman.diagnostics import Check, describe_check, diagnose
from pointsman.diagnostics import _doctor as doctor_module
from pointsman.diagnostics._doctor import install_command
from pointsman.errors import LexiconError
from pointsman.stores.ledger import SqliteLedger
from pointsman.stores.sessions import SqliteSessions
from pointsman.testing import a_decision
from support.servers import ScriptedUpstream, reply

KEY = "sk-canary"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.setenv("MAIN_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor_module, "_engine", lambda _: Check("engine", ok=True, detail="not looked at"))
    return tmp_path / "pointsman.toml"


def looked_at(file: Path, text: str) -> dict[str, Check]:
    file.write_text(text)
    return {check.name: check for check in diagnose(file)}


def test_all_is_well_with_the_demo(file: Path) -> None:
    checks = looked_at(file, "[upstreams.demo]\nbase_url = 'demo:'\n")
    assert [check.name for check in checks.values() if not (check.ok or check.is_advice)] == []
    clients = {name for name in checks if name.startswith("client ")}
    assert {*checks} - clients == {
        "configuration", "gateway", "engine", "ledger", "sessions", "prices", "upstream demo"
    }  # fmt: skip
    assert "client Claude Code" in clients
    assert "will be made" in checks["ledger"].detail
    assert not (file.parent / "state").exists()


def test_the_engine_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked() -> Check:
        return doctor_module._tried("engine", doctor_module._engine, Config())

    check = looked()
    assert check.ok
    assert check.detail.endswith(" signals")

    def refuse(_: object) -> None:
        raise LexiconError("a pattern is wrong")

    monkeypatch.setattr(doctor_module, "build_engine", refuse)
    assert looked() == Check("engine", ok=False, detail="a pattern is wrong")


def test_without_a_file_and_with_a_wrong_one_nothing_else_is_looked_at(file: Path) -> None:
    [check] = diagnose(None)
    assert (check.ok, check.hint) == (False, "pointsman config init")
    file.write_text("[tires]\n[guidance]\nmode = 3\n")
    checks = list(diagnose(None))
    assert [check.name for check in checks] == ["configuration", "configuration"]
    assert "did you mean" in checks[0].detail


def test_stores_in_use_are_opened(file: Path) -> None:
    ledger = SqliteLedger(file.with_name("l"))
    ledger.append(a_decision("d"))
    ledger.close()
    sessions = SqliteSessions(file.with_name("s"))
    sessions.put("s", b"{}")
    sessions.close()
    checks = looked_at(file, "[ledger]\npath = 'l'\n[sessions]\nstore = 'sqlite'\npath = 's'\n")
    assert checks["sessions"] == Check("sessions", ok=True, detail="sqlite, 1 kept")
    assert checks["ledger"].ok


def test_stores_that_cannot_be_used_are_told(file: Path) -> None:
    for name in ("l", "s"):
        with closing(sqlite3.connect(file.with_name(name))) as other:
            other.execute("CREATE TABLE theirs (x)")
    checks = looked_at(file, "[ledger]\npath = 'l'\n[sessions]\nstore = 'sqlite'\npath = 's'\n")
    assert not checks["ledger"].ok
    assert not checks["sessions"].ok


def test_a_store_in_a_place_one_cannot_write(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    file.with_name("there").write_text("")
    checks = looked_at(
        file, "[ledger]\npath = 'there'\n[sessions]\nstore = 'sqlite'\npath = 'no/such/dir/s'\n"
    )
    assert checks["ledger"].detail.endswith("there cannot be written")
    assert "cannot be made: no right to write in" in checks["sessions"].detail


def test_a_valkey_that_is_not_there(file: Path) -> None:
    checks = looked_at(file, "[sessions]\nstore = 'valkey'\nurl = 'redis://127.0.0.1:9/0'\n")
    assert "cannot reach the session store" in checks["sessions"].detail


@pytest.mark.parametrize(
    ("status", "ok", "detail"),
    [
        (404, True, "answers (status 404); the key is not tested"),
        (302, True, "answers (status 302); the key is not tested"),
        (401, False, "refuses the key (status 401)"),
        (403, False, "refuses the key (status 403)"),
        (503, False, "answers (status 503)"),
    ],
)
def test_upstreams_are_asked_once_with_their_key(file: Path, status: int, ok: bool, detail: str) -> None:
    upstream = ScriptedUpstream(
        lambda _, send: reply(send, status, b"{}", ("location", "http://127.0.0.1:9/"))
    )
    with upstream.running() as url:
        text = f"[upstreams.up]\nbase_url = '{url}/v1/'\napi_key = '${{MAIN_API_KEY}}'\n"
        check = looked_at(file, text)["upstream up"]
    assert (check.ok or check.is_advice, check.detail) == (ok, detail)
    [asked] = upstream.asked
    assert (asked.path, asked.headers["authorization"]) == ("/v1/models", f"Bearer {KEY}")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_list_of_models_that_is_open_to_all_tests_no_key(file: Path, *, is_open: bool) -> None:
    """A wrong key passed the doctor where the list asks for none, as OpenRouter's does."""
    upstream = ScriptedUpstream(
        lambda asked, send: reply(
            send, 200 if is_open or KEY in asked.headers.get("authorization", "") else 401, b"{}"
        )
    )
    with upstream.running() as url:
        text = f"[upstreams.up]\nbase_url = '{url}/v1'\napi_key = '${{MAIN_API_KEY}}'\n"
        check = looked_at(file, text)["upstream up"]
        keyless = looked_at(file, f"[upstreams.up]\nbase_url = '{url}/v1'\n")["upstream up"]
    if is_open:
        assert (check.ok, check.is_advice) == (False, True)
        assert check.detail == "answers (status 200); the key is not tested"
        assert "--live" in check.hint
    else:
        assert (check.ok, check.detail) == (True, "answers (status 200), accepts the key")
    assert keyless.detail == ("answers (status 200)" if is_open else "refuses the key (status 401)")
    assert [KEY in asked.headers.get("authorization", "") for asked in upstream.asked] == [True, False, False]


def test_an_upstream_that_is_not_there_or_speaks_something_else(file: Path) -> None:
    check = looked_at(
        file, "[upstreams.up]\nbase_url = 'http://127.0.0.1:9/v1'\napi_key = '${MAIN_API_KEY}'\n"
    )
    assert "cannot be reached" in check["upstream up"].detail
    assert KEY not in str(check)
    assert not any(c.name.startswith("upstream") for c in diagnose(file, ask_upstreams=False))


def test_an_upstream_behind_a_proxy(file: Path) -> None:
    proxy = ScriptedUpstream(lambda _, send: reply(send, 200, b"{}"))
    with proxy.running() as url:
        text = f"[upstreams.up]\nbase_url = 'http://llm.pointsman.invalid/v1'\nproxy = '{url}'\n"
        check = looked_at(file, text)["upstream up"]
    assert (check.ok, check.detail) == (True, "answers (status 200)")
    assert proxy.asked[0].headers["host"] == "llm.pointsman.invalid"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(file: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://user:{KEY}@127.0.0.1:9")
    text = f"[upstreams.up]\nbase_url = '{scheme}://llm.pointsman.invalid/v1'\n"
    check = looked_at(file, text)["upstream up"]
    assert not check.ok
    assert "cannot be reached through the proxy 127.0.0.1:9" in check.detail
    assert KEY not in str(check)


def test_a_proxy_that_cannot_be_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5://user:{KEY}@127.0.0.1:9")
    check = looked_at(file, "[upstreams.up]\nbase_url = 'https://llm.pointsman.invalid/v1'\n")["upstream up"]
    assert (check.ok, "ALL_PROXY" in check.detail, KEY in str(check)) == (False, True, False)


def test_what_is_missing_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "find_spec", lambda _: None)
    gateway = looked_at(file, "")["gateway"]
    assert (gateway.ok, gateway.hint) == (False, install_command("gateway"))


def test_a_check_in_words() -> None:
    assert describe_check(Check("engine", ok=True, detail="hyperscan")) == "ok   engine: hyperscan"
    bad = Check("ledger", ok=False, detail="locked", hint="wait")
    assert describe_check(bad) == "FAIL ledger: locked\n     hint: wait"
    assert describe_check(bad._replace(is_advice=True)).startswith("note ledger: locked")


def test_what_falls_to_a_lower_tier_is_told(file: Path) -> None:
    """It is no failure of the installation."""
    text = (
        "[upstreams.demo]\nbase_url = 'demo:'\n[models]\nsmall = { upstream = 'demo', id = 's' }\n"
        "large = { upstream = 'demo', id = 'l', features = ['vision'] }\n"
        "[tiers]\nsimple = 'small'\ncomplex = 'large'\nreasoning = 'large'\n"
    )
    file.write_text(text)
    told = [check for check in diagnose(file) if check.name == "tiers"]
    assert {(check.ok, check.is_advice) for check in told} == {(False, True)}
    assert any("with tools falls to a lower tier" in check.detail for check in told)
    assert "tiers" not in looked_at(file, text.replace(", features = ['vision']", ""))
