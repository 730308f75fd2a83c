"""The state of a trajectory: a window of steps and a few counters, in plain values."""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.trajectory.step import CallOutcome, Step

__all__ = ["WINDOW", "TrajectoryState", "after_progress", "after_recommendation", "after_step", "after_user"]

#: Steps kept: ten cycles of five calls. Source: docs/reference/guidance.md, "Trajectory".
WINDOW: Final = 50


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
    """The agent was told to use a tool."""
    return msgspec.structs.replace(state, recommended=tool_name, alternatives=0)


def after_step(state: TrajectoryState, step: Step, window: int) -> TrajectoryState:
    """A call and its result. Counters that describe a streak leave neutral calls out."""
    if state.user_spoke:
        step = msgspec.structs.replace(step, user_boundary=True)
    new = _is_new(state, step)
    neutral = step.is_neutral
    waiting = neutral or (step.polling and not step.is_error)
    calls = state.tool_call_count + 1
    avoided = bool(state.recommended) and step.tool_name != state.recommended
    return TrajectoryState(
        steps=(*state.steps[1 - window :], step) if window > 1 else (step,),
        turn_count=max(state.turn_count, step.turn),
        tool_call_count=calls,
        error_count=state.error_count + step.is_error,
        consecutive_errors=state.consecutive_errors if neutral else _streak(state.consecutive_errors, step),
        attempt=state.attempt + 1,
        stalled=0 if new else state.stalled + (not waiting),
        progress_at=step.at if new and step.at else state.progress_at,
        started_at=state.started_at or step.at,
        latest_at=max(step.at, state.latest_at),
        neutral=calls if neutral else state.neutral,
        recommended=state.recommended if avoided else "",
        alternatives=state.alternatives + 1 if avoided else 0,
    )


def _streak(length: int, step: Step) -> int:
    return length + 1 if step.is_error else 0


def _is_new(state: TrajectoryState, step: Step) -> bool:
    """Progress: a sign in the text, or a successful call not seen with this result before."""
    if step.outcome is not CallOutcome.OK:
        return False
    if step.progress:
        return True
    result = step.result_digest  # a loop over the window on every call: kept as cheap as Python lets it be
    return not [old for old in state.steps if old.result_digest == result and old.same_call(step)]
