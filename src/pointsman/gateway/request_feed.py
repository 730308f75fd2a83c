"""Hands requests that have ended to a thread, in batches, so that they are processed off the event loop.

To wake a thread for each request costs more than to format its line (docs/notebook/0166).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from pointsman.gateway.request_log import ServedRequest
from pointsman.stores.batch_writer import BatchWriter

__all__ = ["RequestFeed"]

log = logging.getLogger(__name__)

#: Seconds for which requests are collected: a person sees no delay below it (Nielsen).
_BATCH: Final = 0.1
#: Requests handed over at once: a collector refuses messages of spans that are too large.
_MOST: Final = 512
#: Seconds that the last ones get at the end.
_PATIENCE: Final = 2.0


class RequestFeed(BatchWriter[ServedRequest]):
    """A bounded queue of requests and the thread that empties it, which starts with the first request."""

    def __init__(
        self, write: Callable[[Sequence[ServedRequest], int], None], *, name: str, size: int = 1_000
    ) -> None:
        """Prepare to take requests.

        Args:
            write: Is given requests in order, and how many were left out so far. Called in the thread.
            name: Of the thread.
            size: Requests that may wait; those beyond are left out and counted as ``lost``.
        """
        super().__init__(self._hand_over, size=size, name=name, linger=_BATCH)
        self._take = write

    def close(self, timeout: float | None = None) -> bool:
        """Hand over what waits, for ``timeout`` seconds at most; None: two."""
        return super().close(_PATIENCE if timeout is None else timeout)

    def _hand_over(self, batch: Sequence[ServedRequest]) -> int:
        for start in range(0, len(batch), _MOST):
            part = batch[start : start + _MOST]
            try:
                self._take(part, self.lost)
            except Exception:
                # One request that cannot be formatted must not end the thread: those after it are still told.
                log.exception("%s: %d requests are not reported", self._name, len(part))
        return 0
