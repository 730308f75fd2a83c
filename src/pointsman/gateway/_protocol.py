"""uvicorn's HTTP protocol with limits on headers and slow clients, without upgrades, with one write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pointsman.gateway._admission import Admission, Spare
from pointsman.gateway._refused import Refused, asked_format, unreadable
from pointsman.gateway._response_cycle import ResponseCycle, joined
from pointsman.remembering import remembered

__all__ = ["bounded_protocol", "close_slow", "close_unread"]

log = logging.getLogger(__name__)

#: Seconds between looks at all connections, so that no request pays for a timer.
_SWEEP_EVERY: Final = 5.0
#: Looks at which a new connection may have sent no whole head, and any head may be arriving: 15 to 20 s, the
#: least that Apache's mod_reqtimeout gives a head.
_WITHOUT_HEAD: Final = 4
#: Looks at which a connection may have no request in progress: 75 s at least, longer than the 60 of common
#: load balancers, so that they close first.
_WITHOUT_REQUEST: Final = 16
#: Looks at which the body of one request may be arriving: 2 minutes, the largest one at 2.5 Mbit/s. Meanwhile
#: what has arrived of it counts against ``total_body_bytes``.
_WITHOUT_BODY: Final = 24
#: Seconds between looks at connections whose answers wait to be taken.
_UNREAD_EVERY: Final = 1.0
#: Bytes of answers that may wait, over all connections; beyond them who takes nothing goes sooner. Half of
#: what large answers may hold (``_answer_budget``), so that one such caller does not keep others waiting.
_MOST_UNREAD: Final = 16 << 20
#: Bytes that a caller has to take between two looks to count as reading, and within ``unread_seconds`` to
#: stay: 273 B/s at the default of 60 s. Who takes a byte now and then would hold its answer for ever.
_LEAST_TAKEN: Final = 16 << 10
#: Looks after which a caller who took too little meanwhile may be sent away so.
_UNREAD_LOOKS: Final = 2
#: Headers of one request. Apache and gunicorn take 100 by default; the largest agents send about 30.
_MOST_HEADERS: Final = 256
#: Requests that may wait on one connection while another is answered: each costs some kB from its head on.
_MOST_PIPELINED: Final = 100
#: Seconds, and bytes, for which a refused caller is still listened to. What is closed with bytes unread is
#: reset, and a reset overtakes the answer that says why.
_LINGER: Final = 2.0
_LINGER_BYTES: Final = 4 << 20
#: Request targets that are remembered, and the bytes of the longest: an agent asks for the same few.
_TARGETS: Final = 256
_LONGEST_TARGET: Final = 128
#: Where the body of a caller is read that has shown no key.
_LOGIN: Final = "/console/login"
#: What asks for another protocol on this connection (RFC 9110, section 7.8; RFC 7540, section 3.2.1).
_UPGRADE: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})


def _read_target(url: bytes) -> Mapping[str, Any]:
    """Return the members of a request's scope (ASGI) that depend on its target."""
    parsed = httptools.parse_url(url)
    text = parsed.path.decode("ascii")
    path = unquote(text) if "%" in text else text
    return {"path": path, "raw_path": parsed.path, "query_string": parsed.query or b""}


_target_of: Final = remembered(_read_target, _TARGETS, _LONGEST_TARGET)


class _Arriving(NamedTuple):
    """The beginning of a head, while its end has not come."""

    size: int  # in bytes
    tail: bytes  # the last three of them: the end of the head may begin there


class _Unread(NamedTuple):
    """The part of an answer that a caller has not taken."""

    size: int  # bytes that waited when it was last seen reading
    looks: int  # since then


class _Trailers(list[tuple[bytes, bytes]]):
    """Takes the trailers of a chunked body: they are not headers of the request (RFC 9110, section 6.5.1)."""

    def append(self, pair: tuple[bytes, bytes]) -> None:
        """Count a trailer."""
        if len(self) == _MOST_HEADERS:
            raise Refused(431, "too_large", f"the request has more than {_MOST_HEADERS} trailers")
        super().append(pair)


