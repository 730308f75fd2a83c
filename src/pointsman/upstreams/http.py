"""An HTTP/1.1 client for upstreams: httptools parses, asyncio carries, this keeps connections and time.

It does what a gateway needs and nothing else: POST, keep-alive, TLS, streamed answers. Why not a library:
docs/decisions/0070, with the figures of two.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from pointsman.errors import ConfigError, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams.port import Call, Exchange, Headers, UpstreamSpec

__all__ = ["HttpClient"]

#: Bytes waiting for a slow caller before the upstream is told to wait too: what uvicorn holds for a socket.
_HIGH_WATER: Final = 64 << 10
#: Seconds a connection may lie idle before it is not trusted any more; common servers close after 60 or 75.
_IDLE: Final = 50.0
#: Timeouts are looked at together, four times per shortest one and at least twice a second.
_SWEEPS: Final = 4
_SWEEP_EVERY: Final = 0.5


class HttpClient:
    """One upstream on the network, with connections of its own.

    Redirects are not followed and no proxy is used: the configuration alone says where requests go.
    """

    def __init__(self, spec: UpstreamSpec) -> None:
        """Prepare to connect; nothing is sent yet.

        Raises:
            ConfigError: the address is not an HTTP address.
        """
        url = urlsplit(spec.base_url)
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ConfigError(f'upstream "{spec.name}": base_url must begin with http:// or https://')
        self._host = url.hostname
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._port = url.port or (443 if self._tls else 80)
        self._base = url.path.rstrip("/").encode()
        host = url.netloc.rpartition("@")[2].encode("idna")
        # Without the second line any compression would be welcome (RFC 9110, section 12.5.3).
        self._fixed_lines = b" HTTP/1.1\r\nhost: %s\r\naccept-encoding: identity\r\n" % host
        self._times = spec.timeouts
        self._sweep_every = min(
            spec.timeouts.first_byte / _SWEEPS, spec.timeouts.total / _SWEEPS, _SWEEP_EVERY
        )
        self._idle: deque[_Connection] = deque()
        self._active: set[_Answer] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, call: Call) -> Exchange:
        """See ``UpstreamClient``."""
        request = self._encode(call)
        connection = self._kept()
        if connection is not None:
            answer = self._begin(connection, request)
            try:
                return await self._head(answer)
            except _Stale:  # closed by the upstream while it lay idle: nobody has seen the request
                pass
        return await self._head(self._begin(await self._connect(), request))

    def close(self) -> None:
        """See ``UpstreamClient``."""
        self._closed = True
        if self._sweep is not None and not self._active:  # what is under way keeps its time limits
            self._sweep.cancel()
            self._sweep = None
        while self._idle:
            self._idle.pop().transport.close()

    def _encode(self, call: Call) -> bytes:
        parts = [b"POST ", self._base, call.path, self._fixed_lines]
        for name, value in call.headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (b"content-length: %d\r\n\r\n" % len(call.body), call.body)
        return b"".join(parts)

    def _kept(self) -> _Connection | None:
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

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._times.connect):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, loop), self._host, self._port, ssl=self._tls
                )
        except TimeoutError:
            raise UpstreamUnavailable("connection to the upstream timed out") from None
        except ssl.SSLCertVerificationError as error:
            raise UpstreamUnavailable(
                f"the upstream's certificate is refused: {error.verify_message}"
            ) from None
        except OSError:  # its text names the address
            raise UpstreamUnavailable("the upstream cannot be reached") from None
        return connection

    def _begin(self, connection: _Connection, request: bytes) -> _Answer:
        answer = connection.begin(request)
        self._active.add(answer)
        if self._sweep is None:
            self._plan_sweep(connection.loop)
        return answer

    async def _head(self, answer: _Answer) -> _Answer:
        try:
            await answer.head()
        except BaseException:
            answer.close()
            raise
        return answer

    def release(self, connection: _Connection, *, reusable: bool) -> None:
        """Take a connection back when its answer is whole."""
        if reusable and not self._closed and not connection.transport.is_closing():
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
        else:
            connection.transport.close()

    def forget(self, answer: _Answer) -> None:
        """Stop timing an answer."""
        self._active.discard(answer)

    def _plan_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep = loop.call_later(self._sweep_every, self._sweep_now, loop)

    def _sweep_now(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail what is overdue. One timer for all requests, because a timer for each costs each."""
        for answer in tuple(self._active):
            answer.grow_older(self._sweep_every)
            if answer.silence > self._times.first_byte or answer.age > self._times.total:
                answer.fail(UpstreamTimeout("the upstream did not answer in time"))
        self._sweep = None
        if self._active:
            self._plan_sweep(loop)


