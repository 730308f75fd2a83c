"""What gets a clear error, on the wire: the status, the words, and the caller's own format."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import gzip
import json
import logging
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.access import PaidQuestions
from pointsman.config import load
from pointsman.decision.decision import Decision
from pointsman.decision.policy import Policy
from pointsman.errors import ConfigError
from pointsman.factory import build_engine
from pointsman.gateway import _protocol as protocol
from pointsman.gateway import _relay as relay
from pointsman.gateway.build import Builder
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger, SqliteLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from pointsman.vocabulary import AgentRequest, Tier, WireFormat
from support.deciders import ScriptedDecider
from support.raw_http import ASKED, JSON, head, is_closed, statuses, talk
from support.requests_by_format import PATHS, request
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

OPEN = {"content-type": "application/json"}
KEY = b"authorization: Bearer right"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """A gateway that decides for itself, before the demo upstream."""
    state = state_for(server=ServerSpec(port=0, limits=Limits(body_bytes=100_000, header_bytes=20_000)))
    models = {name: target.model for name, target in state.targets.items()}
    policy = Policy(profile=builtin_profile("default"), models=models, tier_models=dict.fromkeys(Tier, "m0"))
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
    with gateway(replace(state, runtime=runtime)) as running:
        yield running


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with gateway(state_for(server=ServerSpec(port=0, keys=(hash_key("right"),)))) as running:
        yield running


def body(wire: WireFormat, **more: Any) -> bytes:
    return json.dumps(request(wire, **more)).encode()


@pytest.mark.parametrize("wire", WireFormat)
def test_a_request_without_a_model(client: httpx.Client, wire: WireFormat) -> None:
    """The providers refuse it too; a client's own mistake must not become an answer here."""
    asked = request(wire)
    del asked["model"]
    got = client.post(PATHS[wire], json=asked)
    assert got.status_code == 400
    assert (
        got.json()["error"]["message"]
        == 'the request names no model; the model "auto" lets the gateway choose'
    )


@pytest.mark.parametrize("path", [PATHS[wire].encode() for wire in WireFormat])
def test_a_chunked_body_that_comes_in_one_piece_is_bounded(path: bytes) -> None:
    """No length is declared, and all of it is read at once with the head: the size is checked afterwards."""
    server = ServerSpec(port=0, limits=Limits(body_bytes=1_000))

    def chunked(size: int) -> bytes:
        sent = ASKED[:-1] + b"}".rjust(size + 1 - len(ASKED))
        coding = head(JSON, b"transfer-encoding: chunked", path=path, length=None)
        return b"%b%x\r\n%b\r\n0\r\n\r\n" % (coding, size, sent)

    with gateway(state_for(server=server)) as running:
        assert statuses(talk(running.port, chunked(1_001))) == [b"413"]
        assert statuses(talk(running.port, chunked(1_000))) != [b"413"]


def test_a_chunked_outcome_that_comes_in_one_piece_is_bounded(running: Running) -> None:
    sent = b'{"comment":"%b"}' % (b"x" * 17_000)
    coding = head(JSON, b"transfer-encoding: chunked", path=b"/v1/decisions/d/outcome", length=None)
    got = talk(running.port, b"%b%x\r\n%b\r\n0\r\n\r\n" % (coding, len(sent), sent))
    assert (statuses(got), b"larger than 16384 bytes" in got) == ([b"413"], True)


