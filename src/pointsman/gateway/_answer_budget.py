"""Bounds the bytes of all whole answers that are held at once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from pointsman.errors import Overloaded

__all__ = ["AnswerBudget"]

#: Bytes of all whole answers above ``vocabulary.LARGE`` together; the largest images take 28 MB.
_TOTAL: Final = 32 << 20
#: Seconds that an answer waits for its share, while its upstream waits too. Those before it are being taken
#: by their callers; who takes nothing is gone within seconds (see ``_protocol.close_unread``).
_PATIENCE: Final = 30.0


class AnswerBudget:
    """Large answers take their share before they are read, in the order in which they came."""

    def __init__(self, total: int = _TOTAL) -> None:
        self.held = 0  # bytes
        self._total = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int, own: int = 0) -> None:
        """Wait for so many bytes. One answer larger than all of the budget is read when there is no other.

        Args:
            size: Bytes that are wanted.
            own: Bytes that the same answer holds already.

        Raises:
            Overloaded: they did not become free in time.
        """
        if not self._waiting and (self.held == own or self._fits(size)):
            self.held += size
            return
        share = size, asyncio.get_running_loop().create_future()
        self._waiting.append(share)
        try:
            async with asyncio.timeout(_PATIENCE):
                await share[1]
        except BaseException as error:
            if share in self._waiting:
                self._waiting.remove(share)
                self._wake()
            elif not share[1].cancelled():
                self.give(size)  # it was given in the same moment
            if isinstance(error, TimeoutError):
                raise _overloaded() from None
            raise

    def take_now(self, size: int) -> None:
        """Count bytes of an answer that did not say how long it would be.

        Raises:
            Overloaded: there is no room.
        """
        if self.held + size > self._total:
            raise _overloaded()
        self.held += size

    def give(self, size: int) -> None:
        """Let the next ones have these bytes."""
        self.held -= size
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, share = self._waiting.popleft()
            if not share.done():
                self.held += size
                share.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._total


def _overloaded() -> Overloaded:
    message = "the answers of all requests in progress exceed the limit"
    return Overloaded(message, hint="send the request again later")
