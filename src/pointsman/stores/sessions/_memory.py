"""Session memory in this process: a bounded LRU cache with a time to live."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from pointsman.vocabulary import DAY

__all__ = ["MOST_OWNERS", "ByOwner", "MemorySessions", "owner_of"]

#: Owners up to which the largest is looked for: a few microseconds. A gateway has as many as it has keys.
MOST_OWNERS: Final = 256

Key = TypeVar("Key", bound=Hashable)


def owner_of(name: str) -> str:
    """Return the owner of a session: the text before the first slash of its name, or empty without one."""
    owner, slash, _ = name.partition("/")
    return owner if slash else ""


class ByOwner(Generic[Key]):
    """The keys of stored entries, with their weights; each owner's in the order of their use.

    One caller that names ever new sessions would otherwise push out those of all others.
    """

    def __init__(self) -> None:
        self._keys: Final[dict[str, OrderedDict[Key, int]]] = {}
        self._weights: Final[dict[str, int]] = {}

    def put(self, owner: str, key: Key, weight: int = 1) -> None:
        """Note a key, or its use with another weight."""
        keys = self._keys.setdefault(owner, OrderedDict())
        self._weights[owner] = self._weights.get(owner, 0) + weight - keys.get(key, 0)
        keys[key] = weight
        keys.move_to_end(key)

    def used(self, owner: str, key: Key) -> None:
        """Note the use of a key that is there."""
        self._keys[owner].move_to_end(key)

    def take(self, owner: str, key: Key) -> None:
        """Forget a key that is there."""
        keys = self._keys[owner]
        self._weights[owner] -= keys.pop(key)
        if not keys:
            del self._keys[owner], self._weights[owner]

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._weights.clear()

    def first_to_go(self) -> Key | None:
        """Return the least recently used key of the largest owner; None among too many owners to compare.

        Without keys of callers names are the callers' to choose, and there may be as many owners as names.
        """
        if len(self._weights) > MOST_OWNERS or not self._weights:
            return None
        largest = max(self._weights, key=self._weights.__getitem__)
        return next(iter(self._keys[largest]))


class MemorySessions:
    """Forgets at restart. For the threads of one process; workers hand a session over (``gateway.workers``).

    Beyond its size, the caller with the most sessions loses the one that it has left unused longest.
    """

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
        """Store ``size`` sessions for ``ttl`` seconds after they were last put."""
        self._size: Final = size
        self._ttl: Final = ttl
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._kept: Final[OrderedDict[str, tuple[float, bytes]]] = OrderedDict()
        self._by_owner: Final = ByOwner[str]()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory, or None when unknown, expired or evicted."""
        with self._lock:
            found = self._kept.get(session)
            if found is None:
                return None
            put_at, memory = found
            if self._expired(put_at):
                self._drop(session)
                return None
            self._kept.move_to_end(session)
            self._by_owner.used(owner_of(session), session)
            return memory

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; may evict another session's."""
        self._keep(session, self._clock(), memory)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        with self._lock:
            if session not in self._kept:
                return False
            self._drop(session)
            return True

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions, the one put last first."""
        with self._lock:
            kept = [(session, put_at) for session, (put_at, _) in self._kept.items()]
        current = [entry for entry in kept if not self._expired(entry[1])]
        yield from sorted(current, key=lambda entry: entry[1], reverse=True)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._by_owner.clear()

    def _keep(self, session: str, put_at: float, memory: bytes) -> tuple[str, float] | None:
        """Store a session's memory; return the session that made room, if one did, and when it was put."""
        with self._lock:
            self._kept[session] = (put_at, memory)
            self._kept.move_to_end(session)
            self._by_owner.put(owner_of(session), session)
            if len(self._kept) <= self._size:
                return None
            gone = self._by_owner.first_to_go()
            if gone is None:
                gone = next(iter(self._kept))
            return gone, self._drop(gone)

    def _drop(self, session: str) -> float:
        """Remove a session; return when it was put."""
        self._by_owner.take(owner_of(session), session)
        return self._kept.pop(session)[0]

    def _expired(self, put_at: float) -> bool:
        return self._clock() - put_at > self._ttl
