"""Where the values of a JSON list stand in its bytes, and edits that take some of them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from pointsman.wire.body import Edit, Span

__all__ = ["removals", "spans"]


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
