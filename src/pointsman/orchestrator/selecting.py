"""Running a selection: its batches of questions asked in parallel, under a limit."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, TypeVar

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

    try:
        needs = next(steps)
        while True:
            needs = steps.send(await asyncio.gather(*(one(need) for need in needs)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # typeshed has no type for it
