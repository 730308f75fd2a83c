"""The state of a trajectory: a window of steps and a few counters, in plain values."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from pointsman.trajectory.step import CallOutcome, Step

__all__ = ["WINDOW", "TrajectoryState", "after_progress", "after_recommendation", "after_step", "after_user"]

#: Steps kept: ten cycles of five calls. Source: docs/reference/guidance.md, "Trajectory".
WINDOW: Final = 50

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_OK: Final = CallOutcome.OK
_ERROR: Final = CallOutcome.ERROR
_result_digest: Final = attrgetter("result_digest")


class TrajectoryState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A run so far. Stored with the session, so small: the window, and counters over the whole run."""

    steps: tuple[Step, ...] = ()
    turn_count: int = 0
    tool_call_count: int = 0
    error_count: int = 0
    consecutive_errors: int = 0
    attempt: int = 0  # calls since a person last spoke
    stalled: int = 0  # calls since anything new, since a person last spoke
    progress_at: float = 0.0  # time of the last progress, in seconds since the epoch
    started_at: float = 0.0
    latest_at: float = 0.0
    user_spoke: bool = False  # a person spoke after the last step
    neutral: int = 0  # number of the latest call that was throttled or declined; 0: none
    recommended: str = ""  # a tool the agent was told to use and has not used
    alternatives: int = 0  # calls of other tools since


def after_user(state: TrajectoryState, at: float) -> TrajectoryState:
    """A person spoke: streaks end here."""
    return msgspec.structs.replace(
        state,
        consecutive_errors=0,
        attempt=0,
        stalled=0,
        progress_at=at or state.progress_at,
        started_at=state.started_at or at,
        latest_at=max(at, state.latest_at),
        user_spoke=True,
    )


def after_progress(state: TrajectoryState) -> TrajectoryState:
    """The agent's loop reported progress."""
    return msgspec.structs.replace(state, stalled=0, progress_at=state.latest_at)


def after_recommendation(state: TrajectoryState, tool_name: str) -> TrajectoryState:
    """The agent was instructed to use a tool."""
    return msgspec.structs.replace(state, recommended=tool_name, alternatives=0)


def after_step(state: TrajectoryState, step: Step, window: int) -> TrajectoryState:
    """A call and its result. Counters that describe a streak leave neutral calls out."""
    if state.user_spoke:
        step = msgspec.structs.replace(step, user_boundary=True)
    new = failed = neutral = False
    outcome, calls, at, streak = step.outcome, state.tool_call_count + 1, step.at, 0
    if outcome is _OK:
        new = _is_new(state, step)
    elif outcome is _ERROR:
        failed, streak = True, state.consecutive_errors + 1
    else:  # it says nothing about the agent
        neutral, streak = True, state.consecutive_errors
    waiting = neutral or (step.polling and not failed)
    recommended, alternatives = state.recommended, 0
    if recommended:
        avoided = step.tool_name != recommended
        recommended, alternatives = (recommended, state.alternatives + 1) if avoided else ("", 0)
    steps = state.steps
    # Without keywords, which cost a third of it: in the order of the fields.
    return TrajectoryState(
        ((*steps, step) if len(steps) < window else (*steps[1 - window :], step) if window > 1 else (step,)),
        max(state.turn_count, step.turn),
        calls,
        state.error_count + failed,
        streak,
        state.attempt + 1,
        0 if new else state.stalled + (not waiting),
        at if new and at else state.progress_at,
        state.started_at or at,
        max(at, state.latest_at),
        user_spoke=False,
        neutral=calls if neutral else state.neutral,
        recommended=recommended,
        alternatives=alternatives,
    )


def _is_new(state: TrajectoryState, step: Step) -> bool:
    """Whether a successful call is progress: a sign in the text, or not seen with this result before."""
    if step.progress:
        return True
    result = step.result_digest
    if result not in map(_result_digest, state.steps):  # of every call: kept as cheap as Python lets it be
        return True
    return not [old for old in state.steps if old.result_digest == result and old.same_call(step)]
