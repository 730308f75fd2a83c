"""What classifiers and providers see, and the two protocols they follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from pointsman.trajectory import ToolInvoked, TrajectoryAnalysis
from pointsman.vocabulary import ModelQuery, ModelReply, ToolCall

# What a classifier answers: yes, no, or that it cannot tell.


class ClassificationResult(msgspec.Struct, frozen=True):
    """Whether guidance applies, how sure that is, and why.

    "No" and "cannot tell" are different answers: the opposite of a classifier that timed out is not yes.

    Raises:
        ValueError: ``confidence`` is not within 0 and 1.
    """

    relevant: bool
    confidence: float = 0.0  # 0 to 1
    reason: str | None = None
    metadata: Mapping[str, Any] = {}
    abstained: bool = False
    query: ModelQuery | None = None  # an abstention that a model's answer to this would end

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence must be within 0 and 1, not {self.confidence}")

    @classmethod
    def yes(
        cls, confidence: float = 1.0, reason: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> ClassificationResult:
        """Guidance applies."""
        return cls(relevant=True, confidence=confidence, reason=reason, metadata=metadata or {})

    @classmethod
    def maybe(
        cls, confidence: float = 0.5, reason: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> ClassificationResult:
        """Guidance applies if the threshold allows so low a confidence."""
        return cls(relevant=True, confidence=confidence, reason=reason, metadata=metadata or {})

    @classmethod
    def no(cls) -> ClassificationResult:
        """Guidance does not apply."""
        return NO

    @classmethod
    def abstain(cls, reason: str, *, query: ModelQuery | None = None) -> ClassificationResult:
        """Nothing can be said: something failed, is missing, or has to be asked first."""
        return cls(relevant=False, reason=reason, abstained=True, query=query)


NO: Final = ClassificationResult(relevant=False)


class DecisionPoint(StrEnum):
    """Where in an agent's turn guidance can be given."""

    PRE_RENDER = "pre_render"  # before the prompt is put together
    PRE_TOOL_SELECTION = "pre_tool_selection"  # before the model chooses its next calls
    PRE_TOOL_EXECUTION = "pre_tool_execution"  # the calls are known and have not run
    POST_TOOL_RESULT = "post_tool_result"
    PRE_RESPONSE = "pre_response"  # before the final answer is put together
    DONE = "done"  # the agent has ended its work on a message with an answer


class EventSink(Protocol):
    """A session that is notified of deliveries."""

    def dispatch(self, event: object, /) -> None:
        """Take one event."""


@dataclass(frozen=True, slots=True)
class GuidanceContext:
    """One moment of an agent's run. All but the first two fields may be left out."""

    session: EventSink | None
    trajectory: TrajectoryAnalysis
    prompt: object = None
    rendered_prompt: str = ""
    pending_tool_calls: tuple[ToolCall | ToolInvoked, ...] = ()
    last_response: str = ""
    turn_count: int = -1  # -1: what the trajectory counted
    tool_call_count: int = -1  # -1: what the trajectory counted
    answers: Mapping[ModelQuery, ModelReply] = field(
        default_factory=dict
    )  # what models answered for this moment

    def __post_init__(self) -> None:
        counted = self.trajectory.state
        if self.turn_count < 0:
            object.__setattr__(self, "turn_count", counted.turn_count)
        if self.tool_call_count < 0:
            object.__setattr__(self, "tool_call_count", counted.tool_call_count)


class GuidanceClassifier(Protocol):
    """Decides whether guidance applies at a moment. Pure and quick; it may raise, and then abstains."""

    @property
    def name(self) -> str:
        """Name shown in reasons; need not be unique."""

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""


def name_of(classifier: GuidanceClassifier) -> str:
    """The name of a classifier that has failed: it may not even have one."""
    try:
        return str(classifier.name)
    except Exception:  # noqa: BLE001 - fail open: the failure that is told of is another one
        return type(classifier).__name__


def judge(classifier: GuidanceClassifier, context: GuidanceContext) -> ClassificationResult:
    """Ask a classifier; one that raises abstains."""
    try:
        return classifier.classify(context)
    except Exception as error:  # noqa: BLE001 - fail open: anyone's classifier, never the request's problem
        return ClassificationResult.abstain(f"{name_of(classifier)} failed: {type(error).__name__}")


def latest_turn_calls(context: GuidanceContext) -> int:
    """How many calls the latest turn made; at least one."""
    steps = context.trajectory.state.steps
    count = 1
    while count < len(steps) and steps[-count - 1].turn == steps[-1].turn:
        count += 1
    return count
