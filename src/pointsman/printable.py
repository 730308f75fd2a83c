"""Untrusted texts, made safe for display: in a terminal, a log, a table, an error.

Escape sequences steer a terminal, controls of direction show a text as another, and an end of a line forges
the next one. Callers choose names of models and sessions, models and upstreams their answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

__all__ = [
    "Block",
    "Column",
    "TextTable",
    "plain_lines",
    "plain_rows",
    "printable",
    "printable_json",
    "table_cell",
]

#: Replaces a character that acts.
_INSTEAD: Final = "\ufffd"
#: A cell that begins with one of these is a formula to a spreadsheet. In some languages the wide forms count
#: too.
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: What ``str.isprintable`` may refuse in JSON: all that is not ASCII, and DEL.
_SUSPECT: Final = re.compile(r"[^\n\r\t -~]")


def printable(text: str, *, keep: str = "", instead: str = _INSTEAD) -> str:
    """Return a text in which no character acts.

    Args:
        text: The untrusted text.
        keep: Characters that may stay, such as the ends of lines.
        instead: Replacement of each of the others.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else instead for char in text)


def table_cell(value: object) -> object:
    """Return a value for a cell of a table in which no character acts and no spreadsheet calculates."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def printable_json(json: str) -> str:
    """Return JSON that means the same, with an escape for each character that acts."""
    return json if json.isascii() and "\x7f" not in json else _SUSPECT.sub(_escaped, json)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Column(NamedTuple):
    """One column of a table."""

    heading: str
    right: bool = False
    whole: bool = False  # never shortened: an id is copied
    least: int = 0  # characters in a pipe, at least


def plain_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table for a pipe: headings, then rows, in columns as wide as the widest cell.

    Without rows there is nothing to head.
    """
    if not rows:
        return
    shown = [[column.heading for column in columns], *([printable(cell) for cell in row] for row in rows)]
    widths = [
        max(column.least, *map(len, cells))
        for column, cells in zip(columns, zip(*shown, strict=True), strict=True)
    ]
    for row in shown:
        cells = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()


class TextTable(NamedTuple):
    """A table of a report."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]


#: What a report for a person consists of: lines, and tables.
Block = str | TextTable


def plain_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the lines of a report for a pipe or a page."""
    for block in blocks:
        if isinstance(block, str):
            yield block
        else:
            yield from plain_rows(block.columns, block.rows)
