"""An HTTP/1.1 client for upstreams, on httptools and asyncio, with a connection pool and timeouts.

It has the features that a gateway needs and no others: persistent connections, bodies sent while they arrive,
streamed responses, TLS, proxies, timeouts and a connection limit. Why not a library: docs/notebook/0074, with
the figures.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from pointsman.errors import ConfigError, StaleConnection, UpstreamBusy, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams._connection import Connection, Response
from pointsman.upstreams.port import Call, Exchange, Upload, UpstreamSpec
from pointsman.upstreams.proxies import PORTS, Proxy, proxy_of, trust

log = logging.getLogger(__name__)

# Connecting to an upstream: directly or through an HTTP proxy, with or without TLS.

#: Bytes of a proxy's answer to CONNECT; a status line and a few headers.
_MAX_PROXY_HEAD: Final = 16 << 10


class Route:
    """How one upstream is reached. Nothing is sent before ``open``."""

    def __init__(self, spec: UpstreamSpec, env: Mapping[str, str] = os.environ) -> None:
        """Choose the proxy and the TLS context.

        Raises:
            ConfigError: the address of the upstream or of its proxy, or the CA file, cannot be used.
        """
        url = urlsplit(spec.base_url)
        if url.scheme not in PORTS or not url.hostname:
            raise ConfigError(f'upstream "{spec.name}": base_url must begin with http:// or https://')
        self._host = url.hostname
        self._port = url.port or PORTS[url.scheme]
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
        """Distinguish a proxy's answer to a forwarded request from the upstream's.

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
    """Turn every error of a connection into a Pointsman error. The original texts name addresses."""
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


#: Seconds a connection may lie idle before it is closed; common servers close after 60 or 75.
_IDLE: Final = 50.0
#: Seconds of silence by default: before a streamed response begins, and at any other time, when a model may
#: be thinking.
_FIRST_BYTE: Final = 60.0
_SILENCE: Final = 300.0
#: Bytes of a body above which it is not joined with its head (31 MB take the event loop some 20 ms): what a
#: transport holds before it asks for a pause.
_APART: Final = 64 << 10
#: Timeouts are looked at together, four times per shortest one and at least twice a second.
_SWEEPS: Final = 4
_SWEEP_EVERY: Final = 0.5
_as_line: Final = b"%b: %b\r\n".__mod__


