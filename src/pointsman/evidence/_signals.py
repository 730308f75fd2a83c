"""Signals: the patterns that classifiers match, as data.

A lexicon (a tier profile, a set of domains, a user's file) declares signals; a ``SignalTable`` gives all of
them one total order, so that the result of a scan is one integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

__all__ = ["Kind", "Signal", "SignalTable"]

#: Sets of hits whose ids are remembered, about 0.3 kB each.
_KEPT_IDS: Final = 4_096


class Kind(StrEnum):
    """How a pattern is read. Text and patterns are lower-cased before they meet."""

    SUBSTRING = "substring"  # a literal, anywhere: for profile `seed`, and for scripts without spaces
    WORD = "word"  # a literal between word boundaries of its own script
    PREFIX = "prefix"  # a literal at the start of a word: the way for languages that inflect
    REGEX = "regex"  # a regular expression, linear-time subset


class Signal(msgspec.Struct, frozen=True, order=True, gc=False):
    """One pattern and where it belongs. Equal signals of different groups are different signals."""

    lexicon: str  # "seed", "default", "domains", the user's name
    group: str  # a tier dimension, a domain
    pattern: str
    kind: Kind = Kind.WORD
    name: str = ""  # stands for the pattern where that is long; unique within its group

    @property
    def id(self) -> str:
        """Stable name: ``lexicon/group/pattern``, or ``lexicon/group/name``."""
        return f"{self.lexicon}/{self.group}/{self.name or self.pattern}"


class SignalTable:
    """All signals of a policy in total order; signal *i* is bit *i* of ``Evidence.hits``."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        self.signals: Final[tuple[Signal, ...]] = tuple(sorted(set(signals)))
        #: Places, not bits: a bit takes 250 bytes, and there are thousands.
        self._places: Final = {signal: place for place, signal in enumerate(self.signals)}
        masks: dict[tuple[str, str], int] = {}
        for signal, place in self._places.items():
            key = (signal.lexicon, signal.group)
            masks[key] = masks.get(key, 0) | 1 << place
        self._masks: Final = masks
        #: Their ids. Remembered, because an agent sends the same words with every result of a tool.
        self.ids_of: Final = lru_cache(_KEPT_IDS)(self._ids_of)

    def __len__(self) -> int:
        return len(self.signals)

    def bit(self, signal: Signal) -> int:
        """The one-bit mask of a signal. Raises ``KeyError`` for one that is not in the table."""
        return 1 << self._places[signal]

    def mask(self, lexicon: str, group: str) -> int:
        """The mask of a whole group; 0 if the table does not contain it."""
        return self._masks.get((lexicon, group), 0)

    def of(self, hits: int) -> Iterator[Signal]:
        """The signals in a mask, in total order."""
        return map(self.signals.__getitem__, _places(hits))

    def _ids_of(self, hits: int) -> tuple[str, ...]:
        return tuple(signal.id for signal in self.of(hits))


def _places(hits: int) -> list[int]:
    """The places of the bits of a mask, lowest first."""
    places = []
    while hits:
        low = hits & -hits
        places.append(low.bit_length() - 1)
        hits ^= low
    return places
