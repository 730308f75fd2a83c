"""Callers that disconnect before they are answered: their requests are cancelled."""

from __future__ import annotations

import asyncio
from typing import Final

from pointsman.gateway._inbound import Receive

__all__ = ["DisconnectWatch", "DisconnectWatches"]


class DisconnectWatch:
    """Cancels the task it was made in when the caller goes away."""

    is_due = False  # at the next look
    caller_left = False
    _watching: asyncio.Task[None] | None = None

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()

    def start(self) -> None:
        """Begin to look."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        """Stop looking."""
        if self._watching is not None:
            self._watching.cancel()

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.caller_left = True
        if self._task is not None:
            self._task.cancel()


class DisconnectWatches:
    """Watches the connections of all callers that have waited for a while.

    Most other requests are answered before a caller could disconnect, and a task or a timer for each request
    costs each of them.
    """

    _EVERY: Final = 0.25  # seconds; a caller is watched after one to two of them, and must be missed within 1

    def __init__(self) -> None:
        self._active: set[DisconnectWatch] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  # where a look is planned

    def begin(self, watch: DisconnectWatch) -> None:
        """Watch over the caller from now on; its body has arrived."""
        self._active.add(watch)
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop = loop
            loop.call_later(self._EVERY, self._look, loop)

    def end(self, watch: DisconnectWatch) -> None:
        """The caller has been answered."""
        self._active.discard(watch)
        if watch.is_due:
            watch.stop()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        for watch in self._active:
            if watch.is_due:
                watch.start()
            watch.is_due = True
        if self._active:
            self._loop = loop
            loop.call_later(self._EVERY, self._look, loop)
