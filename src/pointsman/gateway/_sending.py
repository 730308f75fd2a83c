"""Sends answers to the caller, by ASGI or by the shortcuts of the server, with back-pressure."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from pointsman.gateway._inbound import Send
from pointsman.gateway._response_headers import Headers

__all__ = ["AS_JSON", "PIECE", "DirectSend", "all_but_last", "send_body", "send_pieces"]

AS_JSON: Final = (b"content-type", b"application/json")
#: Bytes given to the server at once: what it holds for a caller before it lets the sender wait.
PIECE: Final = 64 << 10


class DirectSend:
    """A server's own ``Send``, with shortcuts to its transport.

    Each does nothing, and returns False or None, if the steps of the server are needed.
    """

    def __call__(self, message: Any) -> Awaitable[None]:
        """Send a part of an answer (ASGI)."""
        raise NotImplementedError

    def take_body(self) -> bytes | None:
        """Return the request's body if all of it has come and none was taken."""
        raise NotImplementedError

    def whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole answer, with its length as the last header."""
        raise NotImplementedError

    def whole_lines(self, status: int, lines: bytes, body: bytes) -> bool:
        """Do as ``whole`` for the answer to a POST, with its headers as well-formed lines."""
        raise NotImplementedError

    def piece(self, body: bytes) -> bool:
        """Send a part of a stream, not empty and not the last."""
        raise NotImplementedError


async def send_body(send: Send, status: int, sent: Headers, body: bytes) -> None:
    """Send a whole answer."""
    sent.append((b"content-length", b"%d" % len(body)))
    if isinstance(send, DirectSend) and len(body) <= PIECE and send.whole(status, sent, body):
        return
    await send({"type": "http.response.start", "status": status, "headers": sent})
    if len(body) > PIECE:
        body = await all_but_last(send, body)
    await send({"type": "http.response.body", "body": body})


async def send_pieces(send: Send, part: bytes) -> None:
    """Send a part of an answer that is not the last."""
    if len(part) > PIECE:
        part = await all_but_last(send, part)
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def all_but_last(send: Send, body: bytes) -> bytes:
    """Send a body in pieces, each when the caller has taken most of those before; return the last of them."""
    last = (len(body) - 1) // PIECE * PIECE
    for start in range(0, last, PIECE):
        piece = body[start : min(start + PIECE, last)]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    return body[last:]
