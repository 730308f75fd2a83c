"""A LangGraph 1.x graph around the router. Extra: ``langgraph``.

LangGraph discards the writes of an edge function, so the router is a node: it returns ``Command(update,
goto)``, and counters and route are committed together. A step that needs approval stops in ``interrupt`` and
resumes with ``Command(resume=…)``, in another process if need be. The state holds plain JSON values only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pointsman.errors import MissingExtra
from pointsman.model_calls import MAX_PARALLEL
from pointsman.orchestrator import Application, CapabilityNode, Node
from pointsman.orchestrator._driver import run_node
from pointsman.orchestrator.machine import END, AgentState, decide, start_turn
from pointsman.orchestrator.progress import (
    Recorder,
    Refusal,
    missing,
    new_run,
    refused,
    waited,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
from pointsman.orchestrator.state import current_step

__all__ = ["build_graph", "new_turn"]

#: Supersteps of one move: the router and the node.
_SUPERSTEPS_PER_MOVE: Final = 2


def new_turn(said: str, previous: Mapping[str, Any] | None = None, *, session: str = "") -> AgentState:
    """The input of one turn: every key of the last turn is set anew, messages and results are preserved.

    Args:
        said: the user's message.
        previous: the last state of the conversation.
        session: of the run in the ledger; default: that of ``previous``, the graph's ``thread_id``, or
            the run's id.
    """
    state = start_turn(said, previous)
    state["control_run_id"] = new_run()
    state["control_session_id"] = session or state.get("control_session_id") or ""
    return state


def build_graph(
    application: Application,
    *,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build and compile the graph of an application.

    Stream it with ``stream_mode="custom"`` for one event per move: ``{"next", "reason", "delay"}``.

    Args:
        application: what to run.
        checkpointer: stores the state between supersteps; needed for approval.
        sleep: waits before a retry, inside the router's node and without blocking the loop.

    Raises:
        MissingExtra: LangGraph is not installed.
    """
    graph_module = _langgraph("langgraph.graph")
    nodes = application.nodes()
    graph = graph_module.StateGraph(AgentState)
    recorder = Recorder(application.ledger)
    graph.add_node("router", _router(application, recorder, sleep))
    for name, node in nodes.items():
        graph.add_node(name, _worker(node, application, recorder))
    graph.add_edge(graph_module.START, "router")
    compiled: CompiledStateGraph[Any, Any, Any, Any] = graph.compile(checkpointer=checkpointer)
    return compiled.with_config(
        {
            "max_concurrency": MAX_PARALLEL,
            # Beyond every bound of ours, so that the router ends a run and LangGraph never has to.
            "recursion_limit": _SUPERSTEPS_PER_MOVE * (application.limits.max_steps + 2),
        }
    )


def _router(
    application: Application, recorder: Recorder, sleep: Callable[[float], Awaitable[None]]
) -> Callable[..., Any]:
    types = _langgraph("langgraph.types")
    config = _langgraph("langgraph.config")
    known = {*application.nodes(), END}

    async def router(state: AgentState) -> Any:
        begun: dict[str, Any] = dict(state)
        if not (begun.get("control_run_id") and begun.get("control_session_id")):
            begun |= recorder.begin(begun, _thread(config.get_config()))
        move = decide(begun, application.limits)
        begun |= recorder.move(begun, move)
        while move.next not in known:  # every round costs a plan, and plans are bounded
            begun |= move.update
            begun |= recorder.refusal(begun, move.next, Refusal.MISSING)
            begun |= missing(begun, move.next)
            move = decide(begun, application.limits)
            begun |= recorder.move(begun, move)
        config.get_stream_writer()({"next": move.next, "reason": move.reason.detail, "delay": move.delay})
        if move.delay:
            await sleep(move.delay)
        begun |= {**waited(begun, move.delay), **move.update}
        return types.Command(update=_changed(state, begun), goto=move.next)

    return router


def _thread(config: Mapping[str, Any]) -> str:
    """The conversation stored by a checkpointer; empty without one."""
    return str((config.get("configurable") or {}).get("thread_id") or "")


def _worker(node: Node, application: Application, recorder: Recorder) -> Callable[..., Any]:
    types = _langgraph("langgraph.types")

    async def work(state: AgentState) -> Any:
        if isinstance(node, CapabilityNode) and node.capability.needs_approval:
            # Outside any ``except``: LangGraph stops a run here by raising.
            question = {"capability": node.name, "step": current_step(state)}
            if not types.interrupt(question):
                kept = recorder.refusal(state, node.name, Refusal.PERSON)
                return types.Command(update={**refused(state, node.name), **kept}, goto="router")
        update = await run_node(node, state, application.limits)
        return types.Command(update={**update, **recorder.ran(state, node.name, update)}, goto="router")

    return work


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The update that makes ``after`` of ``before``: a key with a reducer must not be written back."""
    return {key: value for key, value in after.items() if before.get(key, _ABSENT) != value}


_ABSENT: Final = object()


def _langgraph(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra("langgraph", needed_for="the LangGraph integration") from error
