"""The asyncio driver: performs the router's moves. Waiting here never blocks the loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pointsman.errors import PointsmanError
from pointsman.orchestrator._application import Application
from pointsman.orchestrator._nodes import CapabilityNode, Node
from pointsman.orchestrator.machine import (
    END,
    ErrorClassification,
    ErrorSeverity,
    Limits,
    Move,
    classify_error,
    decide,
    start_turn,
)
from pointsman.orchestrator.progress import (
    Recorder,
    Refusal,
    failed,
    missing,
    refused,
    runs_log,
    succeeded,
    waited,
)
from pointsman.orchestrator.state import TERMINAL, current_step

#: Asks a person whether a step may run: (capability, step) -> yes.
Approve = Callable[[str, Mapping[str, Any]], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Progress:
    """One move of a run, and the state after it."""

    move: Move
    state: Mapping[str, Any]


async def run_node(node: Node, state: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Run one node and return the update it makes, of success or failure; raises only cancellation.

    A node is cut off when the run's time is up, except those that tell the person.
    """
    from asyncio import timeout

    left = limits.max_execution_time_seconds - float(state.get("control_elapsed_seconds") or 0.0)
    began = time.monotonic()
    try:
        async with timeout(None if node.name in TERMINAL else left):
            update = await node.execute(state)
    except Exception as error:  # noqa: BLE001 - any failure of a node becomes a move of the router
        classification = node.classify_error(error, {"node": node.name})
        if classification.severity is ErrorSeverity.CRITICAL:  # the state has its words for a person alone
            own = not isinstance(error, PointsmanError)  # of these the message says all
            runs_log.warning("%s failed: %r", node.name, error, exc_info=own)
        return dict(failed(state, node.name, classification, time.monotonic() - began))
    return succeeded(state, node.name, update, time.monotonic() - began)


async def _sleep(seconds: float) -> None:
    from asyncio import sleep  # imported by those who run an agent, not by those who describe one

    await sleep(seconds)


class Agent:
    """Runs an application without any framework."""

    def __init__(
        self,
        application: Application,
        *,
        approve: Approve | None = None,
        stop: Callable[[], str] = lambda: "",
        sleep: Callable[[float], Awaitable[None]] = _sleep,
    ) -> None:
        """Build the nodes.

        Args:
            application: what to run.
            approve: asks a person before a capability that needs approval; without it such a step is refused.
            stop: asked before every move; a reason stops the run, which then informs the user.
            sleep: waits before a retry; tests pass one that only records.
        """
        self._application = application
        self._nodes = application.nodes()
        self.recorder = Recorder(application.ledger)
        self._approve = approve
        self._stop = stop
        self._sleep = sleep

    async def run(
        self, said: str, previous: Mapping[str, Any] | None = None, *, session: str = ""
    ) -> dict[str, Any]:
        """Execute a user's message; the final state, with ``response``.

        Args:
            said: the user's words; commands at their beginning are obeyed.
            previous: the final state of the conversation's last turn.
            session: of the run in the ledger; default: that of ``previous``, or the run's id.
        """
        final: Mapping[str, Any] = {}
        async for progress in self.stream(said, previous, session=session):
            final = progress.state
        return dict(final)

    async def stream(
        self, said: str, previous: Mapping[str, Any] | None = None, *, session: str = ""
    ) -> AsyncIterator[Progress]:
        """Execute a user's message, reporting every move when it has been made. As ``run``."""
        limits = self._application.limits
        state: dict[str, Any] = dict(start_turn(said, previous, self._application.switches))
        state |= self.recorder.begin(state, session)
        while True:
            if reason := self._stop():
                state |= {"control_is_killed": True, "control_kill_reason": reason}
            move = decide(state, limits)
            state |= self.recorder.move(state, move)
            if move.delay:
                await self._sleep(move.delay)
            state |= {**waited(state, move.delay), **move.update}
            if move.next != END:
                state |= await self._perform(move.next, state)
            yield Progress(move, dict(state))
            if move.next == END:
                return

    async def _perform(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        node = self._nodes.get(name)
        if node is None:
            return {**missing(state, name), **self.recorder.refusal(state, name, Refusal.MISSING)}
        if isinstance(node, CapabilityNode) and node.capability.needs_approval:
            refusal = await self._refusal(name, state)
            if refusal:
                return refusal
        update = await run_node(node, state, self._application.limits)
        return update | self.recorder.ran(state, name, update)

    async def _refusal(self, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the person; the update of a refusal, or nothing. Their time is not counted."""
        if self._approve is None:
            told = ErrorClassification(
                ErrorSeverity.CRITICAL, f"{name} needs a person's approval and nobody can be asked"
            )
            return {**failed(state, name, told, 0.0), **self.recorder.refusal(state, name, Refusal.NOBODY)}
        try:
            agreed = await self._approve(name, current_step(state) or {})
        except Exception as error:  # noqa: BLE001 - a failing approval is a failure of the step
            told = classify_error(error, {"node": name})
            return {**failed(state, name, told, 0.0), **self.recorder.refusal(state, name, Refusal.UNASKED)}
        if agreed:
            return {}
        return {**refused(state, name), **self.recorder.refusal(state, name, Refusal.PERSON)}
