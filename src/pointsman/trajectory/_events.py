"""What can happen in an agent's run, for people who run their own loop.

The gateway makes these from a request's history; a library user dispatches them directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pointsman.text.extract import digest
from pointsman.trajectory._arguments import canonical_arguments, comes_from, is_polling
from pointsman.trajectory._failures import outcome_of, salient_line, signature_of
from pointsman.trajectory._progress import ProgressIndicator, progress_in
from pointsman.trajectory.step import CallOutcome, Step
from pointsman.vocabulary import ToolResult

__all__ = [
    "Event",
    "ProgressMade",
    "Session",
    "ToolInvoked",
    "ToolRecommended",
    "UserSpoke",
    "step_of",
]

#: Characters of a tool's name that are kept; providers allow 64 to 128.
MAX_NAME: Final = 128


class ToolInvoked(msgspec.Struct, frozen=True):
    """A tool was called and answered. ``turn`` None: a turn of its own, after the one before."""

    tool_name: str
    params: str | Mapping[str, object] = ""  # JSON text as the model wrote it, or the decoded object
    result: ToolResult | None = None
    turn: int | None = None
    position: int = 0  # place in a parallel batch, from 0
    batch: int = 1  # calls in the batch
    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class UserSpoke:
    """A person said something: whatever the agent was stuck in, this is a new attempt."""

    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The agent's own loop knows of progress that no result shows: a plan step done, a goal reached."""

    indicator: str = "plan_step_completed"


@dataclass(frozen=True, slots=True)
class ToolRecommended:
    """The agent was told to use a tool."""

    tool_name: str


#: A recorded run replays its steps as they are.
Event = ToolInvoked | UserSpoke | ProgressMade | ToolRecommended | Step


@dataclass(slots=True)
class Session:
    """The smallest session there can be: it keeps what is dispatched and tells who listens."""

    events: list[object] = field(default_factory=list)
    listeners: list[Callable[[object], None]] = field(default_factory=list)

    def dispatch(self, event: object) -> None:
        """Record an event and pass it on."""
        self.events.append(event)
        for listener in self.listeners:
            listener(event)


def step_of(
    event: ToolInvoked,
    *,
    turn: int,
    before: str,
    indicators: Sequence[ProgressIndicator],
    poll_tools: frozenset[str],
) -> Step:
    """Reduce a call to facts and hashes.

    Args:
        event: the call and its result.
        turn: used where the event names none.
        before: text of the result before this call.
        indicators: signs of progress to look for in the result.
        poll_tools: names of tools that are meant to be repeated, beside the built-in ones.
    """
    arguments = canonical_arguments(event.params)
    result = event.result
    text = result.text if result else ""
    outcome = outcome_of(text, result.is_error) if result else CallOutcome.OK
    message = salient_line(text) if outcome is CallOutcome.ERROR else ""
    return Step(
        tool_name=event.tool_name[:MAX_NAME],
        arguments=digest(arguments),
        result_digest=digest(text) if result else "",
        result_length=len(text),
        outcome=outcome,
        signature=signature_of(message) if message else "",
        message=message,
        turn=turn if event.turn is None else event.turn,
        position=event.position,
        batch=event.batch,
        polling=event.tool_name in poll_tools or is_polling(event.tool_name, arguments),
        derived=comes_from(arguments, before),
        progress=progress_in(event.tool_name, text, indicators) if outcome is CallOutcome.OK else "",
        at=event.at,
    )
