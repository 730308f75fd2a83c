"""Running a selection: its batches of questions asked in parallel, under a limit."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

from pointsman.drivers import drive_async
from pointsman.model_calls import Ask
from pointsman.vocabulary import ModelQuery, ModelReply

__all__ = ["MAX_PARALLEL", "answer_batches"]

#: Questions to models asked at the same time.
MAX_PARALLEL: Final = 5

Result = TypeVar("Result")


async def answer_batches(
    steps: Generator[Sequence[ModelQuery], Sequence[ModelReply], Result],
    ask: Ask,
    *,
    at_once: int = MAX_PARALLEL,
) -> Result:
    """Run a decision that asks in batches to its end; answers keep the order of their questions."""
    import asyncio

    gate = asyncio.Semaphore(at_once)

    async def one(need: ModelQuery) -> ModelReply:
        async with gate:
            return await ask(need)

    async def batch(needs: Sequence[ModelQuery]) -> Sequence[ModelReply]:
        return await asyncio.gather(*(one(need) for need in needs))

    return await drive_async(steps, batch)
