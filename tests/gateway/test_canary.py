"""A key planted wherever one can be never comes out: not in a log, an answer, a metric or a row."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, answer, events, format_of, request, start_stream
from support.servers import Asked, ScriptedUpstream, gateway, reply
from support.stuck_agents import call, say

pytestmark = pytest.mark.integration

CANARY = "sk-CANARY-0123456789abcdef0123456789"
FAILURES = 4
HEADERS = {
    "content-type": "application/json",
    "authorization": f"Bearer {CANARY}-authorization",
    "x-api-key": f"{CANARY}-x-api-key",
    "api-key": f"{CANARY}-api-key",
    "cookie": f"session={CANARY}-cookie",
    "x-custom-token": f"{CANARY}-custom",
}
CONFIG = """
[upstreams.bad]
base_url = "{bad}/v1"
api_key = "${{CANARY_KEY}}"
formats = ["chat", "responses", "messages"]
retries = 0
[upstreams.good]
base_url = "{good}/v1"
api_key = "${{CANARY_KEY}}"
formats = ["chat", "responses", "messages"]
retries = 0
[models]
small = {{ upstream = "bad", id = "small-1" }}
large = {{ upstream = "good", id = "large-1" }}
[tiers]
simple = "large"
medium = "large"
complex = "large"
reasoning = "large"
[server]
port = 0
[guidance]
mode = "on"
control = 0.0
[ledger]
path = "{folder}/ledger.sqlite"
"""


def stuck(wire: WireFormat) -> list[Any]:
    """An agent whose every call fails with an error that holds a key, which the hint quotes."""
    history = [say(wire, f"my key is {CANARY}-prompt")]
    for number in range(FAILURES):
        history += call(
            wire, number, f"command not found: {CANARY}-error", arguments=f'{{"{number}": "{CANARY}"}}'
        )
    return history


async def well(asked: Asked, send: Any) -> None:
    wire = format_of(asked.path)
    if b'"stream":true' in asked.body:
        await start_stream(send, *events(wire))
        await send({"type": "http.response.body"})
    else:
        await reply(send, 200, answer(wire))


async def telling(asked: Asked, send: Any) -> None:
    """Fail, and repeat the key it was given in body and headers, as some servers do."""
    key = asked.headers.get("x-api-key") or asked.headers["authorization"].removeprefix("Bearer ")
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"bad key %s"}}' % key.encode()
    if b'"stream":true' in asked.body:
        await start_stream(send, events(format_of(asked.path))[0])
        raise ConnectionAbortedError
    status = 401 if b'"refuse":true' in asked.body else 400
    await reply(send, status, body, ("content-type", "application/json"), ("openai-echo", key))


@pytest.fixture
def good() -> ScriptedUpstream:
    return ScriptedUpstream(well)


@pytest.fixture
def file(good: ScriptedUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CANARY_KEY", f"{CANARY}-environment")
    with ScriptedUpstream(telling).running() as bad, good.running() as url:
        path = tmp_path / "pointsman.toml"
        path.write_text(CONFIG.format(bad=bad, good=url, folder=tmp_path), encoding="utf-8")
        yield path


def ask_everything(url: str) -> str:
    """Send every kind of request that may carry the key, and return everything that came back."""
    seen, query = [], f"?key={CANARY}-query"
    with httpx.Client(base_url=url, headers=HEADERS, verify=False, trust_env=False) as client:

        def post(path: str, **given: Any) -> None:
            got = client.post(path, **given)
            seen.extend([str(got.headers.raw), got.text])
            if decision := got.headers.get("x-pointsman-decision-id"):
                seen.append(client.get(f"/v1/decisions/{decision}").text)

        for wire, path in PATHS.items():
            for more in ({}, {"stream": True}, {"refuse": True}, {"model": "small"}):
                post(path + query, json=request(wire, user=f"{CANARY}-body") | more)
                post(path + query, json=request(wire, **more) | {"model": "small", "metadata": {"k": CANARY}})
            debug = {"x-pointsman-debug": "1", "x-session-id": f"s-{wire}"}
            field = "input" if wire is WireFormat.RESPONSES else "messages"
            post(path, json=request(wire) | {field: stuck(wire)}, headers=debug)
            post(path, content=f'{{"model": "auto", "messages": "{CANARY}', headers=debug)
            post(path, content=CANARY, headers={"content-type": "text/plain"})
        post(f"/v1/nothing/here{query}", json={})
        seen.append(client.get(f"/v1/models/{CANARY}{query}").text)
        seen.append(client.get("/metrics").text)
    return "\n".join(seen)


def test_a_planted_key_comes_out_nowhere(
    file: Path, good: ScriptedUpstream, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    builder = Builder(lambda: load(file), file)
    with caplog.at_level(logging.DEBUG), gateway(builder()) as running:
        came_back = ask_everything(running.url)
        kept = rows(file.parent)  # while it is open, with what is not yet merged into the file
    builder.close()
    kept += rows(file.parent)
    logged = "\n".join(
        f"{record.getMessage()} {record.exc_text}"
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))  # the caller's own side
    )
    hinted = [asked.body.count(f"{CANARY}-error".encode()) for asked in good.asked]
    assert hinted.count(FAILURES + 1) == len(WireFormat)  # each failure, and the hint that quotes one
    assert b"guidance" in kept
    assert "refuses the key" in logged
    for place in (came_back, logged, "".join(capfd.readouterr()), kept.decode("latin-1")):
        assert "CANARY" not in place


def rows(folder: Path) -> bytes:
    files = list(folder.glob("ledger.sqlite*"))
    assert files
    return b"".join(path.read_bytes() for path in files)
