"""Checks and changes of a request that is passed on: its path, its body's size, its model's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.errors import MalformedRequest, NotFound
from pointsman.gateway._inbound import BodyReservation, CallerLeft, Receive, too_large
from pointsman.gateway._local_replies import PATHS_HINT
from pointsman.gateway._request import model_edit
from pointsman.gateway.upstream import Target, Upstream
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.names import check_names

__all__ = ["PassedBody", "is_passed", "passed_path", "with_model_id"]

#: Segments of a path (RFC 3986, section 3.3) without ``;``, which some servers cut a segment at.
_PATH: Final = re.compile(rb"(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+)+/?")
_QUERY: Final = re.compile(rb"[!-~]*")
#: The gateway's own paths below ``/v1``: by their first segment, and whole.
_OWN: Final = frozenset({"models", "decisions", "decide", "explain"})
_ENDPOINTS: Final = frozenset(
    path.decode().strip("/") for wire in FORMATS.values() for path in (wire.path, wire.token_path) if path
)
#: What a decoded segment must not hold: it would be another path to a server that decodes first, or twice.
_FORBIDDEN: Final = frozenset("/\\%;")


def is_passed(path: bytes) -> bool:
    """Whether a path that is no endpoint for agents may be another provider's."""
    return path.startswith(b"/v1/") and path[4:].partition(b"/")[0].decode("latin-1") not in _OWN


def passed_path(path: bytes, query: bytes) -> bytes:
    """Return a path and its query below an upstream's ``base_url``, for one below ``/v1``.

    Raises:
        MalformedRequest: it could leave the ``base_url``, however the upstream resolves it.
        NotFound: it is another spelling of a path of the gateway with requests to decide.
    """
    below = path.removeprefix(b"/v1")
    segments = list(map(_plain, below.strip(b"/").split(b"/")))
    if not _PATH.fullmatch(below) or not all(segments):
        raise MalformedRequest(
            "this path cannot be passed on",
            hint="send no empty or dot segments, and no encoded slash, backslash, percent sign or control",
        )
    if not _QUERY.fullmatch(query):
        raise MalformedRequest("this query cannot be passed on", hint="encode what is not printable ASCII")
    if segments[0] in _OWN or "/".join(segments).removeprefix("v1/") in _ENDPOINTS:
        raise NotFound("this spelling of the path is not served", hint=PATHS_HINT)
    return below + b"?" + query if query else below


def _plain(segment: bytes) -> str:
    """Return a segment as the most lenient server would read it; empty when servers could differ on it."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return ""
    is_plain = text.isprintable() and text.strip(". ") and _FORBIDDEN.isdisjoint(text)
    return text.casefold() if is_plain else ""


class PassedBody:
    """A caller's body, sent on while it arrives (``Upload``); holds one part at a time."""

    def __init__(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        limit: int,
        reservation: BodyReservation,
        ended: Callable[[], None],
        count: Callable[[int], None],
    ) -> None:
        """Prepare to read.

        Args:
            headers: The caller's, by name.
            receive: Reads the body (ASGI).
            limit: Bytes it may have.
            reservation: Counts the bytes held.
            ended: Called at the end of the body.
            count: Called with the bytes of each part.

        Raises:
            TooLarge: its announced length is larger.
        """
        self.size = _declared_size(headers)
        self.has_ended = False
        self._receive = receive
        self._limit = limit
        self._left = limit
        self._reservation = reservation
        self._ended = ended
        self._count = count
        if self.size is not None and self.size > limit:
            raise too_large(limit)

    async def next(self) -> bytes:
        """Return the bytes that have arrived since; empty at the end.

        Raises:
            Overloaded: the bodies of all requests together are too large.
            TooLarge: it has more bytes than it may.
            CallerLeft: the connection ended before the body did.
        """
        self._reservation.release()  # the part before has been written
        while not self.has_ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerLeft
            part: bytes = message.get("body", b"")
            self._left -= len(part)
            if self._left < 0:
                raise too_large(self._limit)
            self._reservation.take(len(part))
            self._count(len(part))
            if not message.get("more_body", False):
                self.has_ended = True
                self._ended()
            if part:
                return part
        return b""


def _declared_size(headers: Mapping[bytes, bytes]) -> int | None:
    if b"transfer-encoding" in headers:
        return None
    declared = headers.get(b"content-length", b"0")
    return int(declared) if declared.isdigit() else None


class _Named(msgspec.Struct, gc=False):
    model: str = ""


_decode: Final = msgspec.json.Decoder(_Named).decode
_MODEL: Final = frozenset({"model"})


def with_model_id(raw: bytes, targets: Mapping[str, Target], upstream: Upstream) -> bytes:
    """Return a JSON body in which the name of a configured model is the upstream's id for it.

    Any other body stays as it is: only the upstream interprets it.

    Raises:
        MalformedRequest: the model is of another upstream; a duplicate key, or another spelling of "model".
        TooLarge: the name cannot be replaced in so large a body.
    """
    try:
        check_names(raw, _MODEL)
        name = _decode(raw).model
    except UNREADABLE:
        return raw
    target = targets.get(name.removeprefix("pointsman/"))
    if target is None:
        return raw
    if target.upstream is not upstream:
        raise MalformedRequest(
            f'model "{target.model.name}" is served by upstream "{target.upstream.spec.name}", '
            f'and this path by "{upstream.spec.name}"',
            hint="name a model of that upstream",
            param="model",
        )
    body = Body(FORMATS[WireFormat.CHAT], raw)
    return body.edited([model_edit(body, body.span("model"), target.id)])
