"""Values within a bound of bytes and a time to live: the common part of what the gateway keeps in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, ValuesView
from typing import Final, Generic, Protocol, TypeVar

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


class Bounded(Generic[Key, Value]):
    """Values by key; the one unused longest makes room."""

    def __init__(self, size: int) -> None:
        """Keep up to ``size`` bytes."""
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self.size: Final = size
        self._left = size

    def __len__(self) -> int:
        return len(self._values)

    @property
    def held(self) -> int:
        """Bytes kept."""
        return self.size - self._left

    def values(self) -> ValuesView[Value]:
        """All values, the one unused longest first."""
        return self._values.values()

    def peek(self, key: Key) -> Value | None:
        """Return a value without using it."""
        return self._values.get(key)

    def find(self, key: Key, now: float) -> Value | None:
        """Return a value and note its use; None where it is past its time to live, which removes it.

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
        return found

    def take(self, key: Key) -> Value | None:
        """Remove a value and return it, to be changed and put back."""
        found = self._values.pop(key, None)
        if found is not None:
            self._left += found.weight
        return found

    def put(self, key: Key, value: Value) -> list[Value]:
        """Keep a value in place of the one under its key; return those that made room."""
        self.take(key)
        self._values[key] = value
        self._left -= value.weight
        gone: list[Value] = []
        while self._left < 0:
            _, oldest = self._values.popitem(last=False)
            self._left += oldest.weight
            gone.append(oldest)
        return gone
