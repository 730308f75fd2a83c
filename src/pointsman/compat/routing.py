"""The names of the founding document on classification and routing, over the orchestrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pointsman.capabilities import Capability, CapabilityRegistry, LocalScorer, SelectionPolicy, Selector
from pointsman.model_calls import ask_models
from pointsman.orchestrator import answer_batches
from pointsman.orchestrator import state as states
from pointsman.orchestrator.limits import DEFAULT_LIMITS, Limits
from pointsman.orchestrator.router import decide
from pointsman.upstreams.chat_model_port import ChatModel

__all__ = ["StateManager", "router_conditional_edge", "select_capabilities"]


class StateManager:
    """Readers and builders of ``AgentState``: the functions of ``pointsman.orchestrator.state``."""

    create_fresh_state = staticmethod(states.fresh_state)
    get_user_input = staticmethod(states.user_input)
    get_current_task = staticmethod(states.current_task)
    get_active_capabilities = staticmethod(states.active_capabilities)
    get_execution_plan = staticmethod(states.execution_plan)
    get_current_step_index = staticmethod(states.step_index)
    get_current_step = staticmethod(states.current_step)
    get_context = staticmethod(states.results_of)
    store_context = staticmethod(states.with_result)


def router_conditional_edge(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> str:
    """The next node alone, for frameworks whose edges only name one.

    A framework that discards what an edge writes must take counters from ``decide`` instead.
    """
    return decide(state, limits).next


async def select_capabilities(
    task: str,
    available_capabilities: Sequence[Capability],
    state: Mapping[str, Any],
    *,
    model: ChatModel | None = None,
    policy: SelectionPolicy | None = None,
) -> list[str]:
    """Select once. A run that selects often keeps a ``Selector`` instead.

    Args:
        task: what is to be done.
        available_capabilities: in registry order.
        state: an ``AgentState``; the reason for a reclassification and bypass are read from it.
        model: judges what is unsure; without one that is unavailable.
        policy: how to select.

    Raises:
        SelectionUnavailable: the policy says to raise and the model could not be asked.
    """
    registry = CapabilityRegistry(available_capabilities)
    selector = Selector(registry, LocalScorer(registry), policy)
    steps = selector.select(
        task,
        failure=str(state.get("control_reclassification_reason") or ""),
        bypass=bool(state.get("control_capability_bypass")) or None,
    )
    ask = ask_models({"": model} if model else {})
    selection = await answer_batches(steps, ask)
    return list(selection.selected)
