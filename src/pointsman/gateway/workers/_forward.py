"""Passes a request on to another worker over its socket, and its answer back as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import httptools

from pointsman.gateway._inbound import DisconnectWatch, Receive, Scope, Send
from pointsman.upstreams.port import HOP_BY_HOP, Headers

__all__ = ["FORWARDED", "READ", "Head", "WorkerGone", "ask", "forward"]

#: Header of a request that another worker has passed on, and its value where that one had read the body. Such
#: a request is passed on no further; another one by what its body continues.
FORWARDED: Final = b"x-pointsman-worker"
READ: Final = b"2"
#: Bytes read of an answer at a time.
_PART: Final = 64 << 10
#: Seconds to reach another worker: it is on this machine, or it is being replaced.
_CONNECT: Final = 5.0
#: Headers that are made anew on either side, of answers and of requests.
_OWN: Final = HOP_BY_HOP | {b"x-content-type-options"}
_MADE_ANEW: Final = HOP_BY_HOP | {b"content-length", b"expect", FORWARDED}


class WorkerGone(Exception):
    """Another worker cannot be reached, or has ended before it began to answer."""


class _Answer:
    """The answer of a worker, as httptools reads it."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.has_begun = self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in _OWN:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.has_begun = True

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.is_whole = True


def ask(path: Path, target: str, timeout: float) -> None:
    """Ask another worker to do something, and wait until it has; for threads.

    Raises:
        OSError: it cannot be reached, or takes too long.
        http.client.HTTPException: it ended meanwhile.
    """
    connection = http.client.HTTPConnection("localhost", timeout=timeout)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection.sock:
        connection.sock.settimeout(timeout)
        connection.sock.connect(str(path))
        connection.request("POST", target)
        connection.getresponse().read()


class Head(NamedTuple):
    """The head of a request that is passed on."""

    method: str
    target: bytes  # path and query
    headers: Headers

    @classmethod
    def of(cls, scope: Scope) -> Head:
        """Return that of a request as uvicorn hands it over."""
        query = scope["query_string"]
        return cls(scope["method"], scope["raw_path"] + (b"?" + query if query else b""), scope["headers"])


async def forward(path: Path, head: Head, body: bytes | Receive, send: Send) -> int:
    """Let another worker answer a request, and return the status sent.

    Args:
        path: The worker's socket.
        head: Of the request.
        body: Its body; or where to read it, and that the caller has left.
        send: To the caller.

    Raises:
        WorkerGone: nothing was sent to the caller yet.
        ConnectionError: the answer broke off.
    """
    # No stream: one that fails while it sends drops what it has received.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as worker:
        worker.settimeout(0)
        try:
            async with asyncio.timeout(_CONNECT):
                await asyncio.get_running_loop().sock_connect(worker, str(path))
        except OSError as error:
            raise WorkerGone(str(error)) from error
        watch = None if isinstance(body, bytes) else DisconnectWatch(body)
        try:
            await _send_request(worker, head, body)
            if watch is not None:
                watch.start()
            return await _relay(worker, send, has_body=head.method != "HEAD")
        except asyncio.CancelledError:
            if watch is None or not watch.caller_left:
                raise
            return 0
        finally:
            if watch is not None:
                watch.stop()


async def _send_request(worker: socket.socket, head: Head, body: bytes | Receive) -> None:
    """Send a request. A worker that takes no more of it may have answered: it refuses some unread."""
    given = dict(head.headers)
    headers = [pair for pair in head.headers if pair[0] not in _MADE_ANEW]
    headers += [(FORWARDED, READ if isinstance(body, bytes) else b"1"), (b"connection", b"close")]
    length = b"%d" % len(body) if isinstance(body, bytes) else given.get(b"content-length", b"")
    is_chunked = not length and b"transfer-encoding" in given
    if length:
        headers.append((b"content-length", length))
    elif is_chunked:
        headers.append((b"transfer-encoding", b"chunked"))
    lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
    sent = b"%b %b HTTP/1.1\r\n%b\r\n" % (head.method.encode(), head.target, lines)
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(worker, sent)
        if isinstance(body, bytes):
            await asyncio.get_running_loop().sock_sendall(worker, body)
        else:
            await _send_body(worker, body, is_chunked=is_chunked)


async def _send_body(worker: socket.socket, receive: Receive, *, is_chunked: bool) -> None:
    loop = asyncio.get_running_loop()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise WorkerGone("the caller left")
        part, more = message.get("body", b""), message.get("more_body", False)
        if part:
            await loop.sock_sendall(worker, b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
    if is_chunked:
        await loop.sock_sendall(worker, b"0\r\n\r\n")


async def _relay(worker: socket.socket, send: Send, *, has_body: bool) -> int:
    answer, status, loop = _Answer(), 0, asyncio.get_running_loop()
    parser: Any = httptools.HttpResponseParser(answer)
    while not answer.is_whole:
        try:
            part = await loop.sock_recv(worker, _PART)
        except OSError:
            part = b""
        if not part:
            if not status:
                raise WorkerGone("it ended before it answered")
            raise ConnectionError("a worker ended while it answered")
        parser.feed_data(part)
        if answer.has_begun and not status:
            status = parser.get_status_code()
            if not has_body:
                answer.is_whole = True
            await send({"type": "http.response.start", "status": status, "headers": answer.headers})
        await _send_parts(answer.parts, send)
    await send({"type": "http.response.body", "body": b""})
    return status


async def _send_parts(parts: list[bytes], send: Send) -> None:
    arrived: Sequence[bytes] = tuple(parts)
    parts.clear()
    for part in arrived:
        await send({"type": "http.response.body", "body": part, "more_body": True})
