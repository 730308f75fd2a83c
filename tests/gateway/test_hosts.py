"""Without keys a request for another host is refused, also a GET: a page's own name may resolve here."""

from collections.abc import Iterator

import pytest

from pointsman.upstreams.port import ServerSpec, hash_key
from support.raw_http import head, talk
from support.servers import Running, gateway, state_for

pytestmark = pytest.mark.integration

PATHS = ("/", "/health/ready", "/metrics", "/v1/models", "/v1/decisions/d-1", "/v1/files", "/nothing")


def post(body: bytes) -> bytes:
    return head(b"content-type: application/json", length=len(body)) + body


@pytest.fixture(scope="module")
def open_gateway() -> Iterator[Running]:
    with gateway(state_for(server=ServerSpec(port=0))) as running:
        yield running


def ask(running: Running, path: str, host: bytes, method: bytes = b"GET") -> bytes:
    line = method + b" " + path.encode() + b" HTTP/1.1\r\n"
    return talk(running.port, line + host + b"content-length: 0\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:4747",
        "localhost.rebound.example",
        "127.0.0.1.rebound.example",
        "localhost@rebound.example",
        "rebound.example@localhost",
        "0.0.0.0",
        "192.168.1.2:4747",
        "[fe80::1]",
        "",
    ],
)
def test_another_host_is_refused(open_gateway: Running, path: str, host: str) -> None:
    got = ask(open_gateway, path, f"host: {host}\r\n".encode())
    assert got.startswith(b"HTTP/1.1 401")
    assert b"rejects requests for other hosts" in got


@pytest.mark.parametrize("method", [b"POST", b"HEAD", b"DELETE", b"OPTIONS"])
def test_another_host_is_refused_for_every_method(open_gateway: Running, method: bytes) -> None:
    got = ask(open_gateway, "/v1/chat/completions", b"host: rebound.example\r\n", method)
    assert got.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "host", [b"localhost", b"LocalHost:4747", b"127.0.0.1:4747", b"127.8.8.8", b"[::1]:4747", b"::1"]
)
def test_this_machine_is_served(open_gateway: Running, host: bytes) -> None:
    assert ask(open_gateway, "/v1/models", b"host: %s\r\n" % host).startswith(b"HTTP/1.1 200")


def test_a_program_that_names_no_host_is_served(open_gateway: Running) -> None:
    got = talk(open_gateway.port, b"GET /v1/models HTTP/1.0\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200")


def test_with_keys_any_name_may_lead_here() -> None:
    server = ServerSpec(port=0, keys=(hash_key("right"),))
    with gateway(state_for(server=server)) as running:
        host = b"host: llm.example\r\n"
        assert ask(running, "/health/ready", host).startswith(b"HTTP/1.1 200")
        assert ask(running, "/v1/models", host + b"x-api-key: right\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "asked",
    [
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: rebound.example\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        post(b'{"model":"auto","messages":[{"role":"user","content":"h"}]}'),
        b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"no HTTP\r\n\r\n",
    ],
)
def test_no_browser_guesses_what_an_answer_is(open_gateway: Running, asked: bytes) -> None:
    got = talk(open_gateway.port, asked, until=b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 ")
    assert got.lower().count(b"\r\nx-content-type-options: nosniff\r\n") == 1
