"""Rejects invalid HTTP before it becomes a request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from pointsman.wire import FORMATS, Fault, Format, guess_wire

__all__ = ["Refused", "asked_format", "unreadable"]

#: The path in the first line of a request (RFC 9112, section 3).
_ASKED: Final = re.compile(rb"[A-Z]{1,16} (\S{1,256}) HTTP/1\.")


#: Those of the server's other answers too (``serve.Server``).
_FIELDS: Final = (b"x-content-type-options: nosniff", b"content-type: application/json")


class Refused(Exception):
    """A connection sent something that is no request. Raised inside the parser's callbacks too."""

    def __init__(self, status: int, code: str, message: str, *headers: bytes) -> None:
        super().__init__(message)
        self.status = status
        self._code = code
        self._headers = headers

    def answer(self, wire: Format | None = None) -> bytes:
        """Return the whole answer in a format; if none is known, with the members of every format."""
        if wire is not None:
            body = wire.error(Fault(self.status, str(self), self._code))
        else:
            error = {"type": "invalid_request_error", "code": self._code, "message": str(self), "param": None}
            body = msgspec.json.encode({"type": "error", "error": error})
        fields = (*_FIELDS, b"content-length: %d" % len(body), b"connection: close")
        return STATUS_LINE[self.status] + b"\r\n".join((*fields, *self._headers, b"", body))


def asked_format(names: Sequence[bytes], url: bytes, data: bytes) -> Format | None:
    """The format of a request that was not read to its end; None if it is unknown.

    Args:
        names: Of its headers so far, in lower case.
        url: Of its first line, or of an earlier request on the connection; empty: none was parsed.
        data: The bytes of it received and not parsed.
    """
    if (line := _ASKED.match(data)) is not None:
        url = line[1]
    elif not url:
        return None
    path = url.partition(b"?")[0].removeprefix(b"/v1")
    ours = (wire for wire in FORMATS.values() if path in {wire.path, wire.token_path})
    return next(ours, None) or guess_wire(names, path.decode("ascii", "replace"))


def unreadable(data: bytes | memoryview, reason: str) -> Refused:
    """Say why bytes are not HTTP/1.1; ``reason`` is the parser's own."""
    begin = bytes(data[:3])
    if begin == b"PRI":
        return Refused(505, "unsupported_version", "HTTP/2 without TLS is not spoken here; send HTTP/1.1")
    if begin[:2] == b"\x16\x03":
        return Refused(400, "malformed_request", "TLS is not spoken on this port; use http://")
    return Refused(400, "malformed_request", f"this is not valid HTTP/1.1: {reason}")
