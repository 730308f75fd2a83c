"""Events of an agent's run, for programs with a custom loop.

The gateway makes these from a request's history; a library user dispatches them directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from pointsman.text.extract import digest
from pointsman.trajectory._arguments import canonical_arguments, comes_from, is_polling
from pointsman.trajectory._failures import outcome_of, salient_line, signature_of
from pointsman.trajectory._progress import ProgressIndicator, progress_in
from pointsman.trajectory.state import TrajectoryState
from pointsman.trajectory.step import CallOutcome, Step
from pointsman.vocabulary import ToolResult

#: Characters of a tool's name that are kept; providers allow 64 to 128.
MAX_NAME: Final = 128
#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_OK: Final = CallOutcome.OK
_ERROR: Final = CallOutcome.ERROR


class ToolInvoked(msgspec.Struct, frozen=True):
    """A tool was called and answered. ``turn`` None: a separate turn, after the one before."""

    tool_name: str
    params: str | Mapping[str, object] = ""  # JSON text as the model wrote it, or the decoded object
    result: ToolResult | None = None
    turn: int | None = None
    position: int = 0  # place in a parallel batch, from 0
    batch: int = 1  # calls in the batch
    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class UserSpoke:
    """A user message: a new attempt, which ends any earlier loop."""

    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The agent's own loop knows of progress that no result shows: a plan step done, a goal reached."""

    indicator: str = "plan_step_completed"


@dataclass(frozen=True, slots=True)
class ToolRecommended:
    """The agent was instructed to use a tool."""

    tool_name: str


#: A recorded run replays its steps as they are.
Event = ToolInvoked | UserSpoke | ProgressMade | ToolRecommended | Step


@dataclass(slots=True)
class Session:
    """The smallest session there can be: it stores dispatched events and notifies listeners."""

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
        poll_tools: names of tools that may be repeated, in addition to the built-in ones.
    """
    arguments, name, result = canonical_arguments(event.params), event.tool_name, event.result
    text = message = signature = progress = ""
    outcome = _OK
    if result:
        text = result.text
        outcome = outcome_of(text, result.is_error)
    if outcome is _OK:
        progress = progress_in(name, text, indicators)
    elif outcome is _ERROR:
        message = salient_line(text)
        signature = signature_of(message) if message else ""
    return Step(
        name[:MAX_NAME],
        digest(arguments),
        digest(text) if result else "",
        len(text),
        outcome,
        signature,
        message,
        turn if event.turn is None else event.turn,
        event.position,
        event.batch,
        polling=name in poll_tools or is_polling(name, arguments),
        derived=comes_from(arguments, before),
        progress=progress,
        at=event.at,
    )


# What a detector reads of a run. ``TrajectoryAnalysis`` offers it and more.


class Run(Protocol):
    """A run up to its latest event, as the detectors of this package read it.

    Below the analysis, so that the detectors do not import the analysis that runs them.
    """

    @property
    def state(self) -> TrajectoryState:
        """The window of steps and the counters over the whole run."""
        ...

    @property
    def attempt(self) -> tuple[Step, ...]:
        """Steps since a person last spoke, oldest first, without throttled and declined ones."""
        ...
