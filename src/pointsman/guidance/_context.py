"""What classifiers and providers see, and the two protocols they follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pointsman.guidance._results import ClassificationResult
from pointsman.trajectory import ToolInvoked, TrajectoryAnalysis
from pointsman.vocabulary import ModelQuery, ModelReply, ToolCall

__all__ = ["DecisionPoint", "EventSink", "GuidanceClassifier", "GuidanceContext", "latest_turn_calls"]


class DecisionPoint(StrEnum):
    """Where in an agent's turn guidance can be given."""

    PRE_RENDER = "pre_render"  # before the prompt is put together
    PRE_TOOL_SELECTION = "pre_tool_selection"  # before the model chooses its next calls
    PRE_TOOL_EXECUTION = "pre_tool_execution"  # the calls are known and have not run
    POST_TOOL_RESULT = "post_tool_result"
    PRE_RESPONSE = "pre_response"  # before the final answer is put together
    DONE = "done"  # the agent has ended its work on a message with an answer


class EventSink(Protocol):
    """A session that wants to hear what was delivered."""

    def dispatch(self, event: object, /) -> None:
        """Take one event."""
        ...


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
        if self.turn_count < 0:
            object.__setattr__(self, "turn_count", self.trajectory.turn_count)
        if self.tool_call_count < 0:
            object.__setattr__(self, "tool_call_count", self.trajectory.tool_call_count)


class GuidanceClassifier(Protocol):
    """Says whether guidance applies at a moment. Pure and quick; it may raise, and then abstains."""

    @property
    def name(self) -> str:
        """Name shown in reasons; need not be unique."""
        ...

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        ...


def latest_turn_calls(context: GuidanceContext) -> int:
    """How many calls the latest turn made; at least one."""
    steps = context.trajectory.state.steps
    count = 1
    while count < len(steps) and steps[-count - 1].turn == steps[-1].turn:
        count += 1
    return count
