"""A step: one tool call with hashes of its arguments and result, never their contents."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from pointsman.text.extract import digest

__all__ = ["UNNAMED", "Action", "CallOutcome", "Step", "StepResult"]


class CallOutcome(StrEnum):
    """Result of a call, for the detection of stuck agents."""

    OK = "ok"
    ERROR = "error"
    THROTTLED = "throttled"  # a rate limit or an overloaded server: nobody's mistake
    DECLINED = "declined"  # a person refused or interrupted the call


#: What ``digest`` returns.
_DIGEST: Final = re.compile("[0-9a-f]{16}")
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
        return self.signature if is_key else digest(self.signature)

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
