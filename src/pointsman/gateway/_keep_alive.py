"""Sends keep-alive marks on a stream while its upstream is silent: proxies close an idle connection.

Before the first event the response itself is begun then, so that a later failure of all models is an error
event of the stream instead of an error status. Retries and fallback work as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

__all__ = ["NO_KEEP_ALIVE", "KeepAlive", "NoKeepAlive"]

_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]


class KeepAlive:
    """Sends a mark whenever a stream has sent nothing for some seconds, and only between whole events."""

    __slots__ = ("_headers", "_idle", "_loop", "_mark", "_period", "_send", "_timer", "has_begun", "has_sent",
                 "is_waiting", "sending")  # fmt: skip

    def __init__(
        self, send: _Send, mark: bytes, seconds: float, headers: Callable[[], list[tuple[bytes, bytes]]]
    ) -> None:
        """Begin to watch.

        Args:
            send: Sends to the caller (ASGI).
            mark: To send: a comment or an event that clients ignore.
            seconds: Of silence after which it is sent, at most; half of that at least.
            headers: Returns the gateway's headers, if the response begins before an upstream answers.
        """
        self._send = send
        self._mark = mark
        self._headers = headers
        self._period = seconds / 2
        self._idle = 0
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._period, self._tick)
        self.has_begun = False  # the response has begun
        self.has_sent = False  # since the last look
        self.is_waiting = True  # for the upstream: no event is being sent
        self.sending: asyncio.Task[None] | None = None

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._period, self._tick)
        if self.has_sent or not self.is_waiting:
            self.has_sent, self._idle = False, 0
            return
        self._idle += 1
        if self._idle > 1 and self.sending is None:
            self._idle = 0
            self.sending = self._loop.create_task(self._beat())

    async def _beat(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            headers = [*_STREAM, *self._headers()]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": self._mark, "more_body": True})
        self.sending = None

    def go_on(self) -> None:
        """Send marks again, now that the response has begun."""
        self.has_begun = self.is_waiting = True

    async def hold(self) -> None:
        """Send no mark until ``go_on``."""
        self.is_waiting = False
        if self.sending is not None:
            await self.sending

    async def answered(self) -> bool:
        """Hold marks back until the stream resumes; return whether the response has begun."""
        await self.hold()
        return self.has_begun

    def close(self) -> None:
        """Send no more."""
        self._timer.cancel()
        if self.sending is not None:
            self.sending.cancel()


class NoKeepAlive:
    """A ``KeepAlive`` that is switched off: sends nothing. One for all streams."""

    has_begun = False
    has_sent = False

    def go_on(self) -> None:
        """Nothing was held."""

    async def hold(self) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """Nothing is open."""


NO_KEEP_ALIVE: Final = NoKeepAlive()
