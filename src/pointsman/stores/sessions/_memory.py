"""Session memory in this process: a bounded LRU cache with a time to live."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from pointsman.vocabulary import DAY

__all__ = ["MemorySessions"]


class MemorySessions:
    """Forgets at restart. For the threads of one process; several processes share a store outside."""

    waits: bool = False

    @property
    def fault(self) -> str:
        """Empty: nothing is recorded."""
        return ""

    @property
    def lost(self) -> int:
        """None: nothing is recorded."""
        return 0

    def __init__(
        self,
        *,
        size: int = 6_000,  # 3 to 4 kB each: the gateway stays below 100 MB
        ttl: float = DAY,  # a person comes back the next morning
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep ``size`` sessions for ``ttl`` seconds after they were last put."""
        self._size: Final = size
        self._ttl: Final = ttl
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._kept: Final[OrderedDict[str, tuple[float, bytes]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session: str, /) -> bytes | None:
        """Return what was put last, or None when unknown, expired or evicted."""
        with self._lock:
            found = self._kept.get(session)
            if found is None:
                return None
            put_at, memory = found
            if self._expired(put_at):
                del self._kept[session]
                return None
            self._kept.move_to_end(session)
            return memory

    def put(self, session: str, memory: bytes, /) -> None:
        """Keep a session's memory; may evict another session's."""
        with self._lock:
            self._kept[session] = (self._clock(), memory)
            self._kept.move_to_end(session)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        with self._lock:
            return self._kept.pop(session, None) is not None

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the sessions that are kept, the one put last first."""
        with self._lock:
            kept = [(session, put_at) for session, (put_at, _) in self._kept.items()]
        current = [entry for entry in kept if not self._expired(entry[1])]
        yield from sorted(current, key=lambda entry: entry[1], reverse=True)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _expired(self, put_at: float) -> bool:
        return self._clock() - put_at > self._ttl
