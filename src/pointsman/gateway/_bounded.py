"""Values within a bound of bytes and a time to live: the base of the gateway's stores in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, ValuesView
from typing import Any, Final, Generic, Protocol, TypeVar

from pointsman.stores.sessions import ByOwner, owner_of
from pointsman.vocabulary import DAY

__all__ = ["TTL", "Bounded"]

#: Seconds that such values are kept, whatever time to live `[sessions]` gives its sessions.
TTL: Final = DAY


class _Weighed(Protocol):
    @property
    def weight(self) -> int:
        """Bytes; changes only while the value is taken out."""
        ...

    @property
    def at(self) -> float:
        """When it was made or changed, in seconds since the epoch."""
        ...


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=_Weighed)


def _owner_in_key(key: Any, _: object) -> str:
    return owner_of(key) if isinstance(key, str) else ""


class Bounded(Generic[Key, Value]):
    """Values by key; of the owner that holds the most, the one unused longest makes room."""

    def __init__(self, size: int, owner: Callable[[Key, Value], str] = _owner_in_key) -> None:
        """Store up to ``size`` bytes. ``owner``: the owner of a value; by default that of its key."""
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self.size: Final = size
        self._left = size
        self._owner = owner
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
        """Return a value and note its use; None if it is absent. An expired value is removed.

        Args:
            key: Of the value.
            now: Seconds since the epoch.
        """
        found = self._values.get(key)
        if found is None:
            return None
        if now - found.at > TTL:
            self.take(key)
            return None
        self._values.move_to_end(key)
        self._by_owner.used(self._owner(key, found), key)
        return found

    def take(self, key: Key) -> Value | None:
        """Remove a value and return it, to be changed and put back."""
        found = self._values.pop(key, None)
        if found is not None:
            self._left += found.weight
            self._by_owner.take(self._owner(key, found), key)
        return found

    def put(self, key: Key, value: Value) -> list[Value]:
        """Store a value, replacing that of the same key; return those evicted."""
        self.take(key)
        self._values[key] = value
        self._left -= value.weight
        self._by_owner.put(self._owner(key, value), key, value.weight)
        gone: list[Value] = []
        while self._left < 0:
            first = self._by_owner.first_to_go()
            oldest = self.take(next(iter(self._values)) if first is None else first)
            if oldest is not None:
                gone.append(oldest)
        return gone