_NOTHING: Final = _Arriving(0, b"")
_ALL_READ: Final = _Unread(0, 0)


class _Bounded(HttpToolsProtocol):
    header_bytes: int
    admission: Admission
    url = b""  # of the request whose head came last
    looks = 0  # since the request in progress, or the head that is arriving, was another
    _is_body = False  # some of what came last
    _size = 0  # bytes that came since a head ended or a part of a body came, and with it: no head is larger
    _is_offer = False  # the request whose head came last asks for another protocol
    _arriving = _NOTHING  # the head that has not ended, or the end of a body
    _seen: Any = None  # the request at the last look
    _to_discard: int | None = None  # bytes that a refused caller may still send; None: it is not refused
    unread_since = _ALL_READ
    _constant: Mapping[str, Any]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own
        super().connection_made(transport)
        self._constant = {  # of the scope of every request
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
        }
        self.default_lines = joined(self.server_state.default_headers)  # no date: they do not change
        self.admission.opened(self, self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.forget(self)
        super().connection_lost(exc)
        waiting: Any = self.pipeline[-1][0] if self.pipeline else None
        if waiting is not None and waiting.before is not None:  # uvicorn tells the request that came last
            waiting.before.disconnected = True
            waiting.before.set()

    @property
    def spare(self) -> Spare | None:
        """Why the connection may be closed for another; None: a request is in progress, or none has come."""
        request: Any = self.cycle
        if request is None:
            return None
        if not request.response_complete:
            is_form = request.more_body and request.scope["path"].rstrip("/") == _LOGIN
            return Spare.UNKNOWN_CALLER if is_form else None
        if self._arriving.size:
            return Spare.HALF_A_HEAD
        return Spare.UNREAD if self.transport.get_write_buffer_size() else Spare.IDLE

    def data_received(self, data: bytes) -> None:
        if self._to_discard is not None:
            self._to_discard -= len(data)
            if self._to_discard < 0:
                self.transport.abort()
            return
        length = len(data)
        size = self._arriving.size + length
        if size > self.header_bytes and self._is_head_too_long(data):
            self._refuse(self._too_long(), data)
            return
        before: Any = self.cycle  # None until the first request's headers have ended
        self._is_body = False
        self._size += length
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError) as stopped:
            self._parse_on(data, stopped)
        if self._is_body or self.cycle is not before:
            self._arriving, self._size = _NOTHING, length
            return
        if not self._arriving.size:
            self.looks = 0
        self._arriving = _Arriving(size, (self._arriving.tail + data[-3:])[-3:])
        if size > self.header_bytes and self._to_discard is None:
            self._refuse(self._too_long())

    def _is_head_too_long(self, data: bytes) -> bool:
        """Whether a head is arriving and is longer than the limit; asked before it is parsed."""
        request: Any = self.cycle
        if request is not None and request.more_body:
            return False  # it is a body, or was one when the answer to it began
        size, tail = self._arriving
        end = (tail + data[: self.header_bytes + 4]).find(b"\r\n\r\n")
        return end < 0 or size - len(tail) + end + 4 > self.header_bytes

    def _parse_on(self, data: bytes, stopped: Exception) -> None:
        """Resume at data at which the parser has stopped: an offer of another protocol, or an error."""
        parts: list[bytes | memoryview] = []  # what is to be read, the next one last
        part: bytes | memoryview = data
        while isinstance(stopped, httptools.HttpParserUpgrade):
            parts += (memoryview(part)[stopped.args[0] :], self._without_upgrade())
            try:
                while parts:
                    self.parser.feed_data(part := parts.pop())
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as again:
                stopped = again
            else:
                return
        why = stopped.__context__
        self._refuse(why if isinstance(why, Refused) else unreadable(part, str(stopped)))

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin a request: uvicorn's method with our limits and ``ResponseCycle``."""
        headers, url, parser = self.headers, self.url, self.parser
        if (count := len(headers)) > _MOST_HEADERS:
            raise Refused(431, "too_large", f"the request has more than {_MOST_HEADERS} headers")
        if self._size > self.header_bytes < sum(map(len, chain.from_iterable(headers)), len(url)):
            raise self._too_long()
        before: Any = self.cycle
        if before is None and not self.admission.may_ask(self, self.connections):
            raise Refused(503, "overloaded", "too many connections are open", b"retry-after: 1")
        method = parser.get_method().decode("ascii")
        if parser.should_upgrade():
            self._check_offer(method)
            self._is_offer = True
            return
        known, version = dict(headers), parser.get_http_version()
        if len(known) < count and sum(name == b"host" for name, _ in headers) > 1:
            raise Refused(400, "malformed_request", "the request has more than one Host header")
        self.expect_100_continue = b"expect" in known and known[b"expect"].lower() == b"100-continue"
        scope: Any = {
            **self._constant,
            "http_version": version,
            "method": method,
            **_target_of(url),
            "headers": headers,
            "state": {},
        }
        cycle = ResponseCycle(self, scope, keep_alive=version != "1.0" and parser.should_keep_alive())
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            if len(self.pipeline) >= _MOST_PIPELINED:
                raise Refused(429, "too_large", "too many requests wait on this connection")
            self.flow.pause_reading()
            cycle.before = before
            self.pipeline.appendleft((cycle, self.app))
        self.cycle, self.headers = cycle, _Trailers()

    def on_body(self, body: bytes) -> None:
        self._is_body = True
        cycle: Any = self.cycle
        if self._is_offer or cycle.response_complete:
            return
        held = cycle.body
        if not held:
            held = cycle.body = body
        else:
            if isinstance(held, bytes):
                held = cycle.body = bytearray(held)
            held += body
        if len(held) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.set()

    def on_message_complete(self) -> None:
        cycle: Any = self.cycle
        if not (self._is_offer or cycle.response_complete):
            cycle.more_body = False
            cycle.set()

    def on_response_complete(self) -> None:
        """Omit the timer that uvicorn sets after every answer: ``close_if_slow`` closes idle connections."""
        if self.pipeline or self.transport.is_closing():
            if self.pipeline:
                begun: Any = self.pipeline[-1][0]
                begun.before = None
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.flow.read_paused:
            self.flow.resume_reading()

    def _check_offer(self, method: str) -> None:
        """Check a request that wants another protocol: its head is read, then ``_without_upgrade``.

        Raises:
            Refused: it wants a tunnel or a WebSocket, which is no offer: a server cannot pass it over. Codex
                falls back from WebSockets at once after a 426, and after seven attempts on a 404.
        """
        if method == "CONNECT":
            message = "CONNECT is not served: this is no proxy; agents POST to /v1/chat/completions"
            raise Refused(405, "method_not_allowed", message, b"allow: GET, HEAD, POST")
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in self.headers):
            raise Refused(426, "upgrade_required", "WebSockets are not served: send a POST to the same path")

    def _without_upgrade(self) -> bytes:
        """Return the head just read without the offer of another protocol, which a server is free to ignore.

        Every Java program with the JDK's client offers HTTP/2 like this, and the parser drops the body of
        such a request (uvicorn issue 2722). A new parser reads it, and the data behind it after that.
        """
        self._is_offer = False
        method = self.parser.get_method()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        head = [method, b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in _UPGRADE:
                head += (name, b": ", value, b"\r\n")
        return b"".join((*head, b"\r\n"))

    def _too_long(self) -> Refused:
        return Refused(431, "too_large", f"the headers are larger than {self.header_bytes} bytes")

    def _refuse(self, why: Refused, data: bytes = b"") -> None:
        """Read no more requests here; say why, unless an answer to an earlier one is in progress.

        ``data`` has come and was not parsed.
        """
        self._to_discard = _LINGER_BYTES
        log.warning("refused a connection: %s", why)
        request: Any = self.cycle
        if request is not None and not request.response_complete:
            if not request.more_body:
                request.keep_alive = False  # it is answered, and those before it; then uvicorn closes
                return
            if request.response_started or self.pipeline:
                self.transport.close()
                return
            request.disconnected = True  # its body will not come
            request.set()
        headers = request.scope["headers"] if isinstance(self.headers, _Trailers) else self.headers
        names = [name for name, _ in headers] if headers else []
        self.transport.write(why.answer(asked_format(names, self.url, data)))
        self.transport.write_eof()
        self.loop.call_later(_LINGER, self.transport.abort)

    def close_if_slow(self) -> None:
        """Close the connection when a head or a body has been arriving for too long, with 408."""
        request: Any = self.cycle
        if request is not self._seen:
            self._seen, self.looks = request, 0
            return
        over = request is None or request.response_complete
        if not over and not request.more_body:
            self.looks = 0
            return
        self.looks += 1
        if request is not None and over:
            request.body = b""  # of one that was refused; nobody reads it
        if not over:
            self._end_if(_WITHOUT_BODY, "the body of the request did not arrive in time")
        elif request is None or self._arriving.size:
            self._end_if(_WITHOUT_HEAD, "the headers of the request did not arrive in time")
        else:
            self._end_if(_WITHOUT_REQUEST, "")

    def _end_if(self, looks: int, why: str) -> None:
        """End the connection after so many looks; with 408 when some of a request has arrived."""
        if self.looks < looks or self._to_discard is not None:
            return
        request: Any = self.cycle
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # to close waits until the caller has taken the rest of its answer
        elif self._arriving.size or (request is not None and not request.response_complete):
            self._refuse(Refused(408, "request_timeout", why))
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        self.unread_since = _ALL_READ
        super().pause_writing()

    def unread(self) -> int:
        """Return the bytes that wait for the caller, and count the looks since it took ``_LEAST_TAKEN``."""
        request: Any = self.cycle
        size: int = self.transport.get_write_buffer_size()
        if request is not None and not request.response_complete:
            size += max(request.expected_content_length, 0)  # what the application holds of a whole answer
        before, looks = self.unread_since
        if before - size >= _LEAST_TAKEN or size > before:
            self.unread_since = _Unread(size, 0)
        else:
            self.unread_since = _Unread(before, looks + 1)
        return size


def bounded_protocol(limit: int, connections: Callable[[], int]) -> type[HttpToolsProtocol]:
    """Return the protocol with limits that uvicorn's has not.

    Args:
        limit: Bytes of the head of a request.
        connections: How many may be open at once.
    """

    class Bounded(_Bounded):
        header_bytes = limit
        admission = Admission(connections)

    return Bounded


async def close_slow(connections: Iterable[Any]) -> None:
    """Look at all connections now and then, for ever."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY)
        for connection in list(connections):
            connection.close_if_slow()


async def close_unread(connections: Iterable[Any], seconds: Callable[[], float]) -> None:
    """Close the connections of callers that read too little of an answer, for ever.

    Args:
        connections: All there are.
        seconds: How long a caller may take less than ``_LEAST_TAKEN`` bytes. When more than ``_MOST_UNREAD``
            bytes wait, those who have taken so little for the longest go sooner.
    """
    while True:
        await asyncio.sleep(_UNREAD_EVERY)
        waiting = {one: one.unread() for one in list(connections) if one.flow.write_paused}
        held = sum(waiting.values())
        for one in sorted(waiting, key=lambda one: -one.unread_since.looks):
            is_over = one.unread_since.looks * _UNREAD_EVERY >= seconds()
            if not is_over and (held <= _MOST_UNREAD or one.unread_since.looks < _UNREAD_LOOKS):
                break
            held -= waiting[one]
            log.warning("a caller took too little of its answer for too long and was cut off")
            one.transport.abort()
