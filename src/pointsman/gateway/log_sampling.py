"""Limits repeated lines of the log: a flood of one kind of line becomes one line with a count."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

__all__ = ["LogSampler"]

#: Lines of one kind that are written within a window, and its seconds. The first lines say what happens; what
#: a person reads after an outage is a page or two.
_LINES: Final = 10
_WINDOW: Final = 10.0
#: Kinds that are counted at once. A kind is a place in the source, of which there are fewer.
_MOST_KINDS: Final = 256
#: Characters of the last line that the count repeats.
_SHOWN: Final = 200
#: What an operator has asked to see whole: one line for each decision, and for each request.
_WHOLE: Final = frozenset({"pointsman.decisions", "pointsman.requests"})

_Kind: TypeAlias = tuple[str, int, str]


class _Seen(NamedTuple):
    lines: int = 0
    last: logging.LogRecord | None = None  # the last one left out


class LogSampler(logging.Filter):
    """A filter of one handler. Lines are of one kind when logger, level and unformatted text are the same."""

    def __init__(
        self,
        handler: logging.Handler,
        later: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        """Take the handler that the counts are written to.

        Args:
            handler: To which the filter is added.
            later: Calls after some seconds; by default in a thread.
        """
        super().__init__()
        self._handler = handler
        self._later = later or _in_thread
        self._seen: dict[_Kind, _Seen] = {}  # in this window
        self._lock = threading.Lock()
        self._is_due = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        if record.name in _WHOLE or hasattr(record, "left_out"):
            return True
        kind = record.name, record.levelno, str(record.msg)
        with self._lock:
            if kind not in self._seen and len(self._seen) >= _MOST_KINDS:
                return True
            lines = self._seen.get(kind, _Seen()).lines
            is_written = lines < _LINES
            self._seen[kind] = _Seen(lines + 1, None if is_written else record)
            starts, self._is_due = not self._is_due, True
        if starts:
            self._later(_WINDOW, self.flush)
        return is_written

    def flush(self) -> None:
        """Write a count for every kind of which lines were left out, and begin a new window."""
        with self._lock:
            found, self._seen, self._is_due = self._seen, {}, False
        for (name, level, _), seen in found.items():
            if seen.last is not None:
                self._handler.handle(_count(name, level, seen.lines - _LINES, seen.last))


def _count(name: str, level: int, left_out: int, last: logging.LogRecord) -> logging.LogRecord:
    text, args = "%d more lines like this within %.0f s: %s", (left_out, _WINDOW, last.getMessage()[:_SHOWN])
    record = logging.LogRecord(name, level, last.pathname, last.lineno, text, args, None)
    record.left_out = left_out
    return record


def _in_thread(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
