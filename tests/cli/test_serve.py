"""What ``pointsman serve`` prints is copied, so every line must work as it stands."""

import ipaddress
import json
import logging
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import _listening, app
from pointsman.cli._listening import banner, caller_key, introduce, listening_on, with_public_name
from pointsman.config import Config, ConsoleSpec, TiersSpec
from pointsman.config.shapes import demo_config, demo_ledger
from pointsman.diagnostics.clients import CallerKey
from pointsman.errors import ConfigError
from pointsman.gateway.listening import bound
from pointsman.upstreams.connections import LABEL
from pointsman.upstreams.port import ServerSpec, UpstreamSpec, hash_key
from pointsman.vocabulary import ModelSpec, WireFormat
from support import forked
from support.servers import gateway, state_for

pytestmark = pytest.mark.integration

KEY = "a-key-of-callers"


@pytest.fixture(params=[False, True], ids=["open", "protected"])
def lines(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The lines by their name, printed for a gateway that runs."""
    keys = (hash_key(KEY),) if request.param else ()
    key = CallerKey(is_asked=True, variable="POINTSMAN_KEY") if request.param else CallerKey()
    monkeypatch.setenv("POINTSMAN_KEY", KEY)
    with gateway(state_for(server=ServerSpec(port=0, keys=keys))) as running:
        listening = SimpleNamespace(getsockname=lambda: ("127.0.0.1", running.port))
        introduce(cast("socket.socket", listening), demo_config(), demo=True, key=key)
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith("Pointsman demo: ")
        yield {line[2:20].strip(): line[20:] for line in said if line.startswith("  ")}


@pytest.mark.parametrize("client", ["OpenAI SDK, chat", "OpenAI SDK", "Anthropic SDK"])
def test_the_lines_for_sdks_run(lines: dict[str, str], client: str) -> None:
    """As they are copied, imports included."""
    answer, error = forked.start(lines[client]).output(120)
    assert answer.startswith(LABEL), error


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_line_for_curl_runs(lines: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-c", lines["curl"]], capture_output=True, text=True, timeout=120, check=False
    )
    assert LABEL in done.stdout, done.stderr


def test_the_lines_for_agents_name_address_and_key(lines: dict[str, str]) -> None:
    """As a shell expands them."""
    url = expanded(lines["Claude Code"], "claude")["ANTHROPIC_BASE_URL"]
    token = expanded(lines["Claude Code"], "claude")["ANTHROPIC_AUTH_TOKEN"]
    is_protected = "POINTSMAN_KEY" in lines["Claude Code"]
    assert token == (KEY if is_protected else "any")
    assert ('env_key="POINTSMAN_KEY"' in lines["Codex"]) == is_protected
    assert f'base_url="{url}/v1"' in lines["Codex"]
    given = json.loads(expanded(lines["opencode"], "opencode")["OPENCODE_CONFIG_CONTENT"])
    options = given["provider"]["pointsman"]["options"]
    assert options == {"baseURL": f"{url}/v1", "apiKey": token}


def expanded(line: str, program: str) -> dict[str, str]:
    """The environment that a program gets from a line."""
    told = line.partition(f" {program} ")[0]
    done = subprocess.run(["sh", "-c", f"{told} env -0"], capture_output=True, text=True, check=True)
    return dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wildcard_is_printed_as_an_address(
    host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can call 0.0.0.0: what is copied to another machine must name this one."""
    monkeypatch.setattr(_listening, "_SOME_NETWORK", ("127.0.0.1", 9))
    listening = SimpleNamespace(getsockname=lambda: (host, 4747))
    introduce(cast("socket.socket", listening), demo_config(), demo=False, key=CallerKey())
    said = capsys.readouterr().out.splitlines()[0]
    shown = said.removeprefix("Pointsman listens on http://").partition(":4747")[0]
    assert not ipaddress.ip_address(shown).is_unspecified


def test_a_public_address_needs_keys() -> None:
    """Of the command line as of the file."""
    result = CliRunner().invoke(app, ["serve", "--demo", "--port", "0", "--host", "0.0.0.0"])
    error = result.exception
    assert isinstance(error, ConfigError)
    assert error.message.startswith("refusing to bind to 0.0.0.0 without a key for callers")
    assert "[server]" in error.hint


def test_host_and_port_replace_those_of_the_file() -> None:
    config = listening_on(demo_config(), "127.0.0.9", 0)
    assert (config.server.host, config.server.port) == ("127.0.0.9", 0)
    assert listening_on(demo_config(), None, None) == demo_config()


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("[]", CallerKey()),
        ('["${OUR_KEY}"]', CallerKey(is_asked=True, variable="OUR_KEY")),
        ('["${OUR_HASH}"]', CallerKey(is_asked=True)),
        (f'["sha256:{"0" * 64}"]', CallerKey(is_asked=True)),
    ],
)
def test_the_key_of_the_lines_is_the_variable_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, key: CallerKey
) -> None:
    monkeypatch.setenv("OUR_KEY", KEY)
    monkeypatch.setenv("OUR_HASH", f"sha256:{'0' * 64}")
    file = tmp_path / "pointsman.toml"
    file.write_text(f"[server]\nkeys = {written}\n")
    assert caller_key(file) == key


