"""Caches results of a function for short words.

``lru_cache`` bounds the number of words, not how long they are; a caller's word may be long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["remembered"]

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
