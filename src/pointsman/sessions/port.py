"""The SessionStore port: where the memory of sessions is kept between turns."""

from __future__ import annotations

from typing import Protocol

__all__ = ["SessionStore"]


class SessionStore(Protocol):
    """Bounded (least recently used, time to live). Values are a session's ``Memory`` as JSON bytes."""

    def get(self, session: str, /) -> bytes | None:
        """Return what was put last, or None when unknown, expired or evicted."""
        ...

    def put(self, session: str, memory: bytes, /) -> None:
        """Keep a session's memory; may evict another session's."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
