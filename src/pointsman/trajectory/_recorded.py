"""Recorded runs whose contents are hashes: the fields of ``step_features``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from pointsman.trajectory._arguments import is_polling
from pointsman.trajectory._events import Event, UserSpoke
from pointsman.trajectory.step import CallOutcome, Step

__all__ = ["RecordedStep", "steps_of"]


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """One step of a recorded run; ``args``, ``res`` and ``err_sig`` are its recorder's hashes."""

    tool: str
    args: str = ""
    res: str = ""
    res_len: int = 0
    err: bool = False
    err_sig: str | None = None
    turn: int = 0
    batch: int = 1
    user_after: bool = False  # a person spoke right after this step


def steps_of(recorded: Iterable[RecordedStep]) -> Iterator[Event]:
    """Yield the events of a recorded run. Rate limits cannot be told from errors in a hash."""
    position, turn = 0, None
    for step in recorded:
        position = position + 1 if step.turn == turn else 0
        turn = step.turn
        yield Step(
            tool_name=step.tool,
            arguments=step.args,
            result_digest=step.res,
            result_length=step.res_len,
            outcome=CallOutcome.ERROR if step.err else CallOutcome.OK,
            signature=step.err_sig or "",
            turn=step.turn,
            position=position,
            batch=step.batch,
            polling=is_polling(step.tool, ""),
        )
        if step.user_after:
            yield UserSpoke()
