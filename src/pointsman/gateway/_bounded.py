"""Values within a bound of bytes and a time to live: the base of the gateway's stores in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, ValuesView
from typing import Any, Final, Generic, Protocol, TypeVar

from pointsman.stores.sessions import ByOwner, owner_of
from pointsman.vocabulary import DAY

__all__ = ["TTL", "Bounded"]

#: Seconds that values are kept by default, whatever time to live `[sessions]` gives its sessions.
TTL: Final = DAY


class _Weighed(Protocol):
    @property
    def weight(self) -> int:
        """Bytes; changes only while the value is taken out."""
        ...

    @property
    def at(self) -> float:
        """When it was made or changed, in seconds."""
        ...


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=_Weighed)


def _owner_in(key: Any) -> str:
    return owner_of(key) if isinstance(key, str) else ""


def _no_more(_: object) -> None:
    """Nothing refers to a value that was removed."""


class Bounded(Generic[Key, Value]):
    """Values by key; of the owner that holds the most, the one unused longest makes room.

    The owner of a value is in its key, before the first slash.
    """

    def __init__(self, size: int, ttl: float = TTL, gone: Callable[[Value], None] = _no_more) -> None:
        """Store up to ``size`` bytes. ``gone``: called with each value that is evicted or has expired."""
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self.size: Final = size
        self._ttl: Final = ttl
        self._left = size
        self._gone = gone
        self._by_owner = ByOwner[Key]()

    def __len__(self) -> int:
        return len(self._values)

    @property
    def held(self) -> int:
        """Bytes stored."""
        return self.size - self._left

    def values(self) -> ValuesView[Value]:
        """All values, the one unused longest first."""
        return self._values.values()

    def peek(self, key: Key) -> Value | None:
        """Return a value without using it."""
        return self._values.get(key)

    def find(self, key: Key, now: float) -> Value | None:
        """Return a value and note its use; None if it is absent. An expired value is removed."""
        found = self._values.get(key)
        if found is None:
            return None
        if now - found.at > self._ttl:
            self._remove(key)
            return None
        self._values.move_to_end(key)
        self._by_owner.used(_owner_in(key), key)
        return found

    def take(self, key: Key) -> Value | None:
        """Remove a value and return it, to be changed and put back."""
        found = self._values.pop(key, None)
        if found is not None:
            self._left += found.weight
            self._by_owner.take(_owner_in(key), key)
        return found

    def put(self, key: Key, value: Value) -> None:
        """Store a value, replacing that of the same key; remove values over the bound and expired ones."""
        self.take(key)
        self._values[key] = value
        self._left -= value.weight
        self._by_owner.put(_owner_in(key), key, value.weight)
        while self._left < 0:
            first = self._by_owner.first_to_go()
            self._remove(next(iter(self._values)) if first is None else first)
        while self._values and value.at - self._values[oldest := next(iter(self._values))].at > self._ttl:
            self._remove(oldest)

    def _remove(self, key: Key) -> None:
        found = self.take(key)
        if found is not None:
            self._gone(found)
