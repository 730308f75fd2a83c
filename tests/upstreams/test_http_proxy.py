"""The upstream client through a proxy, and with a CA file, against real servers on loopback."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import uvloop

from pointsman.errors import ConfigError, UpstreamError, UpstreamUnavailable
from pointsman.upstreams.http import HttpClient
from pointsman.upstreams.port import ProxyUrl, Timeouts, UpstreamSpec
from support.scripted_proxy import ScriptedProxy
from support.scripted_upstreams import CALL, OK, PATIENT, Serve, Server, ask, client_of, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.integration

#: A name that no name server knows: only the proxy can reach it.
NAME = "llm.pointsman.invalid"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def identity(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@asynccontextmanager
async def proxied(
    serve: Serve,
    proxy: ScriptedProxy,
    *,
    tls: ssl.SSLContext | None = None,
    proxy_tls: ssl.SSLContext | None = None,
    env: str = "",
    user: str = "",
    timeouts: Timeouts = PATIENT,
    **spec: Any,
) -> AsyncIterator[HttpClient]:
    """A client of an upstream behind a proxy, which it is told of by its own setting or by ``env``."""
    async with listening(serve, tls=tls) as port, listening(proxy, tls=proxy_tls) as proxy_port:
        proxy.port = port
        address = f"{'https' if proxy_tls else 'http'}://{user}localhost:{proxy_port}"
        own: dict[str, Any] = {} if env else {"proxy": ProxyUrl(address)}
        url = f"{'https' if tls else 'http'}://{NAME}/v1"
        upstream = UpstreamSpec("up", url, timeouts=timeouts, **own, **spec)
        client = HttpClient(upstream, {env: address} if env else {})
        try:
            yield client
        finally:
            client.close()


def answer(client: AbstractAsyncContextManager[HttpClient], times: int = 1) -> list[tuple[int, bytes]]:
    async def run() -> list[tuple[int, bytes]]:
        async with client as opened:
            return [await ask(opened) for _ in range(times)]

    return uvloop.run(run())


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("env", ["", "HTTPS_PROXY", "all_proxy"])
def test_a_tunnel_is_kept_for_the_next_request(
    env: str, run: Callable[[Any], Any], authority: trustme.CA, ca_file: Path
) -> None:
    server, proxy = Server(OK, OK), ScriptedProxy()

    async def twice() -> list[tuple[int, bytes]]:
        tls = identity(authority, NAME)
        async with proxied(server, proxy, tls=tls, env=env, user="u:p%40w@", ca_file=ca_file) as client:
            return [await ask(client), await ask(client)]

    assert run(twice()) == [(200, b"hello")] * 2
    assert proxy.asked == [
        b"CONNECT %(name)s:443 HTTP/1.1\r\nhost: %(name)s:443\r\nproxy-authorization: Basic dTpwQHc=\r\n\r\n"
        % {b"name": NAME.encode()}
    ]
    line, host, *_ = server.asked[1].split(b"\r\n")
    assert (line, host) == (b"POST /v1/chat/completions?a=b HTTP/1.1", b"host: %s" % NAME.encode())
    assert not any(b"proxy" in asked for asked in server.asked)


def test_without_tls_the_proxy_gets_the_whole_address() -> None:
    server, proxy = Server(OK, OK), ScriptedProxy()
    assert answer(proxied(server, proxy, env="http_proxy", user="u:w@"), 2) == [(200, b"hello")] * 2
    line, *headers = proxy.asked[0].split(b"\r\n")
    assert line == b"POST http://%s/v1/chat/completions?a=b HTTP/1.1" % NAME.encode()
    assert {b"host: %s" % NAME.encode(), b"proxy-authorization: Basic dTp3"} < set(headers)
    assert len(proxy.asked) == 1  # the connection is kept


def test_a_proxy_that_is_reached_over_tls(
    authority: trustme.CA, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    server, proxy = Server(OK), ScriptedProxy()
    tls, proxy_tls = identity(authority, NAME), identity(authority, "localhost")
    assert answer(proxied(server, proxy, tls=tls, proxy_tls=proxy_tls)) == [(200, b"hello")]
    assert len(proxy.asked) == 1


def test_an_exception_of_the_environment_is_reached_directly() -> None:
    server, proxy = Server(OK), ScriptedProxy()

    async def run() -> tuple[int, bytes]:
        async with listening(proxy) as port:
            env = {"ALL_PROXY": f"http://127.0.0.1:{port}", "NO_PROXY": "127.0.0.0/8"}
            async with client_of(server, env=env) as client:
                return await ask(client)

    assert uvloop.run(run()) == (200, b"hello")
    assert not proxy.asked


REFUSALS = {
    "credentials": (b"HTTP/1.1 407 Authenticate\r\n\r\n", r"asks for credentials \(status 407\)"),
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\n\r\n", rf"refuses a connection to {NAME}:443 \(status 403\)"),
    "bad gateway": (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", r"refuses a connection .* \(status 502\)"),
    "redirect": (b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", r"refuses a connection .*\(status 302\)"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "did not answer in HTTP"),
    "endless": (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 20_000, "answers with too many header bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("refusal", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_proxy_that_refuses_is_named_and_no_password(
    refusal: bytes, message: str, authority: trustme.CA, ca_file: Path
) -> None:
    proxy = ScriptedProxy(refusal=refusal)
    tls = identity(authority, NAME)
    with pytest.raises(UpstreamUnavailable, match=rf"the proxy localhost:\d+ {message}") as caught:
        answer(proxied(Server(OK), proxy, tls=tls, user="u:canary@", ca_file=ca_file))
    assert "canary" not in str(caught.value)


def test_a_proxy_that_asks_for_credentials_without_tls() -> None:
    proxy = ScriptedProxy(refusal=b"HTTP/1.1 407 Authenticate\r\ncontent-length: 0\r\n\r\n")
    with pytest.raises(UpstreamUnavailable, match=r"the proxy localhost:\d+ asks for credentials"):
        answer(proxied(Server(OK), proxy))


def test_a_proxy_that_hangs_up(authority: trustme.CA, ca_file: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async def run() -> None:
        async with listening(hang_up) as port:
            spec = UpstreamSpec("up", f"https://{NAME}/v1", proxy=ProxyUrl(f"http://localhost:{port}"))
            await HttpClient(spec).send(CALL)

    with pytest.raises(UpstreamUnavailable, match=r"the proxy localhost:\d+ closed the connection"):
        uvloop.run(run())


def test_a_proxy_that_says_nothing() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def run() -> None:
        async with listening(silent) as port:
            spec = UpstreamSpec(
                "up",
                f"https://{NAME}/v1",
                proxy=ProxyUrl(f"http://localhost:{port}"),
                timeouts=Timeouts(connect=0.05),
            )
            await HttpClient(spec).send(CALL)

    with pytest.raises(UpstreamUnavailable, match=r"timed out through the proxy localhost:"):
        uvloop.run(run())


def test_a_proxy_where_nobody_listens() -> None:
    async def run() -> None:
        async with listening(Server()) as port:
            pass
        spec = UpstreamSpec("up", f"https://{NAME}/v1", proxy=ProxyUrl(f"http://127.0.0.1:{port}"))
        await HttpClient(spec).send(CALL)

    with pytest.raises(UpstreamUnavailable, match=r"^the proxy 127.0.0.1:\d+ cannot be reached$"):
        uvloop.run(run())


def test_a_certificate_behind_a_proxy_is_checked(authority: trustme.CA, ca_file: Path) -> None:
    tls = identity(authority, "example.org")
    with pytest.raises(UpstreamUnavailable, match=r"the upstream's certificate is refused through the proxy"):
        answer(proxied(Server(OK), ScriptedProxy(), tls=tls, ca_file=ca_file))


def test_half_an_answer_through_a_tunnel(authority: trustme.CA, ca_file: Path) -> None:
    server = Server(OK[:-1], then_close=True)
    with pytest.raises(UpstreamError, match="broke off"):
        answer(proxied(server, ScriptedProxy(), tls=identity(authority, NAME), ca_file=ca_file))


def test_a_ca_file(authority: trustme.CA, ca_file: Path) -> None:
    tls = identity(authority, "localhost")
    trusting = client_of(Server(OK), tls=tls, host="localhost", ca_file=ca_file)
    assert answer(trusting) == [(200, b"hello")]


def test_a_ca_file_takes_the_place_of_the_systems(
    authority: trustme.CA, ca_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    tls = identity(authority, "localhost")
    with pytest.raises(UpstreamUnavailable, match="certificate is refused"):
        answer(client_of(Server(OK), tls=tls, host="localhost", ca_file=other))


def test_a_server_without_tls_is_no_upstream_with_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async def run() -> None:
        async with listening(plain) as port:
            await HttpClient(UpstreamSpec("up", f"https://127.0.0.1:{port}/v1")).send(CALL)

    with pytest.raises(UpstreamUnavailable, match="TLS handshake with the upstream failed: "):
        uvloop.run(run())


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "cannot be read: No such file"), ("no certificate", "holds no certificate in PEM")],
)
def test_a_ca_file_that_is_none(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=rf'upstream "up": ca_file .*ca.pem {message}'):
        HttpClient(UpstreamSpec("up", "https://localhost/v1", ca_file=path))
