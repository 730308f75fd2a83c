"""Nothing of a prompt, a tool's result or an answer reaches a disk unless that is asked for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, answer, format_of, request
from support.servers import Asked, ScriptedUpstream, gateway, reply
from support.stuck_agents import call, say

pytestmark = pytest.mark.integration

CANARY = "CANARY"
CONFIG = """
[upstreams.main]
base_url = "{url}/v1"
[models]
small = {{ upstream = "main", id = "small-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
[server]
port = 0
passthrough = "main"
[guidance]
mode = "on"
control = 0.0
[sessions]
store = "sqlite"
path = "{home}/state/sessions.sqlite"
[ledger]
path = "{home}/state/ledger.sqlite"
[shadow]
policy = "{home}/shadow.toml"
model = "small"
share = 1.0
"""


async def telling(asked: Asked, send: Any) -> None:
    """Answer with words of its own."""
    if asked.path.startswith("/v1/files"):
        await reply(send, 200, b'{"id": "file-1", "filename": "%s-name"}' % CANARY.encode())
        return
    body = json.loads(answer(format_of(asked.path)))
    await reply(send, 200, json.dumps({**body, "metadata": {"k": f"{CANARY}-answer"}}).encode())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "state").mkdir(parents=True)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(home))
    (home / "shadow.toml").write_text("[tiers]\n", encoding="utf-8")
    return home


def turns(wire: WireFormat) -> Iterator[list[Any]]:
    """The history of an agent whose every call fails, as it grows."""
    history = [say(wire, f"Fix the build. {CANARY}-prompt")]
    yield history
    for number in range(8):
        text = f"Error: command not found: {CANARY}-error-{number % 2}"
        history = history + call(wire, number, text, arguments=f'{{"n": "{CANARY}-arguments-{number}"}}')
        yield history


def ask_everything(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False) as client:
        for wire, path in PATHS.items():
            field = "input" if wire is WireFormat.RESPONSES else "messages"
            for history in turns(wire):
                body = request(wire) | {field: history, "user": f"{CANARY}-user"}
                client.post(path, json=body, headers={"x-session-id": f"s-{wire}"}).raise_for_status()
            client.post(path, content=f'{{"model": "auto", "x": "{CANARY}-half'.encode())
        made = client.post("/v1/files", json={"text": f"{CANARY}-file"})
        assert CANARY in made.text


def test_no_word_of_a_conversation_is_written(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    upstream = ScriptedUpstream(telling)
    with upstream.running() as url:
        file = home / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, home=home), encoding="utf-8")
        builder = Builder(lambda: load(file), file)
        with gateway(builder()) as running:
            ask_everything(running.url)
        found = canaries(home)  # while the stores are open
        builder.close()
    hints = [
        asked for asked in upstream.asked if b"pointsman" in asked.body and b"CANARY-error" in asked.body
    ]
    assert hints, "no hint was given that could be remembered"
    assert written(home) >= {"ledger.sqlite", "sessions.sqlite"}
    assert found == canaries(home) == {}
    assert CANARY not in "".join(capfd.readouterr())


def written(home: Path) -> set[str]:
    return {path.name for path in home.rglob("*") if path.is_file()}


def canaries(home: Path) -> dict[str, bytes]:
    """What is found around each canary, by file."""
    found = {}
    for path in home.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if (at := data.find(CANARY.encode())) >= 0:
            found[path.name] = data[max(at - 200, 0) : at + 100]
    return found
