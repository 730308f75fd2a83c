"""What of a request's reasoning another provider wrote, and the edits that take it out.

A request that goes to an upstream in the caller's own format is relayed byte for byte. Only in a conversation
that was at another upstream as well may reasoning have to go: no provider takes that of another one
(docs/decisions/0124).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import NamedTuple, Protocol

import msgspec

from pointsman.wire.body import Body, Edit, Span
from pointsman.wire.format import Format

__all__ = ["Cleaned", "Origin", "OwnReasoning", "Thought", "own_reasoning"]


# Where the values of a JSON list stand in its bytes, and edits that take some of them out.
def spans(data: bytes, values: Iterable[msgspec.Raw], start: int) -> list[Span]:
    """Return where values stand that follow one another in ``data`` from ``start`` on."""
    found, at = [], start
    for value in values:
        whole = bytes(value)
        begin = data.index(whole, at)  # a few bytes on: only a comma and white space stand between
        at = begin + len(whole)
        found.append((begin, at))
    return found


def removals(places: Sequence[Span], removed: Sequence[int]) -> Iterator[Edit]:
    """Yield edits that take values out of a list with the commas they leave behind.

    Args:
        places: Where each value of the list stands.
        removed: Positions of those to take out, ascending.
    """
    for _, group in groupby(enumerate(removed), key=lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        first, last = run[0], run[-1]
        if last + 1 < len(places):
            yield (places[first][0], places[last + 1][0]), b""
        else:
            yield (places[first - 1][1] if first else places[first][0], places[last][1]), b""


class Thought(NamedTuple):
    """One piece of reasoning in a request."""

    mark: str  # its signature or encrypted content, its id, or how its words begin
    is_signed: bool  # or known by its id


class Origin(Protocol):
    """Knows who wrote what in a conversation."""

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        """Whether another upstream wrote it. ``among_signed``: the conversation holds signed reasoning."""
        ...

    def is_foreign_call(self, identifier: str) -> bool:
        """Whether another upstream made the call with this id."""
        ...


class Cleaned(NamedTuple):
    """Edits that leave an upstream's own reasoning alone in a request."""

    edits: list[Edit]
    changed: tuple[str, ...]  # ids of constructs


class OwnReasoning(NamedTuple):
    """How one format holds reasoning."""

    translated: Callable[[bytes], bool]  # whether a body seems to hold what our translation wrote
    clean: Callable[[Body, Origin], Cleaned]  # raises ``UNREADABLE``
    marks: Callable[[bytes], Sequence[str]]  # of an answer or of events: by what their author is known again
    asked: str = ""  # the member without which no answer holds any; empty: one may hold it all the same


def own_reasoning(wire: Format) -> OwnReasoning | None:
    """Return how a format holds reasoning; None for one that has none of its own."""
    return _imported(wire.folder) if wire.has_own_reasoning else None


@cache
def _imported(folder: str) -> OwnReasoning:
    own: OwnReasoning = import_module(".own_reasoning", folder).OWN_REASONING
    return own
