"""A cache of selections: the same task with the same registry has the same result."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["LruCache"]

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """A bounded map that forgets what was used longest ago."""

    def __init__(self, size: int = 1024) -> None:
        """Keep at most ``size`` values; 1,024 selections among 200 capabilities take some 10 MB."""
        self._size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        """The value kept for ``key``, or None."""
        value = self._values.get(key)
        if value is not None:
            with suppress(KeyError):  # another thread may have removed it since
                self._values.move_to_end(key)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, and forget the one used longest ago when there are too many."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            with suppress(KeyError):
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)
