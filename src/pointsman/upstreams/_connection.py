"""One connection to an upstream, and the answer that is arriving on it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol, cast

import httptools

from pointsman.errors import StaleConnection, UpstreamError, UpstreamMalformed, UpstreamTooLarge
from pointsman.upstreams.port import DirectExchange, Headers, Upload

#: Bytes waiting for a slow caller before the upstream is told to wait too; uvicorn holds as many.
_HIGH_WATER: Final = 64 << 10
#: Bytes of an answer's headers, and of all else that is no body: as much as a caller may send.
_MAX_HEAD: Final = 64 << 10
#: Seconds in which a kept connection may turn out to have been closed before the request came: more than a
#: round trip. An upstream that hangs up later has had the request, and may have acted on it.
_CLOSE_RACE: Final = 2.0

_MAX_HEADERS: Final = 256

_TOO_LONG_HEAD: Final = (
    f"the upstream answers with more than {_MAX_HEAD >> 10} kB of headers or more than {_MAX_HEADERS} of them"
)
#: Statuses that HTTP defines end below this (RFC 9110, section 15).
_STATUS_END: Final = 600
#: With this one a server may say that it closes an idle connection (RFC 9110, section 15.5.9).
_REQUEST_TIMEOUT: Final = 408


class Owner(Protocol):
    """The client that a connection belongs to."""

    @property
    def answer_bytes(self) -> int:
        """The most bytes of a whole answer."""

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Take a connection back when its answer is whole."""

    def distrust(self) -> None:
        """Reuse no connection from now on: the upstream has sent an unsolicited response."""

    def forget(self, answer: Response) -> None:
        """Stop timing an answer, and let another request have its place."""


