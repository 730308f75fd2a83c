"""The client of one upstream: connection pool, connection limit, and timeouts."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from pointsman.errors import StaleConnection, UpstreamBusy, UpstreamTimeout
from pointsman.upstreams.http._connection import Connection, Response
from pointsman.upstreams.http._route import Route
from pointsman.upstreams.port import Call, Exchange, Upload, UpstreamSpec
from pointsman.vocabulary import LARGE

__all__ = ["HttpClient"]

#: Seconds a connection may lie idle before it is closed; common servers close after 60 or 75.
_IDLE: Final = 50.0
#: Seconds of silence by default: before a streamed response begins, and at any other time, when a model may
#: be thinking.
_FIRST_BYTE: Final = 60.0
_SILENCE: Final = 300.0
#: Timeouts are looked at together, four times per shortest one and at least twice a second.
_SWEEPS: Final = 4
_SWEEP_EVERY: Final = 0.5


class HttpClient:
    """One upstream on the network, with connections of its own.

    Redirects are not followed: the configuration alone says where requests go.
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
        self._times = spec.timeouts
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
        self._closed = False

    async def send(self, call: Call) -> Exchange:
        """See ``UpstreamClient``."""
        request = self._encode(call)
        await self._take_place()
        if call.upload is not None:  # it cannot be sent again: no connection that may have been closed
            return await self._ask(await self._connect(), request, call)
        connection = self._kept()
        if connection is None:
            connection = await self._connect()
        try:
            return await self._ask(connection, request, call)
        except StaleConnection:
            while self._idle:  # closed as well, in all likelihood
                self._idle.pop().transport.close()
            raise

    def close(self) -> None:
        """See ``UpstreamClient``."""
        self._closed = True
        self._reaper.cancel()
        if not self._active:  # what is in progress keeps its time limits
            self._sweep.cancel()
        while self._idle:
            self._idle.pop().transport.close()

    def _encode(self, call: Call) -> tuple[bytes, ...]:
        """Return the request; a large body apart, because joining 31 MB takes the event loop some 20 ms."""
        parts = [call.method, b" ", self._target, call.path, self._fixed_lines]
        for name, value in call.headers:
            parts += (name, b": ", value, b"\r\n")
        if call.upload is not None:
            parts.append(_framing(call.upload))
        elif call.body or call.method == b"POST":  # without a body only these say so (RFC 9110, section 8.6)
            parts.append(b"content-length: %d\r\n\r\n" % len(call.body))
            if len(call.body) > LARGE:
                return b"".join(parts), call.body
            parts.append(call.body)
        else:
            parts.append(b"\r\n")
        return (b"".join(parts),)

    async def _take_place(self) -> None:
        """Wait for a place in the connection limit (back-pressure).

        Raises:
            UpstreamBusy: all were in use for as long as a connection may take.
        """
        if self._free:
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        for answer in [answer for answer in self._active if answer.loop.is_closed()]:
            self.forget(answer)  # left behind by a loop that has ended
        try:
            async with asyncio.timeout(self._times.connect):
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
        """Let the next request that waits have a connection, or keep the place free."""
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

    async def _ask(self, connection: Connection, request: tuple[bytes, ...], call: Call) -> Response:
        answer = connection.begin(*request)
        answer.streams = call.streams
        if call.upload is not None:
            answer.sending = connection.loop.create_task(connection.send(call.upload, answer))
        self._active.add(answer)
        self._sweep.start(connection.loop, self._sweep_every, self._sweep_now)
        try:
            await answer.head()
            self._route.check(answer.status)
        except BaseException:
            answer.close()
            raise
        return answer

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Take a connection back when its answer is whole."""
        if reusable and not self._closed and not connection.transport.is_closing():
            connection.idle_since = connection.loop.time()
            self._idle.append(connection)
            self._reaper.start(connection.loop, _IDLE, self._reap)
        else:
            connection.transport.close()

    def forget(self, answer: Response) -> None:
        """Stop timing an answer, and let another request have its place."""
        if answer in self._active:
            self._active.remove(answer)
            self._give_place()

    def _sweep_now(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail what is overdue. One timer for all requests, because a timer for each costs each."""
        for answer in [answer for answer in self._active if answer.loop is loop]:
            answer.grow_older(self._sweep_every)
            most = self._first_byte if answer.streams and not answer.status else self._silence
            if answer.silence > most or answer.age > self._times.total:
                answer.fail(UpstreamTimeout("the upstream did not answer in time"))
        if self._active:
            self._sweep.start(loop, self._sweep_every, self._sweep_now)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has lain idle too long."""
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
    """Return the header line that says where a body ends, and the end of the head."""
    if upload.size is None:
        return b"transfer-encoding: chunked\r\n\r\n"
    return b"content-length: %d\r\n\r\n" % upload.size


class _Timer:
    """One call later at a time. A loop that is closed takes its call with it, so a new loop starts again."""

    __slots__ = ("_handle", "_loop")

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        call: Callable[[asyncio.AbstractEventLoop], None],
    ) -> None:
        """Call later, unless a call is due already."""
        if self._handle is None or self._loop is not loop:
            self._loop = loop
            self._handle = loop.call_later(seconds, self._run, loop, call)

    def cancel(self) -> None:
        """Call nothing."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[asyncio.AbstractEventLoop], None]
    ) -> None:
        self._handle = None
        call(loop)
