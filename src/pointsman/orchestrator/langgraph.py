"""A LangGraph 1.x graph around the router. Extra: ``langgraph``.

LangGraph discards the writes of an edge function, so the router is a node: it returns ``Command(update,
goto)``, and counters and route are committed together. Capabilities are judged in parallel with ``Send``; a
step that needs approval stops in ``interrupt`` and resumes with ``Command(resume=…)``, in another process
if need be. The state holds plain JSON values only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import to_builtins

from pointsman.drivers import advance, drive
from pointsman.errors import MissingExtra
from pointsman.model_calls import MAX_PARALLEL
from pointsman.orchestrator import Application, CapabilityNode, ClassificationNode, Node
from pointsman.orchestrator._driver import run_node
from pointsman.orchestrator.machine import END, AgentState, decide, start_turn
from pointsman.orchestrator.progress import (
    Recorder,
    Refusal,
    failed,
    missing,
    new_run,
    refused,
    succeeded,
    waited,
)
from pointsman.vocabulary import ModelQuery, ModelReply

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
from pointsman.orchestrator.state import current_step

__all__ = ["build_graph", "new_turn"]

#: Supersteps of one move: the router and the node, and for the classifier its questions and their reading.
_SUPERSTEPS_PER_MOVE: Final = 4


def _gather(kept: Sequence[Any] | None, new: Sequence[Any] | None) -> list[Any]:
    """Reducer of parallel judgements; None empties the list for the next selection."""
    return [] if new is None else [*(kept or ()), *new]


class GraphState(AgentState, total=False):
    """The run's state, and the judgements of the selection in progress."""

    # {"at": position of the question, "text", "error"}
    selection_judgements: Annotated[list[dict[str, Any]] | None, _gather]


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
    graph = graph_module.StateGraph(GraphState)
    recorder = Recorder(application.ledger)
    graph.add_node("router", _router(application, recorder, sleep))
    for name, node in nodes.items():
        if not isinstance(node, ClassificationNode):
            graph.add_node(name, _worker(node, application, recorder))
    _add_classifier(graph, nodes["classifier"], recorder)
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

    async def router(state: GraphState) -> Any:
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

    async def work(state: GraphState) -> Any:
        if isinstance(node, CapabilityNode) and node.capability.needs_approval:
            # Outside any ``except``: LangGraph stops a run here by raising.
            question = {"capability": node.name, "step": current_step(state)}
            if not types.interrupt(question):
                kept = recorder.refusal(state, node.name, Refusal.PERSON)
                return types.Command(update={**refused(state, node.name), **kept}, goto="router")
        return types.Command(update=await run_node(node, state, application.limits), goto="router")

    return work


def _add_classifier(graph: Any, node: Node, recorder: Recorder) -> None:
    """The classifier as three nodes: ask, judge in parallel, read.

    A generator cannot be stored in a checkpoint. A selection is deterministic, so it is begun again to be
    sent its answers, and yields the same questions.
    """
    assert isinstance(node, ClassificationNode)  # noqa: S101 - an application's own node
    types = _langgraph("langgraph.types")

    def fail(state: GraphState, error: Exception, seconds: float) -> AgentState:
        return failed(state, node.name, node.classify_error(error, {"node": node.name}), seconds)

    async def classifier(state: GraphState) -> Any:
        try:
            moved = advance(node.steps(state))
        except Exception as error:  # noqa: BLE001 - any failure of a node becomes a move of the router
            return types.Command(update=fail(state, error, 0.0), goto="router")
        if moved[0]:  # nothing to ask
            update = succeeded(state, node.name, node.result(moved[1]), 0.0)
            update |= recorder.ran(state, node.name, update)
            return types.Command(update=update, goto="router")
        ids = {key: state.get(key) for key in ("control_run_id", "control_session_id")}
        sends = [
            types.Send("judge", {"at": at, "need": to_builtins(need), **ids})
            for at, need in enumerate(moved[1])
        ]
        return types.Command(update={"selection_judgements": None}, goto=sends)

    async def scorer(question: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await node.ask(question)(ModelQuery(**question["need"]))
        except Exception as error:  # noqa: BLE001 - a model that raises what it may not is unavailable
            answer = ModelReply(error=type(error).__name__)
        found = {"at": question["at"], "text": answer.text, "error": answer.error, "ms": answer.elapsed_ms}
        return {"selection_judgements": [found]}

    async def read_judgements(state: GraphState) -> Any:
        judgements = sorted(state.get("selection_judgements") or [], key=lambda each: int(each["at"]))
        answers = [ModelReply(each["text"], each["error"]) for each in judgements]
        # They ran side by side, at most five at once; the longest is what the deadline lost at least.
        seconds = max((each["ms"] for each in judgements), default=0.0) / 1e3
        try:
            selection = drive(node.steps(state), lambda _: answers)  # it asks at most once
        except Exception as error:  # noqa: BLE001 - any failure of a node becomes a move of the router
            return types.Command(update=fail(state, error, seconds), goto="router")
        update = succeeded(state, node.name, node.result(selection), seconds)
        update |= recorder.ran(state, node.name, update)
        return types.Command(update=update | {"selection_judgements": None}, goto="router")

    graph.add_node("classifier", classifier)
    graph.add_node("judge", scorer)
    graph.add_node("read_judgements", read_judgements)
    graph.add_edge("judge", "read_judgements")


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The update that makes ``after`` of ``before``: a key with a reducer must not be written back."""
    return {key: value for key, value in after.items() if before.get(key, _ABSENT) != value}


_ABSENT: Final = object()


def _langgraph(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra("langgraph", needed_for="the LangGraph integration") from error
