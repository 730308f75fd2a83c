"""Waiting for another thread: no test depends on how fast a machine is, only on what happens.

Whoever waits long looks seldom: a look may cost more than what is waited for.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Final

_SHORTEST: Final = 0.001  # seconds
_LONGEST: Final = 0.2  # seconds
#: Looks within one event loop before there is a pause: what only needs the loop to run has happened by then.
_AT_ONCE: Final = 200


def until(happened: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Return when something has happened; fail when it has not, long after it should."""
    deadline, pause = time.monotonic() + seconds, _SHORTEST
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(pause)
        pause = min(1.2 * pause, _LONGEST)


async def eventually(happened: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Let the event loop run until something has happened; fail when it has not, long after it should."""
    looks = count()
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what is looked at sets no event
            await asyncio.sleep(0 if next(looks) < _AT_ONCE else _SHORTEST)
