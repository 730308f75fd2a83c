"""Runs long work in threads off the event loop: for large requests, huge ones, and explanations.

Size of a large text: ``vocabulary.LARGE``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar, TypeVarTuple

from pointsman.vocabulary import LARGE

__all__ = ["offload", "offload_large"]

Given = TypeVarTuple("Given")
Result = TypeVar("Result")

#: Bytes of a request above which it waits among its like, so that the large ones of agents go on meanwhile.
_HUGE: Final = 4 << 20
#: One thread each: further ones would not end sooner, but take the interpreter from the loop more often.
_LARGE_ONES: Final = ThreadPoolExecutor(1, "large")
_HUGE_ONES: Final = ThreadPoolExecutor(1, "huge")
_ASIDE: Final = ThreadPoolExecutor(1, "aside")


async def offload(size: int, work: Callable[[*Given], Result], *given: *Given, aside: bool = False) -> Result:
    """Do a piece of work on a request of ``size`` bytes in another thread.

    Args:
        size: Of the request.
        work: Must not raise ``StopIteration``, which no future can hold.
        given: Its arguments.
        aside: No agent waits for it: it waits among its like.
    """
    lane = _ASIDE if aside else _LARGE_ONES if size <= _HUGE else _HUGE_ONES
    return await asyncio.get_running_loop().run_in_executor(lane, work, *given)


async def offload_large(size: int, work: Callable[[*Given], Result], *given: *Given) -> Result:
    """Do a piece of work on a large request as ``offload`` does, on any other at once."""
    return work(*given) if size <= LARGE else await offload(size, work, *given)
