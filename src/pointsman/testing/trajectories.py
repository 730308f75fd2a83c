"""Builders of trajectories and of contexts, for tests of classifiers and providers."""

from __future__ import annotations

from pointsman.guidance import GuidanceContext
from pointsman.trajectory import (
    Event,
    Session,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
)
from pointsman.vocabulary import ToolCall

__all__ = ["build_context", "build_context_with_errors", "build_trajectory"]


def build_trajectory(*events: Event, config: TrajectoryAnalysisConfig | None = None) -> TrajectoryAnalysis:
    """Return the run after some events.

    Args:
        events: What happened, oldest first: ``ToolInvoked``, ``UserSpoke``, ``ProgressMade``, ...
        config: Thresholds, detectors and indicators; by default the built-in ones.
    """
    builder = TrajectoryBuilder.from_config(config or TrajectoryAnalysisConfig())
    for event in events:
        builder.on_event(event)
    return builder.build()


def build_context(
    *events: Event,
    config: TrajectoryAnalysisConfig | None = None,
    pending: tuple[ToolCall | ToolInvoked, ...] = (),
    prompt: object = None,
    last_response: str = "",
) -> GuidanceContext:
    """Return the moment after some events, in a session that has seen them.

    Args:
        events: What happened, oldest first.
        config: As for ``build_trajectory``.
        pending: Calls that the model has made and that have not run.
        prompt: What the agent is about to be sent.
        last_response: What the model said last.
    """
    return GuidanceContext(
        session=Session(events=list(events)),
        trajectory=build_trajectory(*events, config=config),
        prompt=prompt,
        pending_tool_calls=pending,
        last_response=last_response,
    )


def build_context_with_errors(count: int, *, tool: str = "test") -> GuidanceContext:
    """Return the moment after ``count`` failed calls of a tool, each with another argument and error."""
    return build_context(
        *(ToolInvoked(tool, {"attempt": n}, ToolResult.error(f"failure {n}")) for n in range(count))
    )
