"""Session memory in this process, and its bounded store, which the gateway's own memories share."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter, itemgetter
from typing import ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from pointsman.vocabulary import DAY

__all__ = ["MOST_OWNERS", "Bounded", "MemorySessions"]

#: Owners among which the largest is looked for: a few microseconds. A gateway has as many as it has keys.
MOST_OWNERS: Final = 256
#: Seconds between two searches for values past their time to live.
_SWEEP: Final = 60.0


class _Weighed(Protocol):
    @property
    def weight(self) -> int:
        """What counts towards the bound; changes only while the value is taken out."""

    @property
    def at(self) -> float:
        """When it was made or changed, in seconds."""


Value = TypeVar("Value", bound=_Weighed)


class _Owned(OrderedDict[str, Value]):
    """The values of one owner by key, the one unused longest first, and their weight."""

    weight = 0


class Bounded(Generic[Value]):
    """Values within a bound of weight and a time to live; the owner is in a key, before its first slash.

    Of the owner that holds the most, the value unused longest makes room: one caller that names ever new
    sessions would otherwise push out those of all others.
    """

    def __init__(self, size: int, ttl: float = DAY, gone: Callable[[Value], None] | None = None) -> None:
        """Store up to ``size`` of weight. ``gone``: called with each value that is evicted or has expired."""
        self.size: Final = size
        self.held = 0
        self._ttl: Final = ttl
        self._gone: Final = gone
        self._sweep_at = -math.inf
        self._owners: Final[OrderedDict[str, _Owned[Value]]] = OrderedDict()  # the one put last is the last

    def __len__(self) -> int:
        return sum(map(len, self._owners.values()))

    def values(self) -> Iterator[Value]:
        """Yield all values, of each owner the one unused longest first."""
        for owned in self._owners.values():
            yield from owned.values()

    def peek(self, key: str) -> Value | None:
        """Return a value without using it."""
        owned = self._owners.get(key[: key.find("/") + 1])
        return None if owned is None else owned.get(key)

    def find(self, key: str, now: float) -> Value | None:
        """Return a value and note its use; None if it is absent. An expired value is removed."""
        owned = self._owners.get(key[: key.find("/") + 1])
        if owned is None or (found := owned.get(key)) is None:
            return None
        if now - found.at > self._ttl:
            self._remove(key)
            return None
        owned.move_to_end(key)
        return found

    def take(self, key: str) -> Value | None:
        """Remove a value and return it, to be changed and put back."""
        owned = self._owners.get(owner := key[: key.find("/") + 1])
        if owned is None or (found := owned.pop(key, None)) is None:
            return None
        owned.weight -= found.weight
        self.held -= found.weight
        if not owned:
            del self._owners[owner]
        return found

    def put(self, key: str, value: Value) -> None:
        """Store a value, replacing that of the same key; remove values over the bound and expired ones."""
        owned = self._owners.get(owner := key[: key.find("/") + 1])
        if owned is None:
            owned = self._owners[owner] = _Owned()
        weight = value.weight
        if key in owned:
            weight -= owned.pop(key).weight
        owned[key] = value
        self._owners.move_to_end(owner)
        owned.weight += weight
        self.held += weight
        while self.held > self.size:
            self._remove(next(iter(self._largest_owner())))
        if value.at > self._sweep_at:
            self._sweep(value.at)

    def clear(self) -> None:
        """Forget all."""
        self._owners.clear()
        self.held = 0

    def _largest_owner(self) -> _Owned[Value]:
        """Return the values of the owner that holds the most, among very many of those that have put last.

        Without keys of callers names are the callers' to choose, and there may be as many owners as names:
        the one that has put nothing for longest makes room if none of those compared has several values.
        """
        latest = list(islice(reversed(self._owners.values()), MOST_OWNERS))
        largest = max(reversed(latest), key=attrgetter("weight"))
        is_known = len(largest) > 1 or len(self._owners) <= MOST_OWNERS
        return largest if is_known else next(iter(self._owners.values()))

    def _sweep(self, now: float) -> None:
        """Remove what has expired, of each owner from the value unused longest to the first that has not."""
        self._sweep_at = now + _SWEEP
        for owned in list(self._owners.values()):
            while owned and now - next(iter(owned.values())).at > self._ttl:
                self._remove(next(iter(owned)))

    def _remove(self, key: str) -> None:
        if (found := self.take(key)) is not None and self._gone is not None:
            self._gone(found)


class SessionRow(msgspec.Struct, frozen=True, gc=False):
    """A session's memory, and when it was put."""

    session: str
    at: float
    memory: bytes | None
    weight: ClassVar[int] = 1


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
        self._kept: Final = Bounded[SessionRow](size, ttl, self._gone)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory, or None when unknown, expired or evicted."""
        with self._lock:
            found = self._kept.find(session, self._clock())
        return None if found is None else found.memory

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; may evict another session's."""
        sized = bytes(memoryview(memory))  # msgspec's take a half more than they hold
        with self._lock:
            self._kept.put(session, SessionRow(session, self._clock(), sized))

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        with self._lock:
            return self._kept.take(session) is not None

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions, the one put last first."""
        with self._lock:
            kept = [(row.session, row.at) for row in self._kept.values()]
        now = self._clock()
        current = [entry for entry in kept if now - entry[1] <= self._ttl]
        yield from sorted(current, key=itemgetter(1), reverse=True)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def _gone(self, row: SessionRow) -> None:
        """A session has made room, or has expired."""
