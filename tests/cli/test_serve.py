"""What ``pointsman serve`` prints is copied, so every line must work as it stands."""

import contextlib
import ipaddress
import json
import shlex
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import anthropic
import openai
import pytest
from typer.testing import CliRunner

from pointsman.cli import app, serve
from pointsman.cli.serve import _introduce, _listening_on
from pointsman.errors import ConfigError
from pointsman.gateway.build import demo_config
from pointsman.upstreams.demo import LABEL
from pointsman.upstreams.port import ServerSpec, hash_key
from support.servers import gateway, state_for

pytestmark = pytest.mark.integration

KEY = "YOUR-POINTSMAN-KEY"


@pytest.fixture(params=[False, True], ids=["open", "protected"])
def lines(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[dict[str, str]]:
    """The lines by their name, printed for a gateway that runs."""
    keys = (hash_key(KEY),) if request.param else ()
    with gateway(state_for(server=ServerSpec(port=0, keys=keys))) as running:
        listening = SimpleNamespace(getsockname=lambda: ("127.0.0.1", running.port))
        _introduce(cast("socket.socket", listening), demo=True, protected=request.param)
        said = capsys.readouterr().out.splitlines()
        assert said[0].startswith("Pointsman demo: ")
        yield {line[2:16].strip(): line[18:] for line in said if line.startswith("  ")}


@pytest.mark.parametrize(("sdk", "client"), [(openai, "OpenAI"), (anthropic, "Anthropic")])
def test_the_lines_for_sdks_run(
    lines: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sdk: Any,
    client: str,
) -> None:
    """As they are copied, imports included."""
    with contextlib.ExitStack() as opened:
        made = getattr(sdk, client)
        monkeypatch.setattr(sdk, client, lambda **given: opened.enter_context(made(**given)))
        exec(lines[f"{client} SDK"], {})
    assert capsys.readouterr().out.startswith(LABEL)


def test_the_other_lines_name_address_and_key(lines: dict[str, str]) -> None:
    url = shlex.split(lines["Claude Code"])[0].partition("=")[2]
    is_protected = KEY in lines["Claude Code"]
    curl = shlex.split(lines["curl"])
    assert curl[1] == f"{url}/v1/chat/completions"
    assert json.loads(curl[-1])["model"] == "auto"
    assert (f"authorization: Bearer {KEY}" in curl) == is_protected
    codex = shlex.split(lines["Codex"])
    assert (codex[0] == f"POINTSMAN_KEY={KEY}") == is_protected
    assert ('env_key="POINTSMAN_KEY"' in lines["Codex"]) == is_protected
    assert f'base_url="{url}/v1"' in lines["Codex"]
    given = json.loads(shlex.split(lines["opencode"])[0].partition("=")[2])
    options = given["provider"]["pointsman"]["options"]
    assert options == {"baseURL": f"{url}/v1", "apiKey": KEY if is_protected else "any"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wildcard_is_printed_as_an_address(
    host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can call 0.0.0.0: what is copied to another machine must name this one."""
    monkeypatch.setattr(serve, "_SOME_NETWORK", ("127.0.0.1", 9))
    listening = SimpleNamespace(getsockname=lambda: (host, 4747))
    _introduce(cast("socket.socket", listening), demo=False, protected=True)
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
    config = _listening_on(demo_config(), "127.0.0.9", 0)
    assert (config.server.host, config.server.port) == ("127.0.0.9", 0)
    assert _listening_on(demo_config(), None, None) == demo_config()
