"""The state of a run: plain JSON values, so that any checkpointer can store it.

Source of the keys: docs/sources/classification-and-routing.md, "Classification architecture".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

__all__ = [
    "END",
    "INFRASTRUCTURE",
    "TERMINAL",
    "AgentState",
    "active_capabilities",
    "current_step",
    "current_task",
    "execution_plan",
    "fresh_state",
    "results_of",
    "step_index",
    "user_input",
    "with_result",
]

#: Where a run stops. LangGraph's own name, so that its adapter need not translate.
END: Final = "__end__"
#: Nodes after which a run has nothing left to do.
TERMINAL: Final = ("respond", "clarify", "error")
#: Nodes that are not capabilities.
INFRASTRUCTURE: Final = ("task_extraction", "classifier", "orchestrator", *TERMINAL)


class AgentState(TypedDict, total=False):
    """Everything the router and the nodes read and write. Absent keys mean "not yet"."""

    # what the person said, oldest first: [{"role": "user", "content": "…"}]
    messages: list[dict[str, str]]

    task_current_task: str | None
    # None: not selected yet. []: selected, and nothing applies.
    planning_active_capabilities: list[str] | None
    # why the selection is not a judgement: "unavailable: timeout"; "" when it is one
    planning_selection_abstained: str
    # how it came about: {"scores": {name: probability}, "asked_model": [name], "reasons": [text]}
    planning_selection_grounds: dict[str, Any]
    # as ``check_plan`` returns it
    planning_execution_plan: dict[str, Any] | None
    planning_current_step_index: int

    control_has_error: bool
    # {"capability_name", "classification": {"severity", "user_message", "technical_details"}}
    control_error_info: dict[str, Any] | None
    control_retry_count: int
    control_needs_reclassification: bool
    control_reclassification_reason: str | None
    control_reclassification_count: int
    control_replanning_reason: str | None
    control_plans_created_count: int
    control_is_killed: bool
    control_kill_reason: str
    control_direct_chat: bool  # answer without tasks or capabilities: "/chat"
    control_capability_bypass: bool  # all capabilities, unjudged: "/caps:off"
    control_task_bypass: bool  # the user's words are the task: "/task:off"
    control_steps_taken_count: int
    control_elapsed_seconds: float  # work and waiting so far
    control_current_node: str  # the node the router chose last
    control_outcome: str  # the terminal node that finished the run
    control_run_id: str  # the run in the ledger
    control_session_id: str  # whose runs and decisions belong together there
    control_entries_count: int  # entries of the run in the ledger so far

    # by context key: {"capability": who made it, "value": what}
    capability_context_data: dict[str, Any]
    # what was run, for guidance: {"capability", "objective", "inputs", "result"}, oldest first
    capability_steps: list[dict[str, Any]]
    session_commands: dict[str, bool]  # commands that stay: {"caps": false}
    # the final text for the person
    response: str


_NEW_TURN: Final = AgentState(
    task_current_task=None,
    planning_active_capabilities=None,
    planning_selection_abstained="",
    planning_selection_grounds={},
    planning_execution_plan=None,
    planning_current_step_index=0,
    control_has_error=False,
    control_error_info=None,
    control_retry_count=0,
    control_needs_reclassification=False,
    control_reclassification_reason=None,
    control_reclassification_count=0,
    control_replanning_reason=None,
    control_plans_created_count=0,
    control_is_killed=False,
    control_kill_reason="",
    control_direct_chat=False,
    control_capability_bypass=False,
    control_task_bypass=False,
    control_steps_taken_count=0,
    control_elapsed_seconds=0.0,
    control_current_node="",
    control_outcome="",
    control_run_id="",
    control_entries_count=0,
    capability_steps=[],
    response="",
)


def fresh_state(said: str, previous: Mapping[str, Any] | None = None) -> AgentState:
    """The state of a new turn.

    Messages and results of earlier turns are preserved. Every other key is set, not left out: a checkpointer
    merges a new turn into the old state, and last turn's error must not be met again.
    """
    earlier = previous or {}
    return AgentState(
        messages=[*(earlier.get("messages") or []), {"role": "user", "content": said}],
        capability_context_data=results_of(earlier),
        control_session_id=str(earlier.get("control_session_id") or ""),
        **_NEW_TURN,
    )


def user_input(state: Mapping[str, Any]) -> str:
    """The person's latest words; empty when there are none."""
    for message in reversed(state.get("messages") or []):
        if message.get("role") == "user":
            return str(message.get("content", ""))
    return ""


def current_task(state: Mapping[str, Any]) -> str | None:
    """The extracted task, or None."""
    return state.get("task_current_task") or None


def active_capabilities(state: Mapping[str, Any]) -> list[str] | None:
    """Names selected for the task; None before the selection, ``[]`` when nothing applies."""
    names = state.get("planning_active_capabilities")
    return None if names is None else list(names)


def execution_plan(state: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The plan's steps; None without a plan or with something that is not one."""
    plan = state.get("planning_execution_plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else plan
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        return None
    return steps


def step_index(state: Mapping[str, Any]) -> int:
    """Position of the next step, from 0."""
    return int(state.get("planning_current_step_index") or 0)


def current_step(state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The next step; None when the plan is absent or used up."""
    steps = execution_plan(state) or []
    index = step_index(state)
    return steps[index] if 0 <= index < len(steps) else None


def results_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Results of the steps done so far, by context key."""
    return dict(state.get("capability_context_data") or {})


def with_result(state: Mapping[str, Any], key: str, capability: str, value: Any) -> dict[str, Any]:
    """The update that adds one result; ``value`` must be JSON values."""
    entry = {"capability": capability, "value": value}
    return {"capability_context_data": {**results_of(state), key: entry}}
