"""Connecting to an upstream: directly or through an HTTP proxy, with or without TLS."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.upstreams.http._connection import Connection
from pointsman.upstreams.port import UpstreamSpec
from pointsman.upstreams.proxies import Proxy, proxy_of
from pointsman.upstreams.trust import trust

__all__ = ["Route"]

#: Bytes of a proxy's answer to CONNECT; a status line and a few headers.
_MAX_PROXY_HEAD: Final = 16 << 10
_PORTS: Final = {"http": 80, "https": 443}


class Route:
    """How one upstream is reached. Nothing is sent before ``open``."""

    def __init__(self, spec: UpstreamSpec, env: Mapping[str, str] = os.environ) -> None:
        """Choose the proxy and the TLS context.

        Raises:
            ConfigError: the address of the upstream or of its proxy, or the CA file, cannot be used.
        """
        url = urlsplit(spec.base_url)
        if url.scheme not in _PORTS or not url.hostname:
            raise ConfigError(f'upstream "{spec.name}": base_url must begin with http:// or https://')
        self._host = url.hostname
        self._port = url.port or _PORTS[url.scheme]
        self._patience = spec.timeouts.connect
        self._tls = trust(spec) if url.scheme == "https" else None
        self.proxy = proxy_of(spec, env)
        self._proxy_tls = ssl.create_default_context() if self.proxy and self.proxy.tls else None
        #: The value of the header ``host``.
        self.authority = url.netloc.rpartition("@")[2].encode("idna")
        #: What goes before the path in a request line, and the header lines that only the proxy reads.
        self.prefix, self.proxy_lines = b"", b""
        if self.proxy and self._tls is None:
            self.prefix = b"http://" + self.authority  # RFC 9112, section 3.2.2
            self.proxy_lines = _authorization(self.proxy)

    async def open(self, connection: Connection) -> None:
        """Connect to the upstream; the ``transport`` of the connection is set when this returns.

        Raises:
            UpstreamUnavailable: no connection, or not in time.
        """
        via = f" through the proxy {self.proxy}" if self.proxy else ""
        try:
            async with asyncio.timeout(self._patience):
                with _explained("the upstream", via):
                    await self._open(asyncio.get_running_loop(), connection)
        except TimeoutError:
            raise UpstreamUnavailable(f"connection to the upstream timed out{via}") from None

    async def _open(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        if self.proxy is None:
            await loop.create_connection(lambda: connection, self._host, self._port, ssl=self._tls)
        elif self._tls is None:
            await _to_proxy(self.proxy, loop.create_connection(
                lambda: connection, self.proxy.host, self.proxy.port, ssl=self._proxy_tls
            ))  # fmt: skip
        else:
            await self._through_tunnel(loop, self.proxy, self._tls, connection)

    async def _through_tunnel(
        self, loop: asyncio.AbstractEventLoop, proxy: Proxy, tls: ssl.SSLContext, connection: Connection
    ) -> None:
        tunnel = _Tunnel(loop, proxy, self._connect_request(proxy))
        transport, _ = await _to_proxy(
            proxy, loop.create_connection(lambda: tunnel, proxy.host, proxy.port, ssl=self._proxy_tls)
        )
        try:
            self._check_tunnel(await tunnel.status)
            inner = await loop.start_tls(transport, connection, tls, server_hostname=self._host)
        except BaseException:
            transport.abort()
            raise
        connection.transport = cast("asyncio.Transport", inner)  # None only for a transport of another kind

    def check(self, status: int) -> None:
        """Tell the answer of a proxy, to a request that it was to pass on, from the upstream's.

        Raises:
            UpstreamUnavailable: the proxy asks for credentials.
        """
        if status == 407 and self.prefix:
            raise self._wants_credentials()

    def _check_tunnel(self, status: int) -> None:
        if status == 407:
            raise self._wants_credentials()
        if not 200 <= status < 300:
            place = f"{self._host}:{self._port}"
            raise UpstreamUnavailable(
                f"the proxy {self.proxy} refuses a connection to {place} (status {status})"
            )

    def _wants_credentials(self) -> UpstreamUnavailable:
        return UpstreamUnavailable(f"the proxy {self.proxy} asks for credentials (status 407)")

    def _connect_request(self, proxy: Proxy) -> bytes:
        host = f"[{self._host}]" if ":" in self._host else self._host
        place = f"{host}:{self._port}".encode("idna")
        return b"CONNECT %s HTTP/1.1\r\nhost: %s\r\n%s\r\n" % (place, place, _authorization(proxy))


def _authorization(proxy: Proxy) -> bytes:
    if proxy.authorization is None:
        return b""
    return b"proxy-authorization: %s\r\n" % proxy.authorization.reveal().encode()


async def _to_proxy(
    proxy: Proxy, connecting: Awaitable[tuple[asyncio.Transport, asyncio.Protocol]]
) -> tuple[asyncio.Transport, asyncio.Protocol]:
    with _explained(f"the proxy {proxy}", ""):
        return await connecting


@contextmanager
def _explained(party: str, via: str) -> Iterator[None]:
    """Turn every error of a connection into one of ours. The texts of theirs name addresses."""
    try:
        yield
    except TimeoutError:
        raise  # a kind of OSError; the caller knows how long it waited
    except ssl.SSLCertVerificationError as error:
        message = f"{party}'s certificate is refused{via}: {error.verify_message}"
    except ssl.SSLError as error:
        message = f"TLS handshake with {party} failed{via}: {error.reason or 'connection closed'}"
    except (OSError, UnicodeError):  # UnicodeError: a host name that no name server can be asked for
        message = f"{party} cannot be reached{via}"
    else:
        return
    raise UpstreamUnavailable(message)


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a connection to the upstream. ``status`` is its answer's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, proxy: Proxy, request: bytes) -> None:
        self.status: asyncio.Future[int] = loop.create_future()
        self._proxy = proxy
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail("did not answer in HTTP")
        if self._size > _MAX_PROXY_HEAD:
            self._fail("answers with too many header bytes")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self.status.done() and status >= 200:
            self.status.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self._fail("closed the connection")

    def _fail(self, why: str) -> None:
        if not self.status.done():
            self.status.set_exception(UpstreamUnavailable(f"the proxy {self._proxy} {why}"))