@pytest.mark.parametrize(
    ("wrong", "status", "says"),
    [
        (b"", 400, "the request body is empty"),
        (b" \n", 400, "the request body is empty"),
        (b"{", 400, "not valid JSON"),
        (b"[1]", 400, "must be a JSON object"),
        (ASKED + b"x", 400, "not valid JSON: .*trailing"),
        (codecs.BOM_UTF8 + ASKED, 400, "byte order mark"),
        (ASKED.decode().encode("utf-16"), 400, "byte order mark"),
        (ASKED.replace(b"{", b'{"temperature":NaN,', 1), 400, "not valid JSON"),
        (ASKED.replace(b'"auto"', b"5"), 400, r"Expected `str`, got `int` at `\$.model`"),
        (ASKED.replace(b'"auto"', b"null"), 400, r"got `null` at `\$.model`"),
        (ASKED.replace(b'"auto","', b'"auto","model":"m0","'), 400, 'duplicate key "model"'),
        (ASKED.replace(b'"auto","', b'"auto","x":1,"x":2,"'), 400, 'duplicate key "x"'),
        (ASKED.replace(b'"model"', b'"mod\\u0065l"'), 400, 'is another spelling of "model"; send each key'),
        (ASKED.replace(b'"auto","', b'"auto","Model":"m0","'), 400, '"Model" .* another spelling of "model"'),
        (b'{"model":"auto"}', 400, "missing required field `messages`"),
        (
            b'{"model":"auto","messages":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
            413,
            "too deep; about 1,000 levels",
        ),
        (
            b'{"model":"' + b"x" * 5_000 + b'","messages":[]}',
            404,
            f'model "{"x" * 128}"; known: auto',
        ),
        (b'{"x":"' + b"x" * 100_000 + b'"}', 413, "larger than 100000 bytes"),
    ],
    ids=range(18),
)
def test_a_body_that_is_none(client: httpx.Client, wrong: bytes, status: int, says: str) -> None:
    got = client.post("/v1/chat/completions", content=wrong, headers=OPEN | {"x-request-id": "mine"})
    assert got.status_code == status
    assert re.search(says, got.json()["error"]["message"])
    assert got.headers["x-request-id"] == "mine"
    assert len(got.content) < 1_000


@pytest.mark.parametrize(
    "odd",
    [
        b'"max_tokens":' + b"9" * 5_000,  # larger than any integer type
        b'"x":"\\ud83d"',  # half a surrogate pair
        b'"x":"\xff"',  # not UTF-8
    ],
    ids=["huge", "surrogate", "bytes"],
)
def test_what_is_not_ours_to_judge_goes_to_the_upstream(odd: bytes) -> None:
    async def answer(asked: Asked, send: Any) -> None:
        await reply(send, 200, b"{}")

    upstream, sent = ScriptedUpstream(answer), ASKED[:-1] + b"," + odd + b"}"
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = httpx.post(f"{running.url}/v1/chat/completions", content=sent, headers=OPEN, trust_env=False)
    assert got.status_code == 200
    assert upstream.asked[0].body == sent.replace(b'"auto"', b'"model-0"')


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON ; charset=utf-8", 200),
        ("application/jsonlines", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_content_types(client: httpx.Client, kind: str, status: int) -> None:
    got = client.post("/v1/chat/completions", content=ASKED, headers={"content-type": kind})
    assert got.status_code == status


def test_a_compressed_body(client: httpx.Client) -> None:
    sent = OPEN | {"content-encoding": "gzip"}
    got = client.post("/v1/chat/completions", content=gzip.compress(ASKED), headers=sent)
    assert got.status_code == 415
    assert "must not be compressed" in got.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], b"401"),
        ([b"authorization: Bearer wrong"], b"401"),
        ([b"authorization: Basic cmlnaHQ="], b"401"),
        ([KEY], b"200"),
        ([b"x-api-key: right"], b"200"),
        ([b"authorization: Bearer ", b"x-api-key: right"], b"200"),
        ([b"origin: http://evil.example", KEY], b"200"),  # a page that knows the key
    ],
)
def test_keys(guarded: Running, headers: list[bytes], status: bytes) -> None:
    got = talk(guarded.port, head(JSON, *headers) + ASKED)
    assert statuses(got) == [status]
    assert (b"www-authenticate: Bearer" in got) == (status == b"401")
    assert (b"x-should-retry: false" in got) == (status == b"401")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (b"http://localhost:3000", b"200"),
        (b"http://127.0.0.1:4747", b"200"),
        (b"http://[::1]:4747", b"200"),
        (b"http://rebound.example:4747", b"401"),
        (b"http://localhost.example", b"401"),
        (b"http://[::1", b"401"),
        (b"null", b"401"),
        (b"\xff", b"401"),
    ],
)
def test_web_pages_from_elsewhere(running: Running, origin: bytes, status: bytes) -> None:
    assert statuses(talk(running.port, head(JSON, b"origin: " + origin) + ASKED)) == [status]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/metrics",
        "/v1/decisions/d-1",
        "/health/live/",
        "/health/live/../../v1/models",
        "/health/live/%2e%2e/%2e%2e/v1/models",
        "/health%2flive",
        "/v1/%6dodels",
        "//v1/models",
        "/v1/models;x",
        "/V1/models",
    ],
)
def test_no_spelling_of_a_path_gets_round_the_key(guarded: Running, path: str) -> None:
    got = talk(guarded.port, f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    assert statuses(got) == [b"401"]


@pytest.mark.parametrize(
    "path", ["/", "/health", "/healthz", "/health/live", "/health/ready", "/health/live?x=1"]
)
def test_what_a_load_balancer_asks_needs_no_key(guarded: Running, path: str) -> None:
    got = talk(guarded.port, f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode(), until=b"\r\n\r\n")
    assert statuses(got) == [b"200"]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/chat/completions?beta=true&x=%2F"]
)
def test_both_spellings_of_an_endpoint(client: httpx.Client, path: str) -> None:
    assert client.post(path, content=ASKED, headers=OPEN).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions/"),
        ("POST", "/v1/v1/chat/completions"),
        ("POST", "/v1/chat%2Fcompletions"),
        ("GET", "/chat"),
    ],
)
def test_any_other_path_says_where_to_go(client: httpx.Client, method: str, path: str) -> None:
    got = client.request(method, path)
    assert got.status_code == 404
    assert "agents POST to /v1/chat/completions" in got.json()["error"]["message"]
    assert "access-control-allow-origin" not in got.headers


