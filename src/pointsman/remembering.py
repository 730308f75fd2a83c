"""Maps: results of a function for short words, entries of which the oldest are forgotten, values by key.

``lru_cache`` bounds the number of words, not how long they are; a caller's word may be long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from operator import add
from typing import Generic, TypeVar

__all__ = ["Bounded", "grouped", "remembered", "summed"]

Key = TypeVar("Key", bound=Hashable)

Word = TypeVar("Word", bound=str | bytes)
Value = TypeVar("Value")


class _Remembered(dict[Word, Value], Generic[Word, Value]):
    def __init__(self, of: Callable[[Word], Value], most: int, longest: int) -> None:
        super().__init__()
        self._of = of
        self._most = most
        self._longest = longest

    def __missing__(self, word: Word) -> Value:
        value = self._of(word)
        if len(word) <= self._longest:
            if len(self) >= self._most:
                self.clear()  # the few that are in use come again
            self[word] = value
        return value


def remembered(of: Callable[[Word], Value], most: int, longest: int) -> Callable[[Word], Value]:
    """Return a function that calls ``of``, a function without side effects, only for words it has not kept.

    Args:
        of: The function.
        most: Number of words.
        longest: Characters or bytes of a word that is cached.
    """
    return _Remembered(of, most, longest).__getitem__


class Bounded(OrderedDict[Key, Value]):
    """A map of at most ``most`` entries, which forgets the oldest. Several threads may use it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: Key, value: Value) -> None:
        """Store a value as the newest entry; forget the oldest if there are too many."""
        self[key] = value
        try:
            self.move_to_end(key)
            while len(self) > self._most:
                self.popitem(last=False)
        except KeyError:  # another thread has removed it since
            return

    def use(self, key: Key) -> Value | None:
        """Return a value, which becomes the newest entry; None if it is absent."""
        value = self.get(key)
        if value is not None:
            try:
                self.move_to_end(key)
            except KeyError:  # another thread has removed it since
                return value
        return value


def grouped(found: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Values by key, both in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for key, value in found:
        groups.setdefault(key, []).append(value)
    return groups


def summed(found: Iterable[tuple[Key, Value]], nothing: Value) -> dict[Key, Value]:
    """Sums by key, in the order in which the keys come."""
    sums: dict[Key, Value] = {}
    for key, value in found:
        sums[key] = add(sums.get(key, nothing), value)
    return sums
