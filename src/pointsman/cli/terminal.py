"""Output for a terminal, not for a pipe: colours, tables that fit its width, and progress.

rich is imported only for a table on a terminal, and for the progress of a longer operation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from pointsman.printable import Column, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


#: Select Graphic Rendition (ECMA-48, 8.3.117). The tier's name stands beside its colour.
TIERS: Final[Mapping[str, str]] = {"SIMPLE": "32", "MEDIUM": "36", "COMPLEX": "33", "REASONING": "35"}
FAILED: Final = "31"
HINTED: Final = "1"
_PLAIN: Final = {"", "dumb"}
#: The same colours as rich names them.
_STYLES: Final[Mapping[str, str]] = {
    "SIMPLE": "green",
    "MEDIUM": "cyan",
    "COMPLEX": "yellow",
    "REASONING": "magenta",
    "refused": "red",
    "none": "red",
}
#: Seconds after which a person wonders whether anything happens (Nielsen's limits: 1 s and 10 s).
_SOON: Final = 2.0


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person looks at a stream; by default at standard output."""
    stream = stream or sys.stdout
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: TextIO | None = None) -> bool:
    """Whether a stream shows colours: a terminal that can, unless ``NO_COLOR`` is set (no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in _PLAIN


def coloured(text: str, rendition: str) -> str:
    """Return a text, which must hold no character that acts, in a colour."""
    return f"\x1b[{rendition}m{text}\x1b[0m" if rendition else text


#: Characters of a word that may be cut in a table, at least; an id or a figure never is.
_CUT: Final = 12


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """The width in which a column says what it has to."""
    shown = (
        cells if column.right or column.whole else [word[:_CUT] for cell in cells for word in cell.split()]
    )
    return max(map(len, [*column.heading.split(), *shown]))


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], most: int) -> list[int] | None:
    """Widths of columns in at most so many characters, the widest shortened first; None if they need more."""
    cells = list(zip(*rows, strict=True))
    least = [_least_width(*each) for each in zip(columns, cells, strict=True)]
    if sum(least) > most:
        return None
    longest = (max(map(len, (column.heading, *of))) for column, of in zip(columns, cells, strict=True))
    widths = [min(each, most) for each in longest]
    while sum(widths) > most:
        _, widest = max((width, at) for at, width in enumerate(widths) if width > least[at])
        widths[widest] -= 1
    return widths


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Print a table in the width of the terminal on standard output; False, and nothing, if it needs more."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, no_color=not has_colour())
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = _widths(columns, rows, console.width - 2 * len(columns))
    if widths is None:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=column.whole,
            overflow="fold" if column.whole else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in row))
    end_progress()
    console.print(table)
    return True


class _Progress:
    """A spinner or a bar on standard error, from the third second on."""

    def __init__(self, label: str, total: int | None, delay: float) -> None:
        self._label = label
        self._total = total
        self._done = 0
        self._shown: tuple[Progress, TaskID] | None = None
        self._ended = False
        import threading  # of a terminal alone

        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._timer.start()

    def advance(self, count: int = 1) -> None:
        """Count items as done."""
        self._done += count
        if self._shown is not None:
            shown, task = self._shown
            shown.update(task, completed=self._done)

    def end(self) -> None:
        """Take it off the terminal."""
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        counted = (BarColumn(), MofNCompleteColumn()) if self._total else ()
        with self._lock:
            if self._ended:
                return
            shown = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                *counted,
                TimeElapsedColumn(),
                console=Console(stderr=True, no_color=not has_colour(sys.stderr)),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            shown.start()
            self._shown = shown, shown.add_task(self._label, total=self._total, completed=self._done)


#: What is in progress, one at most. Whatever is printed ends it: two writers of one terminal would mix.
_running: Final[list[_Progress]] = []


def end_progress(*, err: bool = False) -> None:
    """Remove the progress display from the terminal, so that it does not mix with other output."""
    if _running and (err or is_terminal()):
        _running[0].end()


@contextmanager
def progress(label: str, total: int | None = None, *, delay: float = _SOON) -> Iterator[_Progress | None]:
    """Show the progress of an operation on a terminal, when it takes longer than ``delay`` seconds.

    Args:
        label: Name of the operation.
        total: How many items there are; None: not known.
        delay: Seconds after which it is shown.

    Yields:
        The counter of items; None if standard error is no terminal, or a plain one, or has a display already.
    """
    if _running or not is_terminal(sys.stderr) or os.environ.get("TERM", "") in _PLAIN:
        yield None
        return
    begun = _Progress(label, total, delay)
    _running.append(begun)
    try:
        yield begun
    finally:
        begun.end()
        _running.clear()
