"""The two drivers of a decision: a generator that yields questions and is sent their answers.

Whatever decides is pure and knows neither threads nor an event loop; the caller chooses one of these. A
question may be one ``ModelQuery`` or a batch of them: what ``ask`` takes and gives is the generator's affair.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from pointsman.vocabulary import ModelQuery, ModelReply

__all__ = ["Moved", "advance", "drive", "drive_async", "no_model"]

Query = TypeVar("Query")
Reply = TypeVar("Reply")
Result = TypeVar("Result")

#: Where a decision stands: (False, its next question) or (True, its result).
Moved: TypeAlias = tuple[Literal[False], Query] | tuple[Literal[True], Result]


def advance(steps: Generator[Query, Reply, Result], reply: Reply | None = None) -> Moved[Query, Result]:
    """Continue a decision to its next question or its end; without a reply, begin it."""
    try:
        return False, next(steps) if reply is None else steps.send(reply)
    except StopIteration as end:
        return True, end.value


def no_model(query: ModelQuery) -> ModelReply:  # noqa: ARG001 - the shape of an ask
    """Answer where no model can be asked."""
    return ModelReply(error="no-model", was_asked=False)


def drive(steps: Generator[Query, Reply, Result], ask: Callable[[Query], Reply]) -> Result:
    """Run a decision to its end in this thread."""
    moved = advance(steps)
    while not moved[0]:
        moved = advance(steps, ask(moved[1]))
    return moved[1]


async def drive_async(
    steps: Generator[Query, Reply, Result],
    ask: Callable[[Query], Awaitable[Reply]],
    first: Query | None = None,
    *,
    run: Callable[[Callable[[], Moved[Query, Result]]], Awaitable[Moved[Query, Result]]] | None = None,
) -> Result:
    """Run a decision to its end, waiting for answers without blocking the loop.

    Args:
        steps: the decision.
        ask: answers a question.
        first: its first question, if it has begun.
        run: does the work between two questions elsewhere, as in a thread; by default it is done here.
    """
    moved: Moved[Query, Result]
    if first is not None:
        moved = False, first
    else:
        moved = advance(steps) if run is None else await run(partial(advance, steps))
    while not moved[0]:
        reply = await ask(moved[1])
        moved = advance(steps, reply) if run is None else await run(partial(advance, steps, reply))
    return moved[1]