class HttpClient:
    """One upstream on the network, with separate connections.

    Redirects are not followed: requests are sent to configured addresses alone.
    """

    def __init__(self, spec: UpstreamSpec, env: Mapping[str, str] = os.environ) -> None:
        """Prepare to connect; nothing is sent yet.

        Raises:
            ConfigError: the address, its proxy's or the CA file cannot be used.
        """
        self._route = Route(spec, env)
        base = spec.base_url.partition("://")[2].partition("/")[2].rstrip("/")
        self._target = self._route.prefix + (f"/{base}" if base else "").encode()
        # Without the second line any compression would be welcome (RFC 9110, section 12.5.3).
        self._fixed_lines = b" HTTP/1.1\r\nhost: %s\r\naccept-encoding: identity\r\n%s" % (
            self._route.authority,
            self._route.proxy_lines,
        )
        self._spec = spec
        self.answer_bytes = spec.answer_bytes
        self._silence = spec.timeouts.first_byte or _SILENCE
        self._first_byte = spec.timeouts.first_byte or _FIRST_BYTE  # of a streamed response
        self._sweep_every = min(self._first_byte / _SWEEPS, spec.timeouts.total / _SWEEPS, _SWEEP_EVERY)
        self._free = spec.connections  # how many more requests may be in progress
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: deque[Connection] = deque()  # the one used last is the last
        self._active: set[Response] = set()
        self._sweep = _Timer()
        self._reaper = _Timer()
        self._keeps = True  # connections for further requests

    async def send(self, call: Call) -> Exchange:
        """See ``UpstreamClient``."""
        request = self._encode(call)
        if self._free:
            self._free -= 1
        else:
            await self._take_place()
        upload = call.upload  # it cannot be sent again: over no connection that may have been closed
        connection = self._kept() if upload is None else None
        if connection is None:
            connection = await self._connect()
        answer = connection.begin(*request)
        if upload is not None:
            answer.sending = connection.loop.create_task(connection.send(upload, answer))
        answer.streams = call.streams
        self._active.add(answer)
        if self._sweep.loop is not connection.loop:
            self._sweep.start(connection.loop, self._sweep_every, self._sweep_now)
        try:
            await answer.head()
            if self._route.prefix:
                self._route.check(answer.status)
        except BaseException as error:
            answer.close()
            if isinstance(error, StaleConnection):
                self._close_idle()  # closed by the upstream as well, in all likelihood
            raise
        return answer

    def close(self) -> None:
        """See ``UpstreamClient``."""
        self._keeps = False
        self._reaper.cancel()
        if not self._active:  # what is in progress keeps its time limits
            self._sweep.cancel()
        self._close_idle()

    def distrust(self) -> None:
        """Reuse no connection from now on: a second response would be read as that to the next request."""
        if self._keeps:
            log.warning(
                'upstream "%s" sent an unsolicited response: its connections are not reused until a restart',
                self._spec.name,
            )
        self._keeps = False
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().transport.close()

    def _encode(self, call: Call) -> tuple[bytes, bytes]:
        """Return the request; a body apart if a socket may not take all of it, and joining it takes long."""
        method, path, body = call.method, call.path, call.body
        lines = b"".join(map(_as_line, call.headers))
        if call.upload is not None:
            framing = _framing(call.upload)
        elif body or method == b"POST":  # without a body only these say so (RFC 9110, section 8.6)
            framing = b"content-length: %d\r\n\r\n" % len(body)
        else:
            framing = b"\r\n"
        head = b"%b %b%b%b%b%b" % (method, self._target, path, self._fixed_lines, lines, framing)
        return (head, body) if len(body) > _APART else (head + body, b"")

    async def _take_place(self) -> None:
        """Wait for a place in the connection limit (back-pressure).

        Raises:
            UpstreamBusy: all were in use for as long as a connection may take.
        """
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        for answer in [answer for answer in self._active if answer.loop.is_closed()]:
            self.forget(answer)  # left behind by a loop that has ended
        try:
            async with asyncio.timeout(self._spec.timeouts.connect):
                await place
        except BaseException as error:
            if not place.cancelled():
                self._give_place()  # it was given in the same moment
            elif place in self._waiting:
                self._waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise UpstreamBusy("all connections to the upstream are in use") from None
            raise

    def _give_place(self) -> None:
        """Let the next request that waits have a connection, or free the place."""
        while self._waiting:
            place = self._waiting.popleft()
            if not (place.done() or place.get_loop().is_closed()):
                place.set_result(None)
                return
        self._free += 1

    def _kept(self) -> Connection | None:
        """Return the connection used last, if one can still be trusted."""
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is not loop or connection.transport.is_closing():
                continue  # whoever asks from one loop after another gets no connection of the last
            if loop.time() - connection.idle_since < _IDLE:
                return connection
            connection.transport.close()
        return None

    async def _connect(self) -> Connection:
        connection = Connection(self, asyncio.get_running_loop())
        try:
            await self._route.open(connection)
        except BaseException:
            self._give_place()
            raise
        return connection

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Take a connection back when its answer is whole."""
        if connection.transport.get_write_buffer_size():
            connection.transport.abort()  # the upstream has not read the request: it might not read the next
        elif reusable and self._keeps:
            loop = connection.loop
            connection.idle_since = loop.time()
            self._idle.append(connection)
            if self._reaper.loop is not loop:
                self._reaper.start(loop, _IDLE, self._reap)
        else:
            connection.transport.close()

    def forget(self, answer: Response) -> None:
        """Stop timing an answer, and let another request have its place."""
        try:
            self._active.remove(answer)
        except KeyError:  # done before
            return
        if self._waiting:
            self._give_place()
        else:
            self._free += 1

    def _sweep_now(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue requests. One timer for all requests, because a timer for each costs each."""
        for answer in [answer for answer in self._active if answer.loop is loop]:
            answer.grow_older(self._sweep_every)
            most = self._first_byte if answer.streams and not answer.status else self._silence
            if answer.silence > most or answer.age > self._spec.timeouts.total:
                answer.fail(UpstreamTimeout("the upstream did not answer in time"))
        if self._active:
            self._sweep.start(loop, self._sweep_every, self._sweep_now)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that are idle for too long."""
        now = loop.time()
        while self._idle:
            oldest = self._idle[0]
            if oldest.loop is loop and now - oldest.idle_since < _IDLE:
                self._reaper.start(loop, oldest.idle_since + _IDLE - now, self._reap)
                return
            self._idle.popleft()
            if oldest.loop is loop:
                oldest.transport.close()


def _framing(upload: Upload) -> bytes:
    """Return the header line that delimits a body, and the end of the head."""
    if upload.size is None:
        return b"transfer-encoding: chunked\r\n\r\n"
    return b"content-length: %d\r\n\r\n" % upload.size


class _Timer:
    """One call later at a time. A loop that is closed takes its call with it, so a new loop starts again."""

    __slots__ = ("_handle", "loop")

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop | None = None  # on which a call is due

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        call: Callable[[asyncio.AbstractEventLoop], None],
    ) -> None:
        """Call later, unless a call is due already."""
        if self.loop is not loop:
            self.loop = loop
            self._handle = loop.call_later(seconds, self._run, loop, call)

    def cancel(self) -> None:
        """Call nothing."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = self.loop = None

    def _run(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[asyncio.AbstractEventLoop], None]
    ) -> None:
        self._handle = self.loop = None
        call(loop)