def test_no_web_page_is_told_that_it_may_ask(client: httpx.Client) -> None:
    got = client.options("/v1/chat/completions", headers={"access-control-request-method": "POST"})
    assert got.status_code == 405
    assert "access-control-allow-origin" not in got.headers


def test_a_models_name_may_come_encoded(client: httpx.Client) -> None:
    assert client.get("/v1/models/pointsman%2Fauto").json()["id"] == "auto"


def test_the_callers_request_id_stands_beside_the_upstreams() -> None:
    async def answer(asked: Asked, send: Any) -> None:
        named = ("content-type", "application/json"), ("x-request-id", "req_theirs")
        await reply(send, 200, b"{}", *named)

    upstream = ScriptedUpstream(answer)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        path = f"{running.url}/v1/chat/completions"
        mine, none = (
            httpx.post(path, content=ASKED, headers=OPEN | trace | named, trust_env=False)
            for named in ({"x-request-id": "mine", "x-pointsman-tier": "SIMPLE"}, {})
        )
    assert mine.headers.get_list("x-request-id") == ["mine"]
    assert none.headers.get_list("x-request-id") == [none.headers["x-pointsman-decision-id"]]
    assert mine.headers["x-pointsman-upstream-request-id"] == "req_theirs"
    seen = upstream.asked[0].headers
    assert seen["traceparent"] == trace["traceparent"]
    assert seen["x-request-id"] == "mine"
    assert not [name for name in seen if name.startswith("x-pointsman")]
    assert seen["accept-encoding"] == "identity", "the gateway reads what passes"


UPGRADE = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__")
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ASKED), ASKED)


@pytest.mark.parametrize(
    ("parts", "answers"),
    [
        ([head(JSON, *UPGRADE) + ASKED], 1),
        ([head(JSON, *UPGRADE), ASKED], 1),
        ([head(JSON, *UPGRADE)[:60], head(JSON, *UPGRADE)[60:] + ASKED[:9], ASKED[9:]], 1),
        ([head(JSON, *UPGRADE, b"transfer-encoding: chunked", length=None) + CHUNKED], 1),
        ([(head(JSON, *UPGRADE) + ASKED) * 3 + head(JSON) + ASKED], 4),
        ([head(JSON) + ASKED + head(JSON, *UPGRADE), ASKED], 2),
    ],
    ids=["together", "apart", "in three", "chunked", "pipelined", "second"],
)
def test_an_offer_of_http2_is_passed_over(running: Running, parts: list[bytes], answers: int) -> None:
    """As the JDK's HTTP client makes it with every request to an http:// address."""
    last = head(JSON, b"connection: close") + ASKED
    got = talk(running.port, *parts, last, until=b"connection: close")
    assert statuses(got) == [b"200"] * (answers + 1)


def test_websockets_are_refused_as_codex_expects(running: Running) -> None:
    """After a 426 it sends a POST at once; after a 404 it tried six times more, for seven seconds."""
    asked = (
        b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n\r\n"
    )
    got = talk(running.port, asked, until=b"never")
    assert statuses(got) == [b"426"]
    assert b"send a POST" in got


def test_a_chunked_body_and_pipelined_requests(running: Running) -> None:
    chunked = head(JSON, b"transfer-encoding: chunked", length=None)
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (ASKED[:9], ASKED[9:])]
    last = head(JSON, b"connection: close") + ASKED
    got = talk(running.port, chunked, *chunks, b"0\r\n\r\n", head(JSON) + ASKED + last, until=b": close")
    assert statuses(got) == [b"200"] * 3


