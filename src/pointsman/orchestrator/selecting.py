"""Running a selection: its batches of questions asked in parallel, under a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, TypeVar

from pointsman.capabilities import Capability, CapabilityRegistry, LocalScorer, SelectionPolicy, Selector
from pointsman.model_calls import Ask, ask_models
from pointsman.upstreams.chat_model_port import ChatModel
from pointsman.vocabulary import ModelQuery, ModelReply

__all__ = ["MAX_PARALLEL", "answer_batches", "select_capabilities"]

#: Questions to models asked at the same time.
MAX_PARALLEL: Final = 5

Result = TypeVar("Result")


async def answer_batches(
    steps: Generator[Sequence[ModelQuery], Sequence[ModelReply], Result],
    ask: Ask,
    *,
    at_once: int = MAX_PARALLEL,
) -> Result:
    """Run a decision that asks in batches to its end; answers keep the order of their questions."""
    gate = asyncio.Semaphore(at_once)

    async def one(need: ModelQuery) -> ModelReply:
        async with gate:
            return await ask(need)

    try:
        needs = next(steps)
        while True:
            needs = steps.send(await asyncio.gather(*(one(need) for need in needs)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # typeshed has no type for it


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
        bypass=bool(state.get("control_capability_bypass")),
    )
    ask = ask_models({"": model} if model else {})
    selection = await answer_batches(steps, ask)
    return list(selection.selected)
