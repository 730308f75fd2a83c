"""uvicorn's HTTP protocol with what it leaves to a proxy: bounds on slow callers, no upgrades, one write."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["bounded_protocol", "close_slow"]

#: Seconds between looks at all connections, so that no request pays for a timer.
_SWEEP_EVERY: Final = 15.0
#: Looks at which a connection may have no request under way: 75 s at least, longer than the 60 of common load
#: balancers, which so are the first to close.
_WITHOUT_REQUEST: Final = 6
#: Looks at which the body of one request may be arriving: 2 minutes, the largest one at 2.5 Mbit/s. Meanwhile
#: what has arrived of it counts against ``total_body_bytes``.
_WITHOUT_BODY: Final = 8
#: What asks for another protocol on this connection (RFC 9110, section 7.8; RFC 7540, section 3.2.1).
_UPGRADE: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})


class _Joining:
    """A transport that sends the head of an answer with the first of its body.

    uvicorn writes them apart: two system calls, and the caller is woken twice, the first time for nothing.
    """

    def __init__(self, transport: asyncio.Transport, protocol: _Bounded) -> None:
        self._transport = transport
        self._protocol = protocol
        self._answered: Any = None  # the request whose head was written last
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        request: Any = self._protocol.cycle
        if request is not self._answered and request.response_started and request.scope["method"] == "POST":
            self._answered, self._head = request, data
            return
        if self._head:
            data, self._head = self._head + data, b""
        self._transport.write(data)

    def close(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()


class _Bounded(HttpToolsProtocol):
    header_bytes: int
    _data = b""
    _is_body = False  # some of what came last
    _unfinished = 0  # bytes of a head, or of what stands behind a body, that has not ended
    _seen: Any = None  # the request at the last look
    _looks = 0  # since it was another

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        super().connection_made(cast("asyncio.Transport", _Joining(transport, self)))

    def data_received(self, data: bytes) -> None:
        before: Any = self.cycle  # None until the first request's headers have ended
        self._data, self._is_body = data, False
        super().data_received(data)
        if self._is_body or self.cycle is not before:
            self._unfinished = 0
            return
        self._unfinished += len(data)
        if self._unfinished > self.header_bytes:
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self._is_body = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Without the timer that uvicorn sets after every answer: ``look`` closes idle connections."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()

    def _should_upgrade(self) -> bool:
        """Asked when a request offers another protocol. True: only its head is read, then what is below."""
        return True

    def handle_websocket_upgrade(self) -> None:
        """Read the request again without the offer, which a server is free to ignore.

        Every Java program with the JDK's own client offers HTTP/2 like this, and the parser drops the body of
        such a request (uvicorn issue 2722).
        """
        error = sys.exc_info()[1]  # the parser's, with the place where the head ends
        rest = self._data[error.args[0] :] if error else b""
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in _UPGRADE:
                head += (name, b": ", value, b"\r\n")
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join((*head, b"\r\n", rest)))

    def look(self) -> None:
        """Close the connection when a head or a body has been arriving for too long."""
        request: Any = self.cycle
        if request is not self._seen:
            self._seen, self._looks = request, 0
            return
        over = request is None or request.response_complete
        if not over and not request.more_body:
            self._looks = 0
            return
        self._looks += 1
        if self._looks >= (_WITHOUT_REQUEST if over else _WITHOUT_BODY):
            self.transport.close()


def bounded_protocol(limit: int) -> type[HttpToolsProtocol]:
    """Return the protocol with a bound in bytes on headers that have not ended yet; the parser has none."""

    class Bounded(_Bounded):
        header_bytes = limit

    return Bounded


async def close_slow(connections: Iterable[Any]) -> None:
    """Look at all connections now and then, for ever."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY)
        for connection in list(connections):
            connection.look()
