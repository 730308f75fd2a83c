"""Other paths below /v1, passed on to one upstream: what arrives there, and what comes back."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config.load import examine
from pointsman.errors import MalformedRequest
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._passing import passed_path
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from support.deciders import ScriptedDecider
from support.raw_http import statuses, talk
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

KEY = {"authorization": "Bearer right"}
TEXT = ("content-type", "text/plain")


async def echo(asked: Asked, send: Any) -> None:
    await reply(
        send,
        200,
        asked.body or b"nothing",
        ("content-type", "application/octet-stream"),
        ("x-ratelimit-a", "1"),
    )


class Trial:
    """A gateway with a key, before one upstream that takes other paths."""

    def __init__(self, running: Running, state: LiveState, upstream: ScriptedUpstream) -> None:
        self.running, self.state, self.upstream = running, state, upstream

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = KEY | given.pop("headers", {})
        return httpx.request(
            method, self.running.url + path, headers=headers, trust_env=False, timeout=60, **given
        )

    @property
    def rows(self) -> list[Any]:
        return list(self.state.runtime.ledger.passed())


def state_before(url: str, **more: Any) -> LiveState:
    limits = more.pop("limits", Limits())
    server = ServerSpec(port=0, keys=(hash_key("right"),), passthrough="up0", limits=limits)
    return state_for(url, decider=ScriptedDecider("m0", ledger=MemoryLedger()), server=server, **more)


@contextmanager
def trial(answering: Any = echo, **more: Any) -> Iterator[Trial]:
    upstream = ScriptedUpstream(answering)
    with upstream.running() as url:
        state = state_before(f"{url}/base/v1", **more)
        with gateway(state) as running:
            yield Trial(running, state, upstream)


@pytest.fixture(scope="module")
def echoing() -> Iterator[Trial]:
    with trial() as run:
        yield run


@pytest.fixture
def run(echoing: Trial) -> Trial:
    echoing.upstream.asked.clear()
    return echoing


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/embeddings"),
        ("POST", "/completions"),
        ("GET", "/files"),
        ("GET", "/files/file-1/content"),
        ("DELETE", "/files/file-1"),
        ("POST", "/batches"),
        ("POST", "/images/generations"),
        ("POST", "/audio/transcriptions"),
        ("GET", "/responses/resp_1?include=a&stream=true"),
        ("DELETE", "/responses/resp_1"),
        ("GET", "/responses/resp_1/input_items"),
        ("POST", "/responses/resp_1/cancel"),
        ("POST", "/responses/compact"),
        ("POST", "/responses/input_tokens"),
        ("GET", "/chat/completions/chatcmpl-1"),
        ("GET", "/chat/completions/chatcmpl-1/messages"),
        ("POST", "/threads/t1/messages"),
        ("POST", "/messages/batches?beta=true"),
        ("GET", "/messages/batches/b1/results"),
    ],
)
def test_what_arrives(run: Trial, method: str, path: str) -> None:
    body = b'{ "a": 1 }' if method == "POST" else b""
    more = {"content": body, "headers": {"content-type": "application/json"}} if body else {}
    got = run.ask(method, f"/v1{path}", **more)
    assert (got.status_code, got.content, got.headers["x-ratelimit-a"]) == (200, body or b"nothing", "1")
    assert got.headers["x-pointsman-upstream"] == "up0"
    [seen] = run.upstream.asked
    assert (seen.method, seen.path, seen.body) == (method, f"/base/v1{path}", body)
    passed = f"/v1{path.partition('?')[0]}"
    # The row follows the answer; one of the same path may be there of the request before.
    until(lambda: run.rows and run.rows[0].id == got.headers["x-request-id"])
    row = run.rows[0]
    assert (row.method, row.path, row.status, row.error) == (method, passed, 200, "")
    assert (row.bytes_in, row.bytes_out) == (len(body), len(got.content))
    assert got.headers["x-request-id"] == row.id
    assert row.total_ms >= row.first_byte_ms > 0


def test_headers_in_both_directions(run: Trial) -> None:
    sent = {
        "x-api-key": "right", "cookie": "a=b", "x-pointsman-debug": "1", "x-forwarded-for": "1.2.3.4",
        "openai-beta": "x", "x-request-id": "mine", "x-named": "1", "connection": "keep-alive, X-Named",
        "range": "bytes=0-9", "accept-encoding": "gzip", "te": "trailers",
    }  # fmt: skip
    got = run.ask("GET", "/v1/files/f", headers=sent)
    seen = run.upstream.asked[0].headers
    assert seen["authorization"] == "Bearer sk-upstream"
    assert (seen["openai-beta"], seen["range"], seen["x-request-id"]) == ("x", "bytes=0-9", "mine")
    assert seen["accept-encoding"] == "identity"
    assert "right" not in str(seen)
    assert seen.keys().isdisjoint(
        {"x-api-key", "cookie", "x-pointsman-debug", "x-forwarded-for", "x-named", "te", "content-length"}
    )
    assert got.headers["x-request-id"] == "mine"


def test_the_key_goes_as_the_format_of_the_path_wants_it(run: Trial) -> None:
    run.ask("GET", "/v1/messages/batches")
    run.ask("GET", "/v1/files", headers={"anthropic-version": "2023-06-01"})
    for seen in run.upstream.asked:
        assert (seen.headers.get("x-api-key"), seen.headers.get("authorization")) == ("sk-upstream", None)


@pytest.mark.parametrize(
    ("model", "arrives"),
    [
        ("m0", "model-0"),
        ("pointsman/m0", "model-0"),
        ("text-embedding-3", "text-embedding-3"),
        ("auto", "auto"),
    ],
)
def test_the_model_of_an_embedding(run: Trial, model: str, arrives: str) -> None:
    body = b'{"input": ["%b", "m0"],  "model": "%b", "dimensions": 1.0}'
    run.ask("POST", "/v1/embeddings", content=body % (b"x" * 400_000, model.encode()), headers=JSON)
    assert run.upstream.asked[0].body == body % (b"x" * 400_000, arrives.encode())


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "body", [b"[1]", b"not JSON", b'{"model": 1}', b'{"model": "m0", "model": "x"}'[:-1], b"{}", b""]
)
def test_what_is_no_such_body_is_for_the_upstream_to_judge(run: Trial, body: bytes) -> None:
    assert run.ask("POST", "/v1/embeddings", content=body, headers=JSON).status_code == 200
    assert run.upstream.asked[0].body == body


def test_a_model_of_another_upstream() -> None:
    server = ServerSpec(port=0, passthrough="up0")
    with gateway(state_for("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1", server=server)) as running:
        got = httpx.post(f"{running.url}/v1/embeddings", json={"model": "m1"}, trust_env=False)
    assert got.status_code == 400
    assert 'model "m1" is served by upstream "up1", and this path by "up0"' in got.json()["error"]["message"]


@pytest.mark.parametrize("is_sized", [True, False], ids=["with its length", "in chunks"])
def test_an_upload(run: Trial, is_sized: bool) -> None:
    file = bytes(range(256)) * 12_000  # 3 MB
    request = httpx.Request("POST", "http://x", files={"file": ("a.bin", file)}, data={"purpose": "batch"})
    body, kind = request.read(), request.headers["content-type"]
    sent = body if is_sized else iter([body[:1], body[1:70_000], body[70_000:]])
    got = run.ask("POST", "/v1/files", content=sent, headers={"content-type": kind})
    [seen] = run.upstream.asked
    assert (seen.body, seen.headers["content-type"], got.content) == (body, kind, body)
    assert seen.headers.get("content-length") == (str(len(body)) if is_sized else None)
    assert ("transfer-encoding" in seen.headers) != is_sized
    assert run.rows[0].bytes_in == len(body)


def head(method: bytes, path: bytes, *headers: bytes) -> bytes:
    lines = [
        b"%b %b HTTP/1.1" % (method, path),
        b"host: localhost",
        b"authorization: Bearer right",
        *headers,
        b"",
        b"",
    ]
    return b"\r\n".join(lines)


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def received(connection: socket.socket, until_seen: bytes) -> bytes:
    connection.settimeout(60)
    got = b""
    while until_seen not in got:
        more = connection.recv(1 << 16)
        assert more, got
        got += more
    return got


def test_an_upload_goes_on_while_it_arrives() -> None:
    """The upstream has its beginning before the caller has sent its end, and may answer before."""
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            caller.sendall(head(b"POST", b"/v1/files", b"content-length: 10") + b"first")
            upstream, _ = server.accept()
            with upstream:
                assert received(upstream, b"first").endswith(b"\r\ncontent-length: 10\r\n\r\nfirst")
                caller.sendall(b"-last")
                assert received(upstream, b"-last") == b"-last"
                upstream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                assert received(caller, b"ok").startswith(b"HTTP/1.1 200 OK")


def test_an_answer_before_the_end_of_an_upload() -> None:
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            caller.sendall(head(b"POST", b"/v1/files", b"content-length: 1000000") + b"first")
            upstream, _ = server.accept()
            with upstream:
                received(upstream, b"first")
                upstream.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
                got = received(caller, b"big")
                assert statuses(got) == [b"413"]
                assert b"connection: close" in got
                upstream.settimeout(60)
                with pytest.raises(ConnectionError) if _is_reset(upstream) else _nothing():
                    assert upstream.recv(1) == b"", "the gateway sends no more of it"


def _is_reset(connection: socket.socket) -> bool:
    try:
        connection.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True
    return False


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def test_an_upload_that_nobody_takes_is_held_back() -> None:
    """The gateway holds what fits into its buffers, and the caller waits."""
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        app = Gateway(state)
        with gateway(app) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            caller.sendall(head(b"POST", b"/v1/files", b"content-length: 31000000"))
            upstream, _ = server.accept()  # and reads nothing
            caller.settimeout(1)
            with upstream, pytest.raises(TimeoutError):
                caller.sendall(bytes(31_000_000))
            assert app.bodies.held < 1_000_000
        until(lambda: app.bodies.held == 0)


def test_a_caller_who_leaves_in_the_middle_of_an_upload() -> None:
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running:
            with socket.create_connection(("127.0.0.1", running.port)) as caller:
                caller.sendall(head(b"POST", b"/v1/files", b"content-length: 1000") + b"first")
                upstream, _ = server.accept()
                received(upstream, b"first")
            with upstream:
                upstream.settimeout(60)
                assert _is_reset(upstream) or upstream.recv(1) == b"", (
                    "the upstream must not take it for whole"
                )
            until(lambda: bool(list(state.runtime.ledger.passed())))
    [row] = state.runtime.ledger.passed()
    assert (row.error, row.status, row.bytes_in) == ("disconnect", 0, 5)


def test_a_download(run: Trial) -> None:
    async def large(asked: Asked, send: Any) -> None:
        await reply(send, 206, bytes(5_000_000), TEXT, ("content-length", "5000000"), ("content-range", "x"))

    run.upstream.answering, before = large, run.upstream.answering
    got = run.ask("GET", "/v1/files/f/content")
    run.upstream.answering = before
    assert (got.status_code, len(got.content), got.headers["content-length"]) == (206, 5_000_000, "5000000")
    assert got.headers["content-range"] == "x"
    assert run.rows[0].bytes_out == 5_000_000


def test_a_stream_of_events_goes_on_event_by_event() -> None:
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            body = b'{"model": "m", "stream": true}'
            lines = b"content-type: application/json", b"content-length: %d" % len(body)
            caller.sendall(head(b"POST", b"/v1/completions", *lines) + body)
            upstream, _ = server.accept()
            with upstream:
                received(upstream, body)
                head_of_answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                upstream.sendall(head_of_answer + b"transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
                received(caller, b"data: 1\n\n")  # before the upstream has sent anything more
                upstream.sendall(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")
                assert received(caller, b"0\r\n\r\n").endswith(b"data: 2\n\n\r\n0\r\n\r\n")


def test_a_download_that_nobody_takes_is_held_back() -> None:
    with listening() as server:
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            caller.sendall(head(b"GET", b"/v1/files/f/content"))
            upstream, _ = server.accept()
            with upstream:
                received(upstream, b"\r\n\r\n")
                upstream.settimeout(1)
                upstream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
                with pytest.raises(TimeoutError):
                    upstream.sendall(bytes(100_000_000))


@pytest.mark.parametrize("framing", [b"content-length: 100", b"transfer-encoding: chunked"])
def test_a_download_that_breaks_off_does_not_look_whole(
    framing: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    part = b"part" if framing.startswith(b"content") else b"4\r\npart\r\n"
    with listening() as server, caplog.at_level(logging.INFO):
        state = state_before(f"http://127.0.0.1:{server.getsockname()[1]}/v1")
        with gateway(state) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
            caller.sendall(head(b"GET", b"/v1/files/f/content"))
            upstream, _ = server.accept()
            with upstream:
                received(upstream, b"\r\n\r\n")
                upstream.sendall(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n" + part)
                got = received(caller, b"part")
            caller.settimeout(60)
            while more := caller.recv(1 << 16):  # until the gateway closes
                got += more
    assert statuses(got) == [b"200"]
    assert not got.endswith(b"0\r\n\r\n")
    [row] = state.runtime.ledger.passed()
    assert (row.error, row.status, row.bytes_out) == ("cut", 200, 4)
    assert 'an answer of upstream "up0" was cut off' in caplog.text


@pytest.mark.parametrize(("method", "times"), [("GET", 3), ("DELETE", 3), ("POST", 1)])
def test_only_what_may_be_sent_again_is(method: str, times: int) -> None:
    async def busy(asked: Asked, send: Any) -> None:
        headers = TEXT, ("retry-after-ms", "1"), ("x-should-retry", "true")
        await reply(send, 503, b"busy, sk-upstream", *headers)

    with trial(busy, retries=2) as run:
        got = run.ask(method, "/v1/files")
        assert (got.status_code, got.text) == (503, "busy, ***")
        assert len(run.upstream.asked) == times
        assert got.headers.get("x-should-retry") == ("true" if method == "POST" else None)
        until(lambda: run.rows)
        assert run.rows[0].error == "status"
        run.ask(method, "/v1/files", headers={"x-stainless-retry-count": "1"})
        assert len(run.upstream.asked) == times + 1, "one owner of retries"


def test_an_upstream_that_is_not_there() -> None:
    with gateway(state := state_before("http://127.0.0.1:1/v1")) as running:
        for _ in range(12):  # the circuit breaker opens, and never holds back the only upstream there is
            refused = httpx.get(f"{running.url}/v1/files", headers=KEY, trust_env=False)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "upstream_connect")
            assert refused.headers["x-should-retry"] == "false"
        assert state.upstreams["up0"].breaker.is_open
    assert [row.error for row in state.runtime.ledger.passed()] == ["connect"] * 12


@pytest.mark.parametrize(
    ("status", "answered", "code"),
    [(401, 403, "upstream_refused_key"), (403, 403, "upstream_refused_key"), (302, 502, "upstream_redirect")],
)
def test_what_only_the_operator_can_change(status: int, answered: int, code: str) -> None:
    async def refuse(asked: Asked, send: Any) -> None:
        await reply(send, status, b"no sk-upstream", TEXT, ("location", "http://127.0.0.1:1/elsewhere"))

    with trial(refuse) as run:
        got = run.ask("GET", "/v1/files")
    assert (got.status_code, got.json()["error"]["code"]) == (answered, code)
    assert "location" not in got.headers
    assert "sk-upstream" not in got.text


def test_the_callers_own_credential() -> None:
    with trial(api_key=None, forward_auth=True) as run:
        got = run.ask(
            "GET", "/v1/files", headers={"authorization": "Bearer mine", "x-pointsman-key": "right"}
        )
        assert got.status_code == 200
        assert run.upstream.asked[0].headers["authorization"] == "Bearer mine"
        refused = run.ask("GET", "/v1/files")
        assert (refused.status_code, len(run.upstream.asked)) == (401, 1)


@pytest.mark.parametrize(
    ("path", "headers", "is_anthropic"),
    [
        ("/v1/embeddings", {}, False),
        ("/v1/responses/resp_1", {}, False),
        ("/v1/messages/batches", {}, True),
        ("/v1/files", {"anthropic-version": "2023-06-01"}, True),
    ],
)
def test_without_the_setting(path: str, headers: dict[str, str], is_anthropic: bool) -> None:
    with gateway(state_for()) as running:
        got = httpx.post(running.url + path, json={"model": "x"}, headers=headers, trust_env=False)
    assert (got.status_code, got.headers["x-should-retry"]) == (404, "false")
    assert got.json()["error"]["message"] == (
        f'"{path}" is not served here: '
        "agents POST to /v1/chat/completions, /v1/responses or /v1/messages; "
        '[server] passthrough = "UPSTREAM" sends other paths below /v1 to an upstream'
    )
    assert ("type" in got.json()) == is_anthropic


def test_a_base_url_that_ends_with_v1_for_a_client_that_adds_it_is_named() -> None:
    with gateway(state_for()) as running:
        got = httpx.post(f"{running.url}/v1/v1/messages", json={"model": "x"}, trust_env=False)
    assert got.status_code == 404
    assert got.json()["error"]["message"].endswith("the client adds /v1 itself: leave it out of the base URL")


def test_an_unknown_upstream_in_the_setting(tmp_path: Path) -> None:
    text = '[upstreams.main]\nbase_url = "http://x/v1"\n\n[server]\npassthrough = "mian"\n'
    [error] = examine(tmp_path / "pointsman.toml", {}, text=text).errors
    assert str(error).endswith('pointsman.toml:5: unknown upstream "mian"; did you mean "main"?')


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE"])
def test_other_methods(run: Trial, method: str) -> None:
    got = run.ask(method, "/v1/files")
    assert (got.status_code, got.headers["allow"], run.upstream.asked) == (405, "DELETE, GET, POST", [])


def test_who_may_not_call(run: Trial) -> None:
    got = httpx.post(f"{run.running.url}/v1/embeddings", json={}, trust_env=False)
    assert (got.status_code, got.headers["x-should-retry"], run.upstream.asked) == (401, "false", [])


def test_the_limits_of_a_body() -> None:
    with trial(limits=Limits(body_bytes=100_000, total_body_bytes=200_000)) as run:
        kind = {"content-type": "application/octet-stream"}
        for body in (bytes(100_001), iter([bytes(60_000), bytes(60_000)])):
            got = run.ask("POST", "/v1/files", content=body, headers=kind)
            assert (got.status_code, got.json()["error"]["code"]) == (413, "too_large")
        got = run.ask("POST", "/v1/embeddings", content=bytes(100_001), headers=JSON)
        assert got.status_code == 413
        [cut] = run.upstream.asked
        assert len(cut.body) < 100_000, "it was sent on until it was too large"
        assert {row.error for row in run.rows} == {"refused"}


def test_a_chunked_body_that_comes_in_one_piece_is_bounded() -> None:
    with trial(limits=Limits(body_bytes=1_000)) as run:
        got = run.ask("POST", "/v1/embeddings", content=iter([bytes(1_001)]), headers=JSON)
        assert (got.status_code, run.upstream.asked) == (413, [])


def test_metrics(run: Trial) -> None:
    run.ask("DELETE", "/v1/files/f")
    page = run.ask("GET", "/metrics").text
    assert 'pointsman_passed_total{method="DELETE",result="ok",upstream="up0"}' in page


ATTACKS = [
    b"/v1/../admin",
    b"/v1/./files",
    b"/v1/files/..",
    b"/v1/files/../../admin",
    b"/v1//evil.example/x",
    b"/v1/files//x",
    b"/v1/%2e%2e/admin",
    b"/v1/.%2e/admin",
    b"/v1/%2E%2e%2fadmin",
    b"/v1/files%2f..%2f..%2fadmin",
    b"/v1/files/%5c..%5cadmin",
    b"/v1/files\\..\\admin",
    b"/v1/%252e%252e/admin",
    b"/v1/files/%00",
    b"/v1/files/%0d%0aa:b",
    b"/v1/..;/admin",
    b"/v1/files;/../x",
    b"/v1/%c0%ae%c0%ae/admin",
    b"/v1/%ff",
    b"/v1/.%20/x",
    b"/v1/..%20/x",
    b"/v1/files/%7f",
    b"/v1/%",
    b"/v1/%zz",
    b"/v1/",
    b"/v1/a|b",
    b"/v1/files?a=\x80",
    b"/v1/...",
]


@pytest.mark.parametrize("path", ATTACKS)
def test_no_path_leaves_the_base_url(run: Trial, path: bytes) -> None:
    got = talk(run.running.port, head(b"GET", path), until=b"}")
    assert statuses(got) == [b"400"], got
    assert run.upstream.asked == []


@pytest.mark.parametrize(
    ("target", "arrives"),
    [
        (b"http://evil.example/v1/files", "/base/v1/files"),
        (b"http://evil.example:81/v1/files?a=http://x/../y", "/base/v1/files?a=http://x/../y"),
        (b"/v1/files?a=%2e%2e%2f&b=//x", "/base/v1/files?a=%2e%2e%2f&b=//x"),
        (b"/v1/files/@evil.example:80", "/base/v1/files/@evil.example:80"),
        (b"/v1/files/a%20b", "/base/v1/files/a b"),
        (b"/v1/files/", "/base/v1/files/"),
        (b"/v1/files#/../x", "/base/v1/files"),
    ],
)
def test_whatever_the_target_says_the_upstream_is_the_configured_one(
    run: Trial, target: bytes, arrives: str
) -> None:
    """A URL of another host as the target names a path, and no host (RFC 9112, section 3.2.2)."""
    sent = head(b"GET", target).replace(b"host: localhost", b"host: evil.example")
    got = talk(run.running.port, sent, until=b"nothing")
    assert statuses(got) == [b"200"], got
    assert [asked.path for asked in run.upstream.asked] == [arrives]
    assert run.upstream.asked[0].headers["host"].startswith("127.0.0.1:")


def test_connect_and_upgrade(run: Trial) -> None:
    refused = talk(run.running.port, b"CONNECT /v1/files HTTP/1.1\r\nhost: localhost\r\n\r\n", until=b"}")
    assert statuses(refused) in ([b"405"], [b"400"])
    offer = head(
        b"GET", b"/v1/files", b"connection: upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AA"
    )
    assert statuses(talk(run.running.port, offer, until=b"nothing")) == [b"200"]
    [seen] = run.upstream.asked
    assert seen.headers.keys().isdisjoint({"upgrade", "http2-settings"})


def test_requests_behind_one_another_are_kept_apart(run: Trial) -> None:
    """A body's length is the caller's word, and the upstream's framing is the gateway's own."""
    smuggled = head(b"POST", b"/v1/files", b"content-length: 5", b"transfer-encoding: chunked") + b"0\r\n\r\n"
    got = talk(run.running.port, smuggled + head(b"GET", b"/v1/secret"), until=b"}")
    assert statuses(got)[:1] == [b"400"]
    assert not [asked for asked in run.upstream.asked if "secret" in asked.path]


@pytest.mark.parametrize("query", [b"a b", b"a\r\nb: c", b"\x80", b"\x00"])
def test_a_query_that_is_none(query: bytes) -> None:
    with pytest.raises(MalformedRequest, match="query"):
        passed_path(b"/v1/files", query)


def test_nothing_of_a_body_is_written_down(run: Trial, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="pointsman"):
        run.ask("POST", "/v1/embeddings?secret=s3cret", json={"input": "s3cret"})
    assert "s3cret" not in json.dumps([str(row) for row in run.rows]) + caplog.text


def test_many_at_once(run: Trial) -> None:
    """Uploads and downloads share the connections of one upstream without a mix-up."""
    failed: list[object] = []

    def upload(number: int) -> None:
        body = b"%d" % number * 50_000
        got = run.ask(
            "POST", "/v1/files", content=iter([body[:7], body[7:]]), headers={"content-type": "a/b"}
        )
        if got.content != body:
            failed.append((number, got))

    threads = [threading.Thread(target=upload, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_caller_who_waits_to_be_asked_for_the_body(run: Trial) -> None:
    """As curl does with a large file (RFC 9110, section 10.1.1)."""
    asking = head(b"POST", b"/v1/files", b"content-length: 4", b"expect: 100-continue", b"content-type: a/b")
    with socket.create_connection(("127.0.0.1", run.running.port)) as caller:
        caller.sendall(asking)
        assert received(caller, b"\r\n\r\n").startswith(b"HTTP/1.1 100 Continue")
        caller.sendall(b"body")
        assert statuses(received(caller, b"body")) == [b"200"]
    assert "expect" not in run.upstream.asked[0].headers


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"model":"m0","model":"other"}', "duplicate key"),
        (b'{"model":"other","model":"m0"}', "duplicate key"),
        (b'{"model":"other","Model":"m0"}', "another spelling"),
        (b'{"mod\\u0065l":"other"}', "another spelling"),
        (b'{"input":1,"input":2}', "duplicate key"),
    ],
)
def test_what_two_readers_could_read_differently_is_not_passed_on(run: Trial, body: bytes, says: str) -> None:
    got = run.ask("POST", "/v1/embeddings", content=body, headers={"content-type": "application/json"})
    assert got.status_code == 400
    assert says in got.json()["error"]["message"]
    assert not run.upstream.asked
