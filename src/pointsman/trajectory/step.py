"""A step: one tool call with hashes of its arguments and result, never their contents."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pointsman.text.extract import digest

__all__ = ["CallOutcome", "Step"]


class CallOutcome(StrEnum):
    """What came of a call, as far as stuckness is concerned."""

    OK = "ok"
    ERROR = "error"
    THROTTLED = "throttled"  # a rate limit or an overloaded server: nobody's mistake
    DECLINED = "declined"  # a person refused or interrupted the call


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One tool call. Small and made of plain values, because fifty of them live in a session's memory.

    The assistant's thinking is never part of a step.
    """

    tool_name: str
    arguments: str  # hash of the canonical arguments
    result: str  # hash of the result's text; "" when nothing came back
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

    def without_content(self) -> Step:
        """The step with its error as a hash: equal errors stay equal, and none can be read."""
        if not self.signature and not self.message:
            return self
        return msgspec.structs.replace(self, signature=digest(self.signature), message="")

    @property
    def is_error(self) -> bool:
        """True when the call failed and the failure is the agent's to solve."""
        return self.outcome is CallOutcome.ERROR

    @property
    def is_neutral(self) -> bool:
        """True when the call says nothing about the agent: throttled, or declined by a person."""
        return self.outcome is CallOutcome.THROTTLED or self.outcome is CallOutcome.DECLINED

    def same_call(self, other: Step) -> bool:
        """The same tool with the same arguments."""
        return self.arguments == other.arguments and self.tool_name == other.tool_name

    def same_result(self, other: Step) -> bool:
        """The same call, and it returned the same."""
        return self.result == other.result and self.same_call(other)