class _Stale(UpstreamError):
    """A kept connection was closed before any of an answer came."""


class _Answer:
    """An ``Exchange``: what the parser of a connection has found so far."""

    __slots__ = ("_client", "_connection", "_error", "_loop", "_paused", "_waiter", "age", "chunks", "done",
                 "headers", "silence", "size", "status")  # fmt: skip

    def __init__(self, client: HttpClient, connection: _Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._connection: _Connection | None = connection
        self._loop = loop
        self.chunks: list[bytes] = []  # of the body, not yet asked for
        self.size = 0  # bytes in them
        self._paused = False
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        self.headers: Headers = ()
        self.age = 0.0  # seconds, as the sweep counts them
        self.silence = 0.0  # seconds since something came
        self.done = False

    def grow_older(self, seconds: float) -> None:
        """Count time (from the sweep). An upstream that was told to wait is not silent."""
        self.age += seconds
        if not self._paused:
            self.silence += seconds

    async def head(self) -> None:
        """Wait until status and headers are there."""
        while not self.status:
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter

    async def next(self) -> bytes:
        while not self.chunks:
            if self.done:
                return b""
            if self._error is not None:
                raise self._error
            self._waiter = self._loop.create_future()
            await self._waiter
        chunks = self.chunks
        self.chunks, self.size = [], 0
        if self._paused and self._connection is not None:
            self._paused = False
            self._connection.transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def read(self) -> bytes:
        first = await self.next()
        if self.done and not self.chunks:
            return first
        parts = [first]
        while part := await self.next():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.answer = None
            self._connection.transport.abort()
            self._connection = None
            self._client.forget(self)

    def hold_back(self) -> None:
        """Let the upstream wait until what has come is asked for."""
        if not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()

    def finish(self) -> None:
        """The answer is whole (from the parser)."""
        self.done = True
        if self._paused and self._connection is not None:
            self._connection.transport.resume_reading()
        self._connection = None
        self._client.forget(self)
        self.wake()

    def fail(self, error: UpstreamError) -> None:
        """The answer will not become whole."""
        self._error = error
        self.close()
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():  # done: whoever waited was cancelled
            waiter.set_result(None)


class _Connection(asyncio.Protocol):
    """One connection. Its methods are called by the transport and by the parser."""

    __slots__ = ("_client", "_headers", "_parser", "_was_used", "answer", "idle_since", "loop", "transport")

    transport: asyncio.Transport

    def __init__(self, client: HttpClient, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.answer: _Answer | None = None
        self.idle_since = 0.0
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._was_used = False

    def begin(self, request: bytes) -> _Answer:
        """Send a request; the answer fills as it arrives."""
        self.answer = _Answer(self._client, self, self.loop)
        self.transport.write(request)
        return self.answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one without inheriting from it

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:
            self.transport.close()  # nobody asked
            return
        answer.silence = 0.0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            answer.fail(UpstreamError("the upstream did not answer in HTTP"))
            return
        answer.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        answer = self.answer
        if answer is None:
            return
        if exc is None and answer.status and not _says_where_it_ends(answer.headers):
            answer.finish()  # such an answer ends with its connection
        elif self._was_used and not answer.status:
            answer.fail(_Stale("the connection had been closed"))
        else:
            answer.fail(UpstreamError("the connection to the upstream broke off"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, []
        status = self._parser.get_status_code()
        if self.answer is not None and status >= 200:  # before that, only a word that it is at work
            self.answer.headers = headers
            self.answer.status = status

    def on_body(self, data: bytes) -> None:
        answer = self.answer
        if answer is not None:
            answer.chunks.append(data)
            answer.size += len(data)
            if answer.size > _HIGH_WATER:
                answer.hold_back()

    def on_message_complete(self) -> None:
        answer = self.answer
        if answer is None or not answer.status:
            return
        self.answer = None
        self._was_used = True
        self._client.release(self, reusable=self._parser.should_keep_alive())
        answer.finish()


def _says_where_it_ends(headers: Headers) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers)
