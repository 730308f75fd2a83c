"""Requests with an ``Idempotency-Key``: the second of the same key gets the answer to the first.

It waits while the first is in progress, and gets a successful answer for a minute after its end. A stream
comes as a whole when the first has ended: nothing of it is sent before, so that the second can take the place
of a first that is cancelled, as when its caller has lost the connection. Source: the IETF draft
"The Idempotency-Key HTTP Header Field", section 2; docs/decisions/0146.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from pointsman.errors import IdempotencyKeyBusy, IdempotencyKeyReused
from pointsman.gateway._inbound import InboundRequest, Send
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._relay import send_pieces
from pointsman.gateway._response_headers import Headers
from pointsman.stores.sessions import Bounded
from pointsman.wire import Ending, Format
from pointsman.wire.request import of_caller

__all__ = ["HEADER", "IdempotentAnswers"]

HEADER: Final = b"idempotency-key"
#: Seconds for which an answer is kept after its end.
_KEPT: Final = 60.0
#: Bytes of all answers that are kept and of those being written down, with their requests; and of one answer.
_TOTAL: Final = 16 << 20
_LONGEST: Final = 1 << 20
#: Parts at the end of a stream that say how it ended.
_LAST: Final = 8
#: Requests that wait for the first of their key: more than the tries of any client.
_WAITING: Final = 10
#: Bytes that an entry takes beside its texts, a header beside its own, and a part of an answer (measured with
#: tracemalloc in CPython 3.11).
_PER_ENTRY: Final = 1_500
_PER_HEADER: Final = 200
_PER_PART: Final = 80


class _Entry:
    """The first request of a key, and its answer as far as it has come."""

    __slots__ = ("at", "body", "coming", "ended", "headers", "held", "is_whole", "parts", "size",
                 "status", "waiting", "weight")  # fmt: skip

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.ended = asyncio.Event()
        self.at = 0.0  # when it was kept
        self.status = 0
        self.headers: Headers = []
        self.parts: list[bytes] = []
        self.size = 0  # bytes of the answer
        self.held = 0  # bytes of the parts
        self.coming = 0  # what they take
        self.weight = 0  # what all of it takes, once it is kept
        self.waiting = 0  # requests
        self.is_whole = False

    def is_good(self, wire: Format) -> bool:
        """Whether the answer is a success from its beginning to its end."""
        if not (self.is_whole and 200 <= self.status < 300 and self.held == self.size):
            return False
        if not dict(self.headers).get(b"content-type", b"").startswith(b"text/event-stream"):
            return True
        return wire.end(self.parts[-_LAST:]).ending in {Ending.COMPLETE, Ending.SAID}


class IdempotentAnswers:
    """The requests with a key that are in progress, and the answers of the last minute.

    For one event loop.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_coming = 0  # of those in progress
        self._metrics = metrics
        self._clock = clock
        self._running: dict[str, _Entry] = {}
        self._kept = Bounded[_Entry](_TOTAL, _KEPT)

    async def answer(
        self, inbound: InboundRequest, send: Send, handle: Callable[[Send], Awaitable[int]]
    ) -> int:
        """Answer a request: with the answer to an earlier one of its key, else as ``handle`` does.

        Raises:
            IdempotencyKeyReused: the earlier one had another body.
            IdempotencyKeyBusy: too many requests wait for the earlier one.
        """
        key = _identity(inbound)
        while (entry := self._running.get(key) or self._kept.find(key, self._clock())) is not None:
            if entry.body != inbound.body.raw:
                raise IdempotencyKeyReused(
                    "this Idempotency-Key was used for another request",
                    hint="send a new key with a new request",
                )
            if key not in self._running:
                return await self._replay(entry, send)
            await _wait(entry)
        return await self._first(key, inbound, send, handle)

    async def _first(
        self, key: str, inbound: InboundRequest, send: Send, handle: Callable[[Send], Awaitable[int]]
    ) -> int:
        entry = self._running[key] = _Entry(inbound.body.raw)

        async def noting(message: MutableMapping[str, Any]) -> None:
            await send(message)
            self._note(entry, message)

        try:
            return await handle(noting)
        finally:
            del self._running[key]
            self.bytes_coming -= entry.coming
            self._keep(key, entry, inbound.wire)
            entry.ended.set()

    def _note(self, entry: _Entry, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            entry.status, entry.headers = message["status"], list(message["headers"])
            return
        part = message.get("body", b"")
        entry.size += len(part)
        weight = len(part) + _PER_PART
        if entry.size <= _LONGEST and self.bytes_coming + weight <= _TOTAL:
            entry.parts.append(part)
            entry.held += len(part)
            entry.coming += weight
            self.bytes_coming += weight
        else:
            self.bytes_coming -= entry.coming
            entry.held = entry.coming = 0
            entry.parts.clear()
        entry.is_whole = not message.get("more_body", False)

    def _keep(self, key: str, entry: _Entry, wire: Format) -> None:
        entry.weight = entry.size + len(entry.body) + _PER_ENTRY
        entry.weight += sum(len(name) + len(value) + _PER_HEADER for name, value in entry.headers)
        if not entry.is_good(wire) or entry.weight > _TOTAL:
            return
        entry.parts = [b"".join(entry.parts)]
        entry.at = self._clock()
        self._kept.put(key, entry)

    async def _replay(self, entry: _Entry, send: Send) -> int:
        self._metrics.count("replayed")
        headers = [*entry.headers, (b"x-pointsman-replayed", b"1")]
        await send({"type": "http.response.start", "status": entry.status, "headers": headers})
        await send_pieces(send, b"".join(entry.parts))
        await send({"type": "http.response.body", "body": b""})
        return entry.status


async def _wait(entry: _Entry) -> None:
    if entry.waiting >= _WAITING:
        raise IdempotencyKeyBusy(
            f"{_WAITING} requests wait for the first one with this Idempotency-Key",
            hint="send the request again once it was answered",
        )
    entry.waiting += 1
    try:
        await entry.ended.wait()
    finally:
        entry.waiting -= 1


def _identity(inbound: InboundRequest) -> str:
    """Return the full identity of a key: its caller, the credential, and the request.

    The caller comes first, as the owner of the answer: where room is short, the caller with the most loses
    answers. The credential counts too: if it is sent to the upstream, the answer is for its owner alone.
    """
    headers = inbound.headers
    parts = (
        headers.get(b"authorization", b""),
        headers.get(b"x-api-key", b""),
        inbound.wire.path,
        inbound.query,
        headers[HEADER],
    )
    digest = hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts))
    return of_caller(inbound.caller, digest.hexdigest())
