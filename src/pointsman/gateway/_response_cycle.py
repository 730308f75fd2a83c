"""Writes well-formed answers to uvicorn's transport in few steps; every other answer is uvicorn's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

__all__ = ["ResponseCycle"]

#: Lines of headers, names in lower case. One search tells what uvicorn asks of each name and value by itself.
_HEADERS: Final = re.compile(rb"(?:[a-z0-9!#$%&'*+.^_`|~-]++: [^\x00-\x08\x0a-\x1f\x7f]*+\r\n)*+")
#: Headers that change how the connection goes on.
_FRAMING: Final = frozenset({b"connection", b"transfer-encoding"})
_WITH_BODY: Final = STATUS_LINE.keys() - {204, 304}


class ResponseCycle(RequestResponseCycle):
    """A request and its answer, at a third of the steps that uvicorn takes for the same bytes.

    What a caller's connection has to be closed or paused for, what has no body, and what is wrong is left to
    uvicorn: answers to HEAD, over HTTP/1.0, of status 204 and 304, and headers that would break the answer.
    """

    async def send(self, message: ASGISendEvent) -> None:
        """Send the head of the answer, or a part of its body (ASGI)."""
        event: Any = message
        if self.flow.write_paused or self.disconnected or not self.keep_alive or self.response_complete:
            await super().send(message)
        elif not self.response_started:
            head = self._head(event)
            if head:
                self.response_started = True
                self.waiting_for_100_continue = False
                self.transport.write(head)
            else:
                await super().send(message)
        elif self.chunked_encoding and event.get("more_body") and (body := event["body"]):
            self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        else:
            await super().send(message)

    def _head(self, event: dict[str, Any]) -> bytes:
        """Return the head of an answer; empty where uvicorn has to look at it."""
        status: int = event.get("status", 0)
        headers = [*self.default_headers, *event.get("headers", [])]
        known = dict(headers)
        if self.scope["method"] == "HEAD" or status not in _WITH_BODY or not _FRAMING.isdisjoint(known):
            return b""
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if not _HEADERS.fullmatch(lines) or lines.count(b"\n") != len(headers) or b":" in b"".join(known):
            return b""
        length = known.get(b"content-length")
        self.chunked_encoding = length is None
        self.expected_content_length = int(length or 0)
        framing = b"transfer-encoding: chunked\r\n\r\n" if length is None else b"\r\n"
        return STATUS_LINE[status] + lines + framing
