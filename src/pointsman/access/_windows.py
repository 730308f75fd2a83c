"""Windows of the calendar, in UTC: minutes, hours, days, weeks from Monday, months."""

from __future__ import annotations

import calendar
import time
from typing import Final, Literal, NamedTuple, TypeAlias

from pointsman.config.access import Period

__all__ = ["Every", "Window", "window"]

Every: TypeAlias = Period | Literal["minute"]

_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Seconds from a Monday to the epoch, which began on a Thursday.
_THURSDAY: Final = 3 * 86_400


class Window(NamedTuple):
    """From its first second to the one after its last, since the epoch."""

    start: int
    end: int


def window(every: Every, at: float) -> Window:
    """Return the window that a moment is in, in seconds since the epoch."""
    if every == "month":
        year, month = time.gmtime(at)[:2]
        after = (year + 1, 1) if month == 12 else (year, month + 1)
        return Window(_first_of(year, month), _first_of(*after))
    length = _SECONDS[every]
    shift = _THURSDAY if every == "week" else 0
    start = int((at + shift) // length) * length - shift
    return Window(start, start + length)


def _first_of(year: int, month: int) -> int:
    return calendar.timegm((year, month, 1, 0, 0, 0))
