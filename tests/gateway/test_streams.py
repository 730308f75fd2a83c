"""What goes wrong is said in the caller's own format, before the first byte and after it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import Timeouts
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from support import raw_http
from support.requests_by_format import PATHS, events, format_of, post, request, start_stream
from support.servers import Asked, ScriptedUpstream, gateway, state_for

pytestmark = pytest.mark.integration

ENDS = (b"[DONE]", b"response.completed", b"response.incomplete", b"message_stop")


async def cut_off(send: Any, parts: list[bytes]) -> None:
    raise ConnectionAbortedError


async def cut_inside_an_event(send: Any, parts: list[bytes]) -> None:
    await send({"type": "http.response.body", "body": parts[2][:-7], "more_body": True})
    raise ConnectionAbortedError


async def ends_too_soon(send: Any, parts: list[bytes]) -> None:
    await send({"type": "http.response.body"})


async def falls_silent(send: Any, parts: list[bytes]) -> None:
    await asyncio.sleep(60)


BREAKS = {
    cut_off: "upstream_cut",
    cut_inside_an_event: "upstream_cut",
    ends_too_soon: "upstream_cut",
    falls_silent: "upstream_timeout",
}


def said(stream: bytes) -> list[Any]:
    assert stream.endswith(b"\n\n")
    return [json.loads(sse.data(event)) for event in sse.events(stream)]


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: breaks.__name__)
@pytest.mark.parametrize("wire", WireFormat)
def test_a_stream_that_breaks_ends_with_one_error_event(wire: WireFormat, breaks: Any) -> None:
    async def answering(asked: Asked, send: Any) -> None:
        parts = events(format_of(asked.path))
        await start_stream(send, *parts[:2])
        await breaks(send, parts)

    upstream = ScriptedUpstream(answering)
    times = Timeouts(connect=30.0, first_byte=3.0, total=60.0)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", url, timeouts=times)) as running:
        got = post(running.url + PATHS[wire], json=request(wire, stream=True))
    *before, last = said(got.content)
    assert got.status_code == 200
    assert len(upstream.asked) == 1  # the caller has seen a part: nobody may begin anew
    assert before == said(b"".join(events(wire)[:2]))
    assert not any(end in got.content for end in ENDS)
    assert last["error"]["message"]
    if wire is not WireFormat.CHAT:
        assert last["type"] == "error"
        assert b"event: error\n" in got.content
    if wire is WireFormat.MESSAGES:
        assert last["error"]["type"] == "api_error"
    else:
        assert last["error"]["code"] == BREAKS[breaks]
    if wire is WireFormat.RESPONSES:
        assert last["sequence_number"] == before[-1]["sequence_number"] + 1


@pytest.mark.parametrize("wire", WireFormat)
def test_a_caller_of_http_1_0_reads_a_stream_to_the_end_of_its_connection(wire: WireFormat) -> None:
    """nginx speaks it with `proxy_http_version 1.0`, as does what has no HTTP library."""

    async def answering(asked: Asked, send: Any) -> None:
        parts = events(format_of(asked.path))
        await start_stream(send, *parts[:2])
        await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"".join(parts[2:])})

    body = json.dumps(request(wire, stream=True)).encode()
    head = raw_http.head(raw_http.JSON, path=PATHS[wire].encode(), length=len(body))
    asked = head.replace(b"HTTP/1.1", b"HTTP/1.0") + body
    with ScriptedUpstream(answering).running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = raw_http.talk(running.port, asked, until=b"no such bytes")
    assert got.partition(b"\r\n\r\n")[2] == b"".join(events(wire))


@pytest.mark.parametrize("wire", WireFormat)
def test_an_upstreams_own_error_event_is_passed_on_alone(wire: WireFormat) -> None:
    error = {"type": "error", "code": "server_error", "error": {"type": "api_error", "message": "no"}}
    own = sse.event(json.dumps(error).encode(), "error")

    async def answering(asked: Asked, send: Any) -> None:
        await start_stream(send, *events(format_of(asked.path))[:2], own)
        await send({"type": "http.response.body"})

    with ScriptedUpstream(answering).running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = post(running.url + PATHS[wire], json=request(wire, stream=True))
    assert got.content == b"".join(events(wire)[:2]) + own


CONFIG = """
[upstreams.demo]
base_url = "demo:"
formats = ["chat", "responses", "messages"]
[models]
small = {{ upstream = "demo", id = "small-1" }}
large = {{ upstream = "demo", id = "large-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[server]
port = 0
keys = ["${{GATEWAY_KEY}}"]
[server.limits]
body_bytes = 100_000
[ledger]
path = "{folder}/ledger.sqlite"
"""
JSON = {"content-type": "application/json", "authorization": "Bearer gk-1"}
DEEP = b'{"model": "auto", "messages": ' + b"[" * 40_000 + b"]" * 40_000 + b"}"

#: Body, headers, status, and what the message must say.
WRONG: dict[str, tuple[bytes | None, dict[str, str], int, str]] = {
    "malformed": (b'{"model": "auto",', JSON, 400, "not valid JSON"),
    "no object": (b"[1, 2]", JSON, 400, "must be a JSON object"),
    "content type": (None, JSON | {"content-type": "text/plain"}, 415, "must be JSON"),
    "compressed": (None, JSON | {"content-encoding": "gzip"}, 415, "must not be compressed"),
    "too large": (b" " * 100_001, JSON, 413, "larger than 100000 bytes"),
    "too deep": (DEEP, JSON, 413, "nested too deep"),
    "no key": (None, {"content-type": "application/json"}, 401, "an API key is required"),
    "wrong key": (None, JSON | {"authorization": "Bearer gk-2"}, 401, "unknown API key"),
    "wrong x-api-key": (
        None,
        {"content-type": "application/json", "x-api-key": "gk"},
        401,
        "unknown API key",
    ),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("errors")
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.format(folder=folder), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATEWAY_KEY", "gk-1")
        builder = Builder(lambda: load(file), file)
        with gateway(builder()) as running:
            yield running.url
        builder.close()


def check(wire: WireFormat, got: httpx.Response, status: int, words: str) -> None:
    error = got.json()["error"]
    assert (got.status_code, got.headers["content-type"]) == (status, "application/json")
    assert words in error["message"]
    assert error["type"]
    if wire is WireFormat.MESSAGES:
        assert got.json()["type"] == "error"
        assert set(error) == {"type", "message"}
    else:
        assert set(got.json()) == {"error"}
        assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("wire", WireFormat)
def test_what_is_wrong_with_a_request_is_said_in_its_format(url: str, wire: WireFormat, wrong: str) -> None:
    body, headers, status, words = WRONG[wrong]
    content = json.dumps(request(wire)).encode() if body is None else body
    check(wire, post(url + PATHS[wire], content=content, headers=headers), status, words)


@pytest.mark.parametrize("wire", WireFormat)
def test_an_unknown_model_names_the_known_ones(url: str, wire: WireFormat) -> None:
    asked = request(wire) | {"model": "lrage"}
    got = post(url + PATHS[wire], json=asked, headers=JSON)
    check(wire, got, 404, "lrage")
    assert "small" in got.text
    assert "large" in got.text


@pytest.mark.parametrize("wire", WireFormat)
def test_a_right_request_passes(url: str, wire: WireFormat) -> None:
    assert post(url + PATHS[wire], json=request(wire), headers=JSON).status_code == 200
