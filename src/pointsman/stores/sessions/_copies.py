"""Copies of the sessions that this process has put, for when the server that stores them is late or away."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Copies", "Copy"]

#: Bytes of the stored memories; one has 2 to 5 kB.
MOST_BYTES: Final = 32 << 20
#: Other bytes of an entry.
_ENTRY: Final = 500


class Copy(NamedTuple):
    """A session's memory as last put, and as the server is known to have it."""

    stored: bytes
    base: bytes | None  # None: nothing that is known
    at: float  # when it was put, in seconds of the store's clock

    @property
    def waits(self) -> bool:
        """Whether the server does not have it yet."""
        return self.stored != self.base


class Copies:
    """The latest sessions, least recently put first out. Safe for several threads."""

    def __init__(self) -> None:
        self.lost = 0  # copies that went before the server had them
        self._kept: Final[OrderedDict[str, Copy]] = OrderedDict()
        self._waiting: Final[dict[str, None]] = {}  # sessions that the server does not have yet, in order
        self._bytes = 0
        self._lock: Final = threading.Lock()

    @property
    def waiting(self) -> int:
        """Sessions that the server does not have yet."""
        return len(self._waiting)

    def get(self, session: str) -> Copy | None:
        """Return the copy of a session."""
        return self._kept.get(session)

    def put(self, session: str, copy: Copy) -> None:
        """Store a copy in the place of an earlier one."""
        with self._lock:
            self._remove(session)
            self._kept[session] = copy
            self._bytes += len(copy.stored) + _ENTRY
            if copy.waits:
                self._waiting[session] = None
            while self._bytes > MOST_BYTES:
                oldest = next(iter(self._kept))
                self.lost += oldest in self._waiting
                self._remove(oldest)

    def settle(self, session: str, copy: Copy) -> None:
        """The server has a copy, or something newer; a later one of this process still waits."""
        with self._lock:
            if self._kept.get(session) is copy:
                self._kept[session] = copy._replace(base=copy.stored)
                self._waiting.pop(session, None)

    def forget(self, session: str) -> None:
        """Forget a session."""
        with self._lock:
            self._remove(session)

    def next_waiting(self, count: int) -> Iterator[tuple[str, Copy]]:
        """Yield some sessions that the server does not have yet, those that wait longest first."""
        with self._lock:
            sessions = [each for each, _ in zip(self._waiting, range(count), strict=False)]
        for session in sessions:
            if (copy := self._kept.get(session)) is not None:
                yield session, copy

    def _remove(self, session: str) -> None:
        self._waiting.pop(session, None)
        if (copy := self._kept.pop(session, None)) is not None:
            self._bytes -= len(copy.stored) + _ENTRY
