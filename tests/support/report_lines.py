"""The lines of a report, as a pipe gets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pointsman.printable import Block, plain_rows

__all__ = ["plain_lines"]


def plain_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the lines of a report for a pipe."""
    for block in blocks:
        if isinstance(block, str):
            yield block
        else:
            yield from plain_rows(*block)
