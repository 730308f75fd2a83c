"""``pointsman claude``: a stand-in for the agent does what its variables say; gateway and ledger are real."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.cli.launch import AGENTS
from pointsman.config import load
from pointsman.config.draft import draft
from pointsman.diagnostics.clients import split_line
from pointsman.errors import ConfigError
from pointsman.stores.ledger import Retention, SqliteLedger
from support.servers import ScriptedUpstream, gateway, state_for

pytestmark = pytest.mark.integration

#: Writes down what it was given, asks the gateway once, and ends with 7.
STAND_IN = f"""#!{sys.executable}
import json, os, pathlib, sys, urllib.request
base = os.environ.get("ANTHROPIC_BASE_URL", "")
given = {{"arguments": sys.argv[1:], "base": base, "environment": dict(os.environ)}}
pathlib.Path(os.environ["HOME"], "given.json").write_text(json.dumps(given))
if base and "--quiet" not in sys.argv:
    body = {{"model": "auto", "max_tokens": 9, "messages": [{{"role": "user", "content": "Hello"}}]}}
    headers = {{"content-type": "application/json", "anthropic-version": "2023-06-01"}}
    request = urllib.request.Request(base + "/v1/messages", json.dumps(body).encode(), headers)
    print(json.load(urllib.request.urlopen(request))["role"])
if "--die" in sys.argv:
    os.kill(os.getpid(), 15)
sys.exit(7)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a stand-in for each agent, and a project to work in."""
    programs, project = tmp_path / "bin", tmp_path / "shop"
    programs.mkdir()
    (project / ".git").mkdir(parents=True)
    for name in AGENTS:
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    for variable, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pointsman.cli.launch.find_local", list)
    monkeypatch.chdir(project)
    handlers = list(logging.getLogger().handlers)
    yield tmp_path
    for handler in set(logging.getLogger().handlers) - set(handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()


def configure(home: Path, **edits: str) -> Path:
    """The user's own configuration: the demo, on the port 0."""
    file = home / "config" / "pointsman" / "pointsman.toml"
    file.parent.mkdir(parents=True)
    text = draft([]).replace("port = 4747", "port = 0")
    for old, new in edits.items():
        text = text.replace(old, new)
    file.write_text(text)
    return file


