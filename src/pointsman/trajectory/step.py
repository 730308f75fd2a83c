"""Steps of a run, and the state that they add up to, in plain values.

A step is one tool call with hashes of its arguments and result, never their contents.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from pointsman.text.extract import digest

__all__ = [
    "UNNAMED",
    "WINDOW",
    "Action",
    "CallOutcome",
    "Step",
    "StepResult",
    "TrajectoryState",
    "after_progress",
    "after_recommendation",
    "after_step",
    "after_user",
]


class CallOutcome(StrEnum):
    """Result of a call, for the detection of stuck agents."""

    OK = "ok"
    ERROR = "error"
    THROTTLED = "throttled"  # a rate limit or an overloaded server: nobody's mistake
    DECLINED = "declined"  # a person refused or interrupted the call


#: What ``digest`` returns.
_DIGEST: Final = re.compile("[0-9a-f]{16}")
#: By signature: a stuck agent meets one error over and over, and each request compares it anew.
_key_of: Final = lru_cache(256)(digest)
#: Stands for every character of a result that is not kept.
_NOT_KEPT: Final = "*"


class Action(StrEnum):
    """Effect of a call, for outcomes."""

    EDIT = "edit"
    PROSE = "prose"  # an edit that no test can notice: of documentation, or of comments alone
    TEST = "test"  # a test runner
    RUN = "run"  # another program, which shows whether something works
    COMMIT = "commit"
    OTHER = "other"


#: A test run that failed and names no test.
UNNAMED: Final = ""


class StepResult(msgspec.Struct, frozen=True, gc=False):
    """A step's result, for classifiers written as the source writes them.

    Source of the names: docs/sources/guidance-classifiers.md, "Content-based classifiers".
    """

    kept: str  # the error's salient line; "" for a success
    length: int  # characters of the result
    is_error: bool

    @property
    def message(self) -> str:
        """A text as long as the result: the stored part, then asterisks for the rest."""
        return self.kept.ljust(self.length, _NOT_KEPT)


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One tool call. Small and made of plain values, because fifty of them live in a session's memory.

    The assistant's thinking is never part of a step.
    """

    tool_name: str
    arguments: str  # hash of the canonical arguments
    result_digest: str  # hash of the result's text; "" when nothing came back
    result_length: int  # characters
    outcome: CallOutcome = CallOutcome.OK
    signature: str = ""  # normalised error; "" unless ``outcome`` is an error
    message: str = ""  # the error's salient line, cut; "" unless ``outcome`` is an error
    turn: int = 0  # number of the assistant's turn, from 1
    position: int = 0  # place in a parallel batch, from 0
    batch: int = 1  # calls in the batch
    user_boundary: bool = False  # a person spoke right before this call
    polling: bool = False  # a call that is meant to be repeated until something changes
    derived: bool = False  # an argument was in the result before it: the call could not have come earlier
    progress: str = ""  # the progress indicator its result shows, if any
    at: float = 0.0  # seconds since the epoch; 0 when unknown
    #: Its ``Action``, then digests of the tests that failed, ``UNNAMED`` for one without a name. Empty where
    #: nobody asks for it.
    did: tuple[str, ...] = ()

    def without_content(self) -> Step:
        """The step with its error as a hash: equal errors stay equal, and none can be read."""
        if not self.signature and not self.message:
            return self
        return msgspec.structs.replace(self, signature=self.error_key, message="")

    @property
    def error_key(self) -> str:
        """What equal errors have in common: with the error's text and without it, it is the same."""
        is_key = not self.signature or (not self.message and _DIGEST.fullmatch(self.signature))
        return self.signature if is_key else _key_of(self.signature)

    def same_error(self, other: Step) -> bool:
        """The same error, or neither has one; a digest is made only where one of them holds no text."""
        if bool(self.message) == bool(other.message) and self.signature == other.signature:
            return True
        return self.error_key == other.error_key

    @property
    def result(self) -> StepResult | None:
        """The result for classifiers that read one, as far as it is known; None when nothing came back."""
        return StepResult(self.message, self.result_length, self.is_error) if self.result_digest else None

    @property
    def is_error(self) -> bool:
        """True when the call failed and the failure is the agent's to solve."""
        return self.outcome is CallOutcome.ERROR

    @property
    def is_neutral(self) -> bool:
        """True when the call gives no information about the agent: throttled, or declined by a person."""
        return self.outcome is CallOutcome.THROTTLED or self.outcome is CallOutcome.DECLINED

    def same_call(self, other: Step) -> bool:
        """The same tool with the same arguments."""
        return self.arguments == other.arguments and self.tool_name == other.tool_name

    def same_result(self, other: Step) -> bool:
        """The same call, and it returned the same."""
        return self.result_digest == other.result_digest and self.same_call(other)


# The state of a trajectory: a window of steps and a few counters, in plain values.


#: Steps kept: ten cycles of five calls. Source: docs/reference/guidance.md, "Trajectory".
WINDOW: Final = 50

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
OK: Final = CallOutcome.OK
ERROR: Final = CallOutcome.ERROR
result_digest_of: Final = attrgetter("result_digest")


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
    if outcome is OK:
        new = _is_new(state, step)
    elif outcome is ERROR:
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
    if result not in map(result_digest_of, state.steps):  # of every call: kept as cheap as Python lets it be
        return True
    return not [old for old in state.steps if old.result_digest == result and old.same_call(step)]
