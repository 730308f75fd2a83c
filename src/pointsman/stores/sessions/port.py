"""The SessionStore port: storage of the memory of sessions between turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

__all__ = ["SessionStore"]


class SessionStore(Protocol):
    """Bounded (least recently used, time to live). Values are a session's ``Memory`` as JSON bytes.

    Every method may raise ``StoreUnavailable``, which is not the same as knowing nothing of a session.
    """

    @property
    def waits(self) -> bool:
        """Whether reading and writing may wait for another machine; an event loop then uses a thread."""
        ...

    @property
    def fault(self) -> str:
        """Why sessions cannot be recorded just now; empty when all is well."""
        ...

    @property
    def lost(self) -> int:
        """Changes held in memory that could not be recorded, since the start."""
        ...

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory, or None when unknown, expired or evicted."""
        ...

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; may evict another session's."""
        ...

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        ...

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions and when each was last put, in seconds since the epoch."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
