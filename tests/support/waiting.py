"""Waiting for another thread: no test depends on how fast a machine is, only on what happens."""

import asyncio
import time
from collections.abc import Callable


def until(happened: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Return when something has happened; fail when it has not, long after it should."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.001)


async def eventually(happened: Callable[[], object], *, seconds: float = 60.0) -> None:
    """Let the event loop run until something has happened; fail when it has not, long after it should."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what is looked at sets no event
            await asyncio.sleep(0)
