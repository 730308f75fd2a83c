"""Hands requests that have ended to a thread, in batches, so that they are processed off the event loop.

To wake a thread for each request costs more than to format its line (docs/notebook/0166).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pointsman.gateway.request_log import ServedRequest

__all__ = ["RequestFeed"]

log = logging.getLogger(__name__)

#: Seconds for which requests are collected: a person sees no delay below it (Nielsen).
_BATCH: Final = 0.1
#: Requests handed over at once.
_MOST: Final = 512
#: Seconds that the last ones get at the end.
_PATIENCE: Final = 2.0


class RequestFeed:
    """A bounded queue of requests and the thread that empties it, which starts with the first request."""

    def __init__(
        self, write: Callable[[Sequence[ServedRequest], int], None], *, name: str, size: int = 1_000
    ) -> None:
        """Prepare to take requests.

        Args:
            write: Is given requests in order, and how many were left out so far. Called in the thread.
            name: Of the thread.
            size: Requests that may wait; those beyond are left out and counted.
        """
        self.left_out = 0
        self._write = write
        self._name = name
        self._size = size
        self._waiting: deque[ServedRequest] = deque()
        self._some, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, served: ServedRequest) -> None:
        """Take one request. Never blocks and never raises. Called by one thread alone."""
        if len(self._waiting) >= self._size:
            self.left_out += 1
            return
        self._waiting.append(served)
        if not self._some.is_set():
            self._some.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left: the next request asks again
            self._some.clear()
            return
        self._thread = thread

    def close(self, patience: float | None = None) -> None:
        """Hand over what waits, for ``patience`` seconds at most; None: two."""
        self._ended.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE if patience is None else patience)

    def _run(self) -> None:
        while self._some.wait():
            is_last = self._ended.wait(_BATCH)
            self._some.clear()
            while self._waiting:
                count = min(len(self._waiting), _MOST)
                self._hand_over([self._waiting.popleft() for _ in range(count)])
            if is_last:
                return

    def _hand_over(self, batch: Sequence[ServedRequest]) -> None:
        try:
            self._write(batch, self.left_out)
        except Exception:
            # One request that cannot be formatted must not end the thread: those after it are still told.
            log.exception("%s: %d requests are not told of", self._name, len(batch))
