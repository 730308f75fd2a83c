"""Untrusted texts, made safe for display: in a terminal, a log, a table, an error.

Escape sequences steer a terminal, controls of direction show a text as another, and an end of a line forges
the next one. Callers choose names of models and sessions, models and upstreams their answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

__all__ = [
    "Block",
    "Column",
    "TextTable",
    "counted",
    "csv_text",
    "html_text",
    "plain_rows",
    "printable",
    "printable_json",
    "table_cell",
    "without_credentials",
]

#: Replaces a character that acts.
_INSTEAD: Final = "\ufffd"
#: A cell that begins with one of these is a formula to a spreadsheet. In some languages the wide forms count
#: too.
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Where the path of an address ends.
_BEHIND_PATH: Final = re.compile(r"[?#]")
#: A host with or without a port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]*\]?|[^:]*)(:[0-9]{0,5})?")
#: What ``str.isprintable`` may refuse in JSON: all that is not ASCII, and DEL.
_SUSPECT: Final = re.compile(r"[^\n\r\t -~]")


def counted(count: int, noun: str) -> str:
    """A number and its noun, "1 session", "2 sessions"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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


def without_credentials(address: str) -> str:
    """Return an address without user, password, query and fragment, whatever else is wrong with it.

    What may be a password in the wrong place is left out, too.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or not scheme.isalnum():
        return "…"
    host, slash, path = _BEHIND_PATH.split(rest.rpartition("@")[2])[0].partition("/")
    if not _HOST.fullmatch(host):
        host = host.partition(":")[0] + ":…"
    return scheme + separator + host + slash + path


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
    show: Callable[[Any], str] = str  # how a value is written for a person; texts are written as they are


class TextTable(NamedTuple):
    """A table of a report. Cells are plain values: CSV has them as they are."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> TextTable:
        """Return a table of plain columns."""
        return cls(tuple(map(Column, headings)), rows)

    def shown(self) -> Iterator[list[str]]:
        """Yield the rows for a person; an unknown value is "-"."""
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            yield [
                cell if isinstance(cell, str) else "-" if cell is None else column.show(cell)
                for column, cell in cells
            ]


#: What a report for a person consists of: lines, and tables.
Block = str | TextTable


def plain_rows(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table for a pipe: headings, then rows, in columns as wide as the widest cell.

    Without rows there is nothing to head.
    """
    if not rows:
        return
    texts = ([printable(cell) for cell in row] for row in TextTable(columns, rows).shown())
    shown = [[column.heading for column in columns], *texts]
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


def csv_text(tables: Iterable[TextTable]) -> str:
    """Return tables as CSV that no spreadsheet calculates with; an empty line parts one from the next."""
    import csv  # these three for whoever asks for a table alone
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, table in enumerate(tables):
        writer.writerows([[]] if number else [])
        writer.writerow([column.heading for column in table.columns])
        writer.writerows([table_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def html_text(blocks: Iterable[Block]) -> str:
    """Return the lines and tables of a report as HTML; numbers have the class "num"."""
    from html import escape

    def row(tag: str, columns: Sequence[Column], texts: Iterable[str]) -> str:
        name = tag.partition(" ")[0]
        cells = (
            f"<{tag}{' class=num' if column.right else ''}>{escape(printable(text))}</{name}>"
            for column, text in zip(columns, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    def table(of: TextTable) -> str:
        head = row("th scope=col", of.columns, (column.heading for column in of.columns))
        rows = "".join(row("td", of.columns, cells) for cells in of.shown())
        inner = f"<thead>{head}</thead><tbody>{rows}</tbody>"
        return f'<div class="scroll" tabindex=0><table class=plain>{inner}</table></div>'

    return "".join(
        f"<p>{escape(printable(block))}</p>" if isinstance(block, str) else table(block)
        for block in blocks
        if (block if isinstance(block, str) else block.rows)
    )
