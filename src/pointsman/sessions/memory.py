"""Session memory in this process: bounded, least recently used out first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["MemorySessions"]


class MemorySessions:
    """Forgets at restart. For one process; several share a store outside."""

    def __init__(
        self,
        *,
        size: int = 10_000,  # about 2 kB each
        ttl: float = 86_400.0,  # a person comes back the next morning
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep ``size`` sessions for ``ttl`` seconds after their last use."""
        self._size = size
        self._ttl = ttl
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session: str, /) -> bytes | None:
        """Return what was put last, or None when unknown, expired or evicted."""
        found = self._kept.get(session)
        if found is None:
            return None
        used, memory = found
        if self._clock() - used > self._ttl:
            del self._kept[session]
            return None
        self._kept.move_to_end(session)
        return memory

    def put(self, session: str, memory: bytes, /) -> None:
        """Keep a session's memory; may evict another session's."""
        self._kept[session] = (self._clock(), memory)
        self._kept.move_to_end(session)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def close(self) -> None:
        """Forget everything."""
        self._kept.clear()
