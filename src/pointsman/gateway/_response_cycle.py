"""Writes well-formed answers to the transport in few steps; every other answer is uvicorn's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pointsman.gateway._streaming import DirectSend
from pointsman.upstreams.relayed_headers import is_well_formed

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveEvent, ASGISendEvent, HTTPScope

__all__ = ["ResponseCycle", "joined"]

log = logging.getLogger("uvicorn.error")

#: Headers that change how the connection goes on.
_FRAMING: Final = frozenset({b"connection", b"transfer-encoding"})
_WITH_BODY: Final = STATUS_LINE.keys() - {204, 304}
_BODY: Final = "http.response.body"
_as_line: Final = b"%b: %b\r\n".__mod__


def joined(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return headers as lines."""
    return b"".join(map(_as_line, headers))


def _ended() -> None:
    """No-op in place of the callback for a complete response."""


class ResponseCycle(RequestResponseCycle, DirectSend):
    """A request and its answer, at a fifth of the steps that uvicorn takes for the same bytes.

    It is the ``send`` of the application (ASGI). Its shortcuts do nothing if uvicorn's steps are needed.

    The head of the answer to a POST is sent with the first bytes of its body: apart they are two system
    calls, and wake the caller twice. uvicorn writes answers that close or pause a connection or have no body
    (HEAD, 204, 304), and refuses invalid headers.
    """

    logger = log
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0  # -1: until the connection ends, as HTTP/1.0 knows no chunks
    body: Any = b""  # bytes; of several parts a bytearray
    before: ResponseCycle | None = None  # the request on the connection that it waits for
    _held = b""  # the head, until the first of the body is there
    _is_changed = False  # since ``receive`` looked last
    _waiting: asyncio.Event | None = None  # of ``receive``

    def __init__(self, protocol: HttpToolsProtocol, scope: HTTPScope, *, keep_alive: bool) -> None:
        self.scope = scope
        self.transport = protocol.transport
        self.flow = protocol.flow
        self.on_response = protocol.on_response_complete
        self._protocol: Any = protocol
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = protocol.expect_100_continue

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Run the application; an answer that it leaves unfinished is cut off, its head sent."""
        failed = False
        try:
            await app(self.scope, self.receive, self)
        except BaseException:
            log.exception("Exception in ASGI application\n")
            failed = True
        if failed or not (self.response_complete or self.disconnected):
            await self._break_off(failed=failed)
        self.on_response = _ended

    async def _break_off(self, *, failed: bool) -> None:
        if not failed:
            done = "completing" if self.response_started else "starting"
            log.error("ASGI callable returned without %s response.", done)
        if self.response_started:
            if self._held:
                self.transport.write(self._with_head(b""))
            self.transport.close()
        else:
            await self.send_500_response()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]  # uvicorn reads it
        """Headers of every answer."""
        found: list[tuple[bytes, bytes]] = self._protocol.server_state.default_headers
        return found

    @property
    def message_event(self) -> ResponseCycle:  # type: ignore[override]  # uvicorn sets it, and nothing else
        """What uvicorn sets when something has come, or the caller has left."""
        return self

    def set(self) -> None:
        """Wake ``receive``: something has come, the caller has left, or the answer is complete."""
        self._is_changed = True
        if self._waiting is not None:
            self._waiting.set()

    def take_body(self) -> bytes | None:
        """Return the request's body if all of it has come and none was taken; None otherwise."""
        if self.more_body or self.disconnected or not self._is_changed or self.waiting_for_100_continue:
            return None
        body, self.body, self._is_changed = self.body, b"", False
        if self.flow.read_paused:
            self.flow.resume_reading()
        return bytes(body)

    async def receive(self) -> ASGIReceiveEvent:
        """Return the part of the request's body received so far (ASGI)."""
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not (self.disconnected or self.response_complete):
            self.flow.resume_reading()
            if not self._is_changed:
                self._waiting = self._waiting or asyncio.Event()
                await self._waiting.wait()
                self._waiting = None
            self._is_changed = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer, with its length as the last header; False if ``send`` has to."""
        if self.flow.write_paused or self.disconnected or self.response_started:
            return False
        if not (head := self._head(status, headers)):
            return False
        self.transport.write(head + body)
        self._complete()
        return True

    def whole_lines(self, status: int, lines: bytes, body: bytes) -> bool:
        """Do as ``whole`` for the answer to a POST, with its headers as well-formed lines."""
        if (
            not self.keep_alive
            or self.flow.write_paused
            or self.disconnected
            or self.response_started
            or status not in _WITH_BODY
        ):
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        self.transport.write(
            b"%b%b%bcontent-length: %d\r\n\r\n%b"
            % (STATUS_LINE[status], self._protocol.default_lines, lines, len(body), body)
        )
        self.response_complete = self._is_changed = True
        if self._waiting is not None:
            self._waiting.set()
        self.on_response()
        return True

    def piece(self, body: bytes) -> bool:
        """Send a part of a stream, not empty and not the last; False if ``send`` has to."""
        size = len(body)
        if self.flow.write_paused or size > HIGH_WATER_LIMIT or not self.chunked_encoding:
            return False
        if not self.disconnected:
            piece = b"%x\r\n%b\r\n" % (size, body)
            self.transport.write(self._with_head(piece) if self._held else piece)
        return True

    async def send(self, message: ASGISendEvent) -> None:
        """Send the head of the answer, or a part of its body (ASGI)."""
        event: Any = message
        if self.flow.write_paused or self.disconnected or self.response_complete:
            await self._send_by_uvicorn(event)
        elif self.response_started:
            if not (event.get("more_body") and event["body"] and self.piece(event["body"])):
                await self._end(event)
        elif not (head := self._head(event.get("status", 0), event.get("headers", ()))):
            await super().send(event)
        elif self.scope["method"] == "POST":
            self._held = head
        else:
            self.transport.write(head)

    __call__ = send

    async def _end(self, event: dict[str, Any]) -> None:
        """Send the rest of an answer of announced length; anything else is for uvicorn."""
        body: bytes = event.get("body", b"")
        is_rest = not self.chunked_encoding and len(body) == self.expected_content_length
        if not is_rest or event.get("more_body") or event["type"] != _BODY or self.scope["method"] == "HEAD":
            await self._send_by_uvicorn(event)
            return
        self.transport.write(self._with_head(body))
        self._complete()

    def _complete(self) -> None:
        """All of the answer has been written."""
        self.expected_content_length = 0
        self.response_complete = self._is_changed = True
        if self._waiting is not None:
            self._waiting.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _with_head(self, body: bytes) -> bytes:
        head, self._held = self._held, b""
        return head + body if head else body

    async def _send_by_uvicorn(self, event: Any) -> None:
        if self._held:
            self.transport.write(self._with_head(b""))
        if self.expected_content_length < 0 and event["type"] == _BODY:
            await self._send_until_closed(event)
        else:
            await super().send(event)

    async def _send_until_closed(self, event: dict[str, Any]) -> None:
        while self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.transport.write(event.get("body", b""))
        if not event.get("more_body"):
            self._complete()

    def _head(self, status: int, sent: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Begin the answer, and return its head; empty where uvicorn has to look at it."""
        headers = [*self.default_headers, *sent]
        known = dict(headers)
        if self.scope["method"] == "HEAD" or status not in _WITH_BODY or not _FRAMING.isdisjoint(known):
            return b""
        lines = joined(headers)
        if not is_well_formed(lines, len(headers)) or b":" in b"".join(known):
            return b""
        length = known.get(b"content-length")
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = length is None
        self.expected_content_length = int(length or 0)
        framing = b"transfer-encoding: chunked\r\n\r\n" if length is None else b"\r\n"
        if not self.keep_alive:
            lines += b"connection: close\r\n"
            if length is None and self.scope["http_version"] < "1.1":
                self.chunked_encoding, self.expected_content_length, framing = False, -1, b"\r\n"
        return b"%b%b%b" % (STATUS_LINE[status], lines, framing)
