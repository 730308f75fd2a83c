"""``pointsman router`` and ``pointsman sessions``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.diagnostics import Check
from pointsman.diagnostics import _doctor as doctor
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.stores.sessions import SqliteSessions

TEXT = """\
[upstreams.demo]
base_url = "demo:"
[models]
small = { upstream = "demo", id = "s" }
[tiers]
simple = "small"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "pointsman.toml").write_text(TEXT)
    return tmp_path / "pointsman.toml"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_router_show(file: Path) -> None:
    assert "SIMPLE     small: s at demo" in run("router", "show").output
    shown = json.loads(run("router", "show", "--json").output)
    assert shown["tiers"]["SIMPLE"]["id"] == "s"
    assert (shown["tiers"]["MEDIUM"], shown["verify"]) == (None, None)


def test_router_classifier(file: Path) -> None:
    assert run("router", "classifier", "s").output == f'classifier is now "small", in {file}\n'
    shown = json.loads(run("router", "classifier", "small", "--json").output)
    assert shown == {"file": str(file), "classifier": "small"}
    assert isinstance(run("router", "classifier", "none").exception, ConfigError)


def test_router_doctor(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_engine", lambda _: Check("engine", ok=True, detail="not looked at"))
    result = run("router", "doctor")
    assert result.exit_code == 0
    assert "ok   upstream demo: built in" in result.output
    checks = json.loads(run("router", "doctor", "--offline", "--json").output)
    names = [check["name"] for check in checks if not check["is_advice"]]
    assert names[:5] == ["configuration", "gateway", "engine", "ledger", "sessions"]
    assert "client Codex" in names
    file.write_text("[tires]\n")
    assert run("router", "doctor").exit_code == 1


def test_sessions_in_memory_are_the_gateways_own(file: Path) -> None:
    result = run("sessions", "list")
    assert isinstance(result.exception, StoreUnavailable)
    assert result.exception.hint == 'store = "sqlite" in [sessions] writes them to a file'


def test_sessions_in_a_file(file: Path) -> None:
    file.write_text(TEXT + "[sessions]\nstore = 'sqlite'\npath = 's'\n")
    store = SqliteSessions(file.with_name("s"))
    store.put("first", b'{"model":"small"}')
    store.put("\x1b[31m", b"{}")
    store.close()
    listed = run("sessions", "list").output
    assert [line.split()[2] for line in listed.splitlines()[1:]] == ["\ufffd[31m", "first"]
    lines = [json.loads(line) for line in run("sessions", "list", "--json").output.splitlines()]
    assert [line["session"] for line in lines] == ["\x1b[31m", "first"]
    assert json.loads(run("sessions", "show", "first").output) == {"model": "small"}
    assert run("sessions", "forget", "first").output == "forgot first\n"
    assert json.loads(run("sessions", "forget", "\x1b[31m", "--json").output)["forgotten"]
    for args in (["show", "first"], ["forget", "first"]):
        assert isinstance(run("sessions", *args).exception, PointsmanError)
    assert run("sessions", "list").output == ""


def test_a_file_of_sessions_that_cannot_be_read(file: Path) -> None:
    file.write_text(TEXT + "[sessions]\nstore = 'sqlite'\npath = 's'\n")
    file.with_name("s").write_bytes(b"not a database, " * 100)
    assert isinstance(run("sessions", "list").exception, StoreUnavailable)


def test_live_says_which_models_only_a_caller_can_ask(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(
        '[upstreams.own]\nbase_url = "http://127.0.0.1:1/v1"\nforward_auth = true\n'
        '[models]\nmine = { upstream = "own", id = "m" }\n[tiers]\nsimple = "mine"\n'
    )
    result = CliRunner().invoke(app, ["router", "doctor", "--live", "--config", str(file)])
    assert "Not asked: mine: the upstream takes the caller's own credential." in result.output
    assert isinstance(result.exception, ConfigError)
    assert result.exception.message == "there is no model to ask"