def given(home: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((home / "given.json").read_text())
    return found


def test_an_agent_runs_through_a_gateway_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command to the sums: the whole journey."""
    place = home / "state" / "{project}" / "ledger.sqlite"
    configure(home, **{'text = "off"': f'text = "off"\npath = "{place}"'})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-provider")
    before = sorted(home.rglob(".claude*"))
    saved: list[str] = []
    for _ in range(2):  # the second one does not count the first one's request, of the same hour
        done = CliRunner().invoke(app, ["claude", "-p", "--config", "x", "-h"])
        assert done.exit_code == 7, done.output
        saved += [line for line in done.output.splitlines() if line.startswith("This session: saved $")]
    told = given(home)
    assert told["arguments"] == ["--model", "auto", "-p", "--config", "x", "-h"]
    environment = told["environment"]
    assert isinstance(environment, dict)
    assert environment["ANTHROPIC_AUTH_TOKEN"] == "any"
    assert "ANTHROPIC_API_KEY" not in environment, "Claude Code would complain of both"
    assert "ANTHROPIC_BASE_URL" not in os.environ
    assert len(saved) == 2
    assert saved[0] == saved[1]
    assert "Requests: 1\n" in done.output
    assert "cost $" in done.output
    assert "Stuck sessions: 0" in done.output
    assert f"gateway at {told['base']} until claude ends" in done.output
    [ledger] = (home / "state").glob("shop-*/ledger.sqlite")
    with closing(SqliteLedger(ledger, text="off", retention=Retention(None, None))) as store:
        assert len(list(store.decisions())) == 2
    assert load(home / "config/pointsman/pointsman.toml").ledger.path == ledger, "as every command reads it"
    assert sorted(home.rglob(".claude*")) == before


def test_the_gateway_that_runs_is_used(home: Path) -> None:
    with gateway(state_for()) as running:
        configure(home, **{"port = 0": f"port = {running.port}"})
        done = CliRunner().invoke(app, ["claude", "--quiet"])
        assert done.exit_code == 7
        assert given(home)["base"] == running.url
        assert f"uses the gateway at {running.url}" in done.output
        assert "Requests:" not in done.output


def test_another_server_at_that_address_is_no_gateway(home: Path) -> None:
    async def other(asked: object, send: object) -> None:
        del asked
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"[]"})  # type: ignore[operator]

    with ScriptedUpstream(other).running() as url:
        configure(home, **{"port = 0": f"port = {url.rpartition(':')[2]}"})
        assert CliRunner().invoke(app, ["claude", "--quiet"]).exit_code == 7
        assert given(home)["base"] != url


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("codex", ["-c", "model_provider=pointsman"]),
        ("opencode", ["--model", "pointsman/auto"]),
        ("qwen", ["--auth-type", "openai"]),
        ("aider", ["--model", "openai/auto"]),
    ],
)
def test_each_agent_gets_its_own_line(home: Path, name: str, expected: list[str]) -> None:
    configure(home)
    assert CliRunner().invoke(app, [name, "--more"]).exit_code == 7
    arguments = given(home)["arguments"]
    assert isinstance(arguments, list)
    assert (arguments[:2], arguments[-1]) == (expected, "--more")


def test_the_way_an_agent_ends_is_told(home: Path) -> None:
    configure(home)
    assert CliRunner().invoke(app, ["claude", "--die"]).exit_code == 128 + signal.SIGTERM


def test_the_first_run_writes_the_users_configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal: the defaults, said."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody")
    done = CliRunner().invoke(app, ["claude", "--quiet"])
    assert done.exit_code == 7, done.output
    config = load(home / "config/pointsman/pointsman.toml")
    assert set(config.upstreams) == {"anthropic"}
    assert config.guidance.mode == "observe"
    assert config.ledger.path.parent.name.startswith("shop-")
    assert done.output.count("no terminal to ask at") == 3


def test_the_first_run_takes_the_address_of_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://llm.corp.example")
    done = CliRunner().invoke(app, ["claude", "--quiet"])
    assert done.exit_code == 7, done.output
    assert "pointsman: anthropic: base_url is that of ANTHROPIC_BASE_URL" in done.output
    config = load(home / "config/pointsman/pointsman.toml")
    assert config.upstreams["anthropic"].base_url == "https://llm.corp.example/v1"
    assert str(given(home)["base"]).startswith("http://127.0.0.1:"), "the agent has the gateway's"


def test_the_three_questions(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.setattr("pointsman.cli.launch.is_terminal", lambda _: True)
    done = CliRunner().invoke(app, ["claude", "--quiet"], input="other\nopenai\nyes\nall\n")
    assert done.exit_code == 7, done.output
    config = load(home / "config/pointsman/pointsman.toml")
    assert set(config.upstreams) == {"openai"}
    assert (config.guidance.mode, config.domains.mode) == ("on", "on")
    assert config.ledger.path == home / "state/pointsman/ledger.sqlite"
    again = CliRunner().invoke(app, ["claude", "--quiet"])
    assert "serves?" not in again.output


def refused(home: Path, *arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert not (home / "given.json").exists()
    assert done.exception is not None
    return str(done.exception)


def test_without_a_key_the_hint_names_the_login(home: Path) -> None:
    """Whoever uses a subscription has no key to export."""
    done = CliRunner().invoke(app, ["claude"])
    assert isinstance(done.exception, ConfigError)
    assert done.exception.hint is not None
    assert "pointsman config init --from-audit passes it on (forward_auth)" in done.exception.hint


@pytest.mark.parametrize("name", AGENTS)
def test_the_help_has_an_example(name: str) -> None:
    shown = " ".join(CliRunner().invoke(app, [name, "--help"]).output.split())
    assert f"pointsman {name} " in shown
    assert '"Explain this project"' in shown


def test_what_cannot_be_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no key of a provider is in the environment" in refused(home, "claude")
    file = configure(home, **{"# keys = [": "keys = ["})
    monkeypatch.setenv("POINTSMAN_KEY", "k" * 20)
    text = file.read_text()
    file.write_text(text.replace("${POINTSMAN_KEY}", "${OF_CALLERS}"))
    monkeypatch.setenv("OF_CALLERS", "")
    assert "OF_CALLERS" in refused(home, "claude")
    (home / "bin" / "claude").unlink()
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert "npm install" in refused(home, "claude")


def test_a_key_of_the_gateway_is_presented(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_KEY", "a key with 'quotes' and $HOME")
    line = 'A="$POINTSMAN_KEY" B=\'{"x": "\'"$POINTSMAN_KEY"\'"}\' claude --model auto'
    command = split_line(line, os.environ)
    assert command.arguments == ["claude", "--model", "auto"]
    assert command.environment["A"] == "a key with 'quotes' and $HOME"
    shell = subprocess.run(
        [
            "sh",
            "-c",
            line.replace(" claude --model auto", " python3 -c 'import os; print(os.environ[\"B\"])'"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert command.environment["B"] == shell.stdout.strip()


def test_every_agent_is_a_client_that_is_judged() -> None:
    from pointsman.diagnostics.clients import CLIENTS

    assert set(AGENTS.values()) <= {client.name for client in CLIENTS}


def test_gemini_says_what_there_is_instead(home: Path) -> None:
    assert "generateContent" in refused(home, "gemini", "-p", "Hello")