class Response(DirectExchange):
    """An ``Exchange``: the parsed part of a response."""

    received = 0  # bytes of the body so far
    taken = 0  # bytes of it that were asked for
    status = 0
    headers: Headers = ()
    age = 0.0  # seconds, as the sweep counts them
    silence = 0.0  # seconds since something came
    streams = False  # it was asked for as a stream
    done = False
    sending: asyncio.Task[None] | None = None  # of an upload
    waiter: asyncio.Future[None] | None = None  # who waits for more
    _paused = False
    _error: Exception | None = None

    def __init__(self, client: Owner, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._connection: Connection | None = connection
        self.loop = loop
        self.chunks: list[bytes] = []  # of the body, not yet asked for

    @property
    def is_sent(self) -> bool:
        """Whether the request's body has gone out to its end."""
        return self.sending is None or self.sending.done()

    def grow_older(self, seconds: float) -> None:
        """Count time (from the sweep). An upstream under back-pressure is not silent."""
        self.age += seconds
        if not self._paused:
            self.silence += seconds

    async def head(self) -> None:
        """Wait until status and headers are there."""
        while not self.status:
            if self._error is not None:
                raise self._error
            self.waiter = self.loop.create_future()
            await self.waiter

    async def next(self) -> bytes:
        while not (chunks := self.chunks):
            if self.done:
                return b""
            if self._error is not None:
                raise self._error
            waiter = self.waiter = self.loop.create_future()
            await waiter
        self.chunks, self.taken = [], self.received
        if self._paused and self._connection is not None:
            self._paused = False
            self._connection.transport.resume_reading()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def read(self) -> bytes:
        limit = self._client.answer_bytes
        if self.done and len(self.chunks) == 1 and self.received <= limit:
            return self.chunks.pop()
        parts = [await self.next()]
        while self.received <= limit:
            part = await self.next()
            if not part:
                return b"".join(parts)
            parts.append(part)
        self.close()
        raise UpstreamTooLarge(f"the upstream answered with more than {limit} bytes")

    def close(self) -> None:
        if self.sending is not None:
            self._stop_sending()
        if self._connection is not None:
            self._connection.answer = None
            self._connection.transport.abort()
            self._connection = None
            self._client.forget(self)

    def hold_back(self) -> None:
        """Apply back-pressure until the received part is read."""
        if not self._paused and self._connection is not None:
            self._paused = True
            self._connection.transport.pause_reading()

    def finish(self) -> None:
        """The answer is whole (from the parser); ``wake`` has to follow."""
        self.done = True
        if self._paused and self._connection is not None:
            self._connection.transport.resume_reading()
        self._connection = None
        if self.sending is not None:
            self._stop_sending()
        self._client.forget(self)

    def _stop_sending(self) -> None:
        if self.sending is not None and self.sending is not asyncio.current_task():
            self.sending.cancel()

    def fail(self, error: Exception) -> None:
        """The answer will not become whole."""
        self._error = error
        self.close()
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self.waiter is not None and not self.waiter.done():  # done: nobody waits, or was cancelled
            self.waiter.set_result(None)


class Connection(asyncio.Protocol):
    """One connection. Its methods are called by the transport and by the parser."""

    __slots__ = ("_begun", "_client", "_drained", "_headers", "_other", "_parser", "answer",
                 "idle_since", "loop", "transport")  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, client: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.answer: Response | None = None
        self.idle_since = 0.0  # since when it waits for a request; 0: it has answered none
        self._client = client
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._begun = 0.0  # when the request was sent, until the first byte of its answer
        self._other = 0  # bytes since the last one of a body
        self._drained: asyncio.Future[None] | None = None  # while the upstream takes nothing more

    def begin(self, head: bytes, body: bytes) -> Response:
        """Send a request; the answer fills as it arrives."""
        loop = self.loop
        answer = self.answer = Response(self._client, self, loop)
        self._begun = loop.time()
        self._other = 0
        self.transport.write(head)
        if body:
            # In two parts: a transport of TLS counts only what it was given while the socket took no more.
            self.transport.write(memoryview(body)[:-1])
            self.transport.write(body[-1:])
        return answer

    async def send(self, upload: Upload, answer: Response) -> None:
        """Send a body as it arrives and as fast as it is taken; fail the answer if it breaks off."""
        try:
            while part := await upload.next():
                if self._drained is not None:
                    await self._drained
                answer.silence = 0.0
                self.transport.write(part if upload.size is not None else b"%x\r\n%b\r\n" % (len(part), part))
            if upload.size is None:
                self.transport.write(b"0\r\n\r\n")
        except Exception as error:  # noqa: BLE001 - whatever ends the body is told whoever waits for the answer
            answer.fail(error)

    def pause_writing(self) -> None:
        self._drained = self.loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one without inheriting from it

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:
            self.transport.close()  # nobody asked
            with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
                self._parser.feed_data(data)
            return
        answer.silence = self._begun = 0.0
        self._other += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            answer.fail(UpstreamError("the upstream did not answer in HTTP"))
            return
        except httptools.HttpParserUpgrade:
            status = self._parser.get_status_code()
            answer.fail(UpstreamMalformed(f"the upstream switches protocols, with status {status}"))
            return
        if self._other > _MAX_HEAD and not answer.done:
            answer.fail(UpstreamTooLarge(_TOO_LONG_HEAD))
        elif (answer.take is None or answer.chunks or answer.done) and (
            (waiter := answer.waiter) is not None and not waiter.done()
        ):
            waiter.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        answer = self.answer
        if answer is None:
            return
        if exc is None and answer.status and not _says_where_it_ends(answer.headers):
            answer.finish()  # such an answer ends with its connection
            answer.wake()
        elif self.idle_since and self._begun and self.loop.time() - self._begun < _CLOSE_RACE:
            answer.fail(StaleConnection("the upstream had closed the connection"))
        else:
            answer.fail(UpstreamError("the connection to the upstream broke off"))

    def on_message_begin(self) -> None:
        self._headers = []  # without the trailers of the answer before
        if self.answer is None:  # behind an answer comes more than was asked for: nobody may get it
            self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        headers, self._headers = self._headers, []
        answer, status = self.answer, self._parser.get_status_code()
        if answer is None or status < 200:  # only a word that it is at work
            if answer is None and status >= 200 and self.idle_since and not self._is_parting_word(status):
                self._client.distrust()
            return
        if len(headers) > _MAX_HEADERS or (
            self._other > _MAX_HEAD and sum(len(name) + len(value) for name, value in headers) > _MAX_HEAD
        ):
            answer.fail(UpstreamTooLarge(_TOO_LONG_HEAD))
            return
        if status >= _STATUS_END:
            message = f"the upstream answered with status {status}, which HTTP does not have"
            answer.fail(UpstreamMalformed(message))
            return
        answer.headers = headers
        answer.status = status

    def _is_parting_word(self, status: int) -> bool:
        """Whether an unsolicited response only announces that the server closes the connection."""
        return status == _REQUEST_TIMEOUT or not self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        answer = self.answer
        if answer is not None:
            if (
                answer.take is not None
                and not answer.chunks
                and (waiter := answer.waiter) is not None
                and not waiter.done()  # else the reader is at work on what came before
                and answer.take(data)
            ):
                self._other = 0
                return
            answer.chunks.append(data)
            received = answer.received = answer.received + len(data)
            self._other = 0
            if received - answer.taken > _HIGH_WATER:
                answer.hold_back()

    def on_message_complete(self) -> None:
        answer = self.answer
        if answer is None or not answer.status:
            return
        self.answer = None
        if answer.sending is not None and not answer.is_sent:
            self.transport.abort()  # the upstream wants no more of the body
        else:
            self._client.release(self, reusable=self._parser.should_keep_alive())
        answer.finish()


def _says_where_it_ends(headers: Headers) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in headers)