def test_a_key_that_is_known_by_its_hash_is_named_as_missing() -> None:
    said = banner(demo_config(), "http://here", CallerKey(is_asked=True))
    assert "Put one of the gateway's keys in the place of YOUR-POINTSMAN-KEY." in said
    assert said.count("YOUR-POINTSMAN-KEY") > 4


def test_a_client_that_will_not_work_gets_no_line() -> None:
    demo = demo_config()
    model = ModelSpec("a", "demo", "a", formats=frozenset({WireFormat.CHAT}))
    config = msgspec.structs.replace(demo, models={"a": model}, tiers=TiersSpec(simple="a"))
    said = banner(config, "http://here", CallerKey())
    assert "codex -c" not in said
    assert '  Codex             "a" does not speak responses (hint: translate = true' in said
    assert "opencode --model" in said


def test_the_demo_says_where_its_ledger_is() -> None:
    assert f"Ledger: {demo_ledger()}\n" in banner(demo_config(), "http://here", CallerKey())


def test_a_line_that_is_copied_at_once_is_not_refused() -> None:
    """The address is printed before the server runs; who connects by then waits for it."""
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname(), 60) as early:
        accepted, peer = listening.accept()
        accepted.close()
        assert peer == early.getsockname()


def test_a_small_model_whose_name_is_refused_gets_another_in_the_line() -> None:
    config = msgspec.structs.replace(demo_config(), aliases={"*": "refuse"})
    said = banner(config, "http://here", CallerKey())
    assert "ANTHROPIC_DEFAULT_HAIKU_MODEL=simple ANTHROPIC_BASE_URL=http://here" in said
    assert "ANTHROPIC_DEFAULT_HAIKU_MODEL" not in banner(demo_config(), "http://here", CallerKey())


@pytest.mark.parametrize("is_asked", [False, True], ids=["open", "protected"])
def test_agents_keep_their_own_credential_where_the_upstream_takes_it(is_asked: bool) -> None:
    """A token in the printed line would replace the login of the subscription."""
    config = Config(
        upstreams={"sub": UpstreamSpec("sub", "http://127.0.0.1:1/v1", forward_auth=True)},
        models={"m": ModelSpec("m", "sub", "m-1", formats=frozenset(WireFormat))},
        tiers=TiersSpec(simple="m"),
    )
    said = banner(config, "http://127.0.0.1:4747", CallerKey(is_asked, "KEY" if is_asked else ""))
    lines = {line[2:20].strip(): line[20:] for line in said.splitlines() if line.startswith("  ")}
    assert "AUTH_TOKEN" not in lines["Claude Code"]
    assert ('ANTHROPIC_CUSTOM_HEADERS="x-pointsman-key: $KEY"' in lines["Claude Code"]) == is_asked
    assert "requires_openai_auth=true" in lines["Codex"]
    assert ('env_http_headers={"x-pointsman-key"="POINTSMAN_KEY"}' in lines["Codex"]) == is_asked
    assert 'Upstream "sub" takes the caller\'s own credential (forward_auth)' in said
    assert ("in the header x-pointsman-key" in said) == is_asked


def test_the_log_names_packages_and_not_their_private_modules() -> None:
    record = logging.LogRecord("pointsman.gateway._local_replies", logging.INFO, "", 1, "x", None, None)
    assert with_public_name(record)
    assert record.name == "pointsman.gateway"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_console_is_named_where_it_is_served(enabled: bool) -> None:
    config = msgspec.structs.replace(demo_config(), console=ConsoleSpec(enabled=enabled))
    shown = banner(config, "http://here", CallerKey())
    assert ("Console, in a browser: http://here/console" in shown) == enabled
