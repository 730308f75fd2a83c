"""Running a selection: its batches of questions asked in parallel, under a limit."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import TypeVar

from pointsman.drivers import drive_async
from pointsman.model_calls import MAX_PARALLEL, Ask, ask_together
from pointsman.vocabulary import ModelQuery, ModelReply

Result = TypeVar("Result")


async def answer_batches(
    steps: Generator[Sequence[ModelQuery], Sequence[ModelReply], Result],
    ask: Ask,
    *,
    at_once: int = MAX_PARALLEL,
) -> Result:
    """Run a decision that asks in batches to its end; answers are in the order of their questions."""
    return await drive_async(steps, partial(ask_together, ask, at_once=at_once))