@pytest.mark.parametrize(
    "ambiguous",
    [
        head(JSON, b"transfer-encoding: chunked") + ASKED,
        head(JSON, b"content-length: 5") + ASKED,
        head(JSON, b"content-length: -5", length=None),
        head(JSON, b"content-length: 99999999999999999999999999", length=None),
        head(JSON, b"x-request-id: a\x01b") + ASKED,
    ],
    ids=["both lengths", "two lengths", "negative", "huge", "control character"],
)
def test_a_request_that_two_servers_could_read_differently(running: Running, ambiguous: bytes) -> None:
    got = talk(running.port, ambiguous)
    assert statuses(got) == [b"400"]
    assert b"connection: close" in got


def test_a_body_is_asked_for_when_it_is_wanted(running: Running, guarded: Running) -> None:
    expecting = head(JSON, b"expect: 100-continue")
    assert statuses(talk(running.port, expecting, ASKED)) == [b"100", b"200"]
    refused = talk(guarded.port, expecting)
    assert statuses(refused) == [b"401"]
    assert b"connection: close" in refused, "what comes next on this connection may be the body or not"


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ([b"x-h%d: v" % n for n in range(3_000)], b"larger than 20000 bytes"),
        ([b"x-h: " + b"v" * 30_000], b"larger than 20000 bytes"),
        ([b"x-h%d: v" % n for n in range(300)], b"more than 256 headers"),
    ],
    ids=["many", "long", "many in few bytes"],
)
def test_too_many_headers(running: Running, headers: list[bytes], says: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.sendall(head(JSON, *headers) + ASKED)
        got = connection.recv(1 << 16)
    assert statuses(got) == [b"431"]
    assert says in got


WITHOUT_END = b"POST / HTTP/1.1\r\n" + b"x-h: v\r\n" * 4_000


def test_headers_without_an_end(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.sendall(WITHOUT_END)
        assert is_closed(connection)


@pytest.mark.parametrize(
    ("beginning", "rest"),
    [
        (head(b"content-type: text/plain", length=5), b"hello" + WITHOUT_END),
        (head(b"content-type: text/plain", b"transfer-encoding: chunked", length=None), b"0\r\n"),
        (head(JSON, b"transfer-encoding: chunked", length=None), b"1\r\n{\r\n0\r\n"),
        (head(JSON, b"transfer-encoding: chunked", length=None), b"1\r\n{\r\n0\r\nx-one: "),
    ],
    ids=["behind a refused request", "behind a refused body", "behind a body", "one"],
)
def test_headers_without_an_end_elsewhere(running: Running, beginning: bytes, rest: bytes) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.sendall(beginning)
        time.sleep(0.02)  # so that the rest arrives apart
        with contextlib.suppress(ConnectionError):  # closed while it is being sent
            connection.sendall(rest)
            for _ in range(100):
                connection.sendall(b"v" * 20_000 if rest.endswith(b": ") else b"x-h: v\r\n" * 2_500)
        assert is_closed(connection)


@pytest.mark.parametrize(
    "beginning",
    [b"", b"POST /v1/chat", head(JSON, length=90_000) + b"{"],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_sends_too_slowly_is_sent_away(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(protocol, "_SWEEP_EVERY", 0.005)
    with (
        gateway(state_for()) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection,
    ):
        connection.sendall(beginning)
        assert is_closed(connection)


def test_who_waits_for_an_answer_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SWEEP_EVERY", 0.005)

    async def slow(asked: Asked, send: Any) -> None:
        await asyncio.sleep(0.5)  # a hundred looks
        await reply(send, 200, b"{}")

    upstream = ScriptedUpstream(slow)
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        assert statuses(talk(running.port, head(JSON) + ASKED)) == [b"200"]


@pytest.mark.parametrize("sent", [b"", b'{"model":'], ids=["before the body", "inside the body"])
def test_who_leaves_while_sending_is_no_error(caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    with gateway(state_for()) as running, caplog.at_level(logging.ERROR):
        with socket.create_connection(("127.0.0.1", running.port)) as connection:
            connection.sendall(head(JSON) + sent)
            until(lambda: "in_progress 1" in httpx.get(f"{running.url}/metrics", trust_env=False).text)
        until(lambda: "disconnects_total 1" in httpx.get(f"{running.url}/metrics", trust_env=False).text)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text


def test_a_configuration_without_models_is_not_served(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text("[server]\nport = 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no model is configured") as error:
        Builder(lambda: load(file), file)()
    assert "config init" in error.value.hint


class Failing(ScriptedDecider):
    async def decide(self, agent_request: AgentRequest, payer: PaidQuestions | None = None, /) -> Decision:
        raise ZeroDivisionError


@pytest.mark.parametrize("wire", WireFormat)
def test_a_fault_of_our_own_is_said_in_the_callers_format(
    caplog: pytest.LogCaptureFixture, wire: WireFormat
) -> None:
    with gateway(state_for(decider=Failing("m0"))) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire), trust_env=False)
        metrics = httpx.get(f"{running.url}/metrics", trust_env=False).text
    assert (got.status_code, got.json()["error"]["message"]) == (500, "the gateway failed")
    assert f'pointsman_requests_total{{format="{wire}",status="5xx"}} 1' in metrics
    assert "pointsman_requests_in_progress 0" in metrics
    assert "ZeroDivisionError" in caplog.text


def test_a_fault_after_the_first_byte_cuts_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(relay, "_end", fails)
    path, body = PATHS[WireFormat.CHAT], request(WireFormat.CHAT, stream=True)
    with gateway(state_for()) as running, pytest.raises(httpx.RemoteProtocolError):
        httpx.post(running.url + path, json=body, trust_env=False)


def test_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    """Unavailable is not "there is none"."""
    file = tmp_path / "ledger.sqlite"
    file.write_text("not a database", encoding="utf-8")
    ledger = SqliteLedger(file)
    with gateway(state_for(decider=ScriptedDecider("m0", ledger=ledger))) as running:
        got = httpx.get(f"{running.url}/v1/decisions/d-1", trust_env=False)
        path = running.url + PATHS[WireFormat.CHAT]
        served = httpx.post(path, json=request(WireFormat.CHAT), trust_env=False)
    ledger.close()
    assert (got.status_code, got.json()["error"]["code"]) == (503, "store_unavailable")
    assert str(tmp_path) not in got.text
    assert served.status_code == 200


def test_an_outcome_is_read_no_further_than_it_may_be_long(running: Running) -> None:
    path = b"/v1/decisions/d-1/outcome"
    told = talk(running.port, head(path=path, length=1 << 30))
    assert statuses(told) == [b"413"]
    chunk = b"%x\r\n%s\r\n" % (9_000, b" " * 9_000)
    found = talk(
        running.port, head(b"transfer-encoding: chunked", path=path, length=None), chunk, chunk, chunk
    )
    assert statuses(found) == [b"413"]
    assert b"16384 bytes" in found


def test_who_leaves_while_sending_an_outcome_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with gateway(state_for()) as running, caplog.at_level(logging.ERROR):
        for sent in (b"", b'{"score"'):
            with socket.create_connection(("127.0.0.1", running.port)) as connection:
                connection.sendall(head(path=b"/v1/decisions/d-1/outcome") + sent)
                time.sleep(0.05)  # so that it is being read
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text


@pytest.mark.parametrize("wire", WireFormat)
def test_a_client_is_told_not_to_repeat_what_cannot_help(
    client: httpx.Client, caplog: pytest.LogCaptureFixture, wire: WireFormat
) -> None:
    with caplog.at_level("INFO", "pointsman.gateway"):
        headers = {**OPEN, "x-request-id": "mine-1"}
        refused = client.post(PATHS[wire], content=body(wire, model="nobody-configured-it"), headers=headers)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (404, "false")
    said = "of 127.0.0.1 (x-request-id mine-1) refused with status 404: unknown model"
    assert f"POST {PATHS[wire]} {said}" in caplog.text
    answered = client.post(PATHS[wire], content=body(wire), headers=OPEN)
    assert (answered.status_code, "x-should-retry" in answered.headers) == (200, False)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1beta/models/gemini-pro:generateContent", "Gemini's own API is not served"),
        ("/nowhere", "unknown path /nowhere; agents POST to /v1/chat/completions"),
    ],
)
def test_an_unknown_path_is_named(client: httpx.Client, path: str, words: str) -> None:
    assert words in client.get(path, headers=OPEN).json()["error"]["message"]


def test_what_browsers_and_people_ask_for(client: httpx.Client) -> None:
    assert client.get("/favicon.ico").status_code == 204
    assert client.get("/docs", headers=OPEN).headers["location"] == "/openapi.json"
