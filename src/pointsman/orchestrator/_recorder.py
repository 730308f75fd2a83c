"""Writes the entries of a run to the ledger: the effect of the router's decisions."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pointsman.orchestrator._entries import Refusal, entry_of_move, entry_of_refusal, entry_of_selection
from pointsman.orchestrator.router import Move
from pointsman.orchestrator.state import INFRASTRUCTURE, AgentState, current_step
from pointsman.stores.ledger.port import RunEntry, Writes

log = logging.getLogger(__name__)
#: One line for each entry at INFO.
runs_log = logging.getLogger("pointsman.runs")


def new_run() -> str:
    """Return the id of a new run: unique across processes, because a graph may resume in another one."""
    return f"r-{secrets.token_hex(8)}"


class Recorder:
    """Appends entries, and returns the update by which the state counts them.

    The count is part of the state: whoever does a step again, because its state was lost, writes the same
    entry again, and not a second one. A ledger that fails costs the entry, never the run.
    """

    def __init__(self, ledger: Writes | None, *, clock: Callable[[], float] = time.time) -> None:
        """Take the ledger, or None to record nothing; ``clock`` gives seconds since the epoch."""
        self._ledger = ledger
        self._clock = clock
        self.failures = 0  # entries that the ledger did not take

    @staticmethod
    def begin(state: Mapping[str, Any], session: str = "") -> AgentState:
        """Give a run that has none an id, and a session: the one named, its conversation's, or a new one."""
        run = str(state.get("control_run_id") or "") or new_run()
        kept = str(state.get("control_session_id") or "")
        return {"control_run_id": run, "control_session_id": session or kept or run}

    def move(self, state: Mapping[str, Any], move: Move) -> AgentState:
        """Record a move; ``state`` is the one it was decided on."""
        return self._append(entry_of_move(state, move, self._clock()))

    def ran(self, state: Mapping[str, Any], node: str, update: Mapping[str, Any]) -> AgentState:
        """Record a node's result, if it is a selection."""
        if node != "classifier" or update.get("control_has_error"):
            return {}
        return self._append(entry_of_selection(state, update, self._clock()))

    def refusal(self, state: Mapping[str, Any], node: str, refusal: Refusal) -> AgentState:
        """Record a step that was not allowed to run."""
        return self._append(entry_of_refusal(state, node, refusal, self._clock()))

    def _append(self, entry: RunEntry) -> AgentState:
        if self._ledger is not None:
            try:
                self._ledger.append(entry)
            except Exception:  # fail open: any ledger; ``failures`` counts
                if not self.failures:
                    log.warning("steps of runs are not recorded; not logged again", exc_info=True)
                self.failures += 1
        if runs_log.isEnabledFor(logging.INFO):
            what = ", ".join(entry.selected) if entry.kind == "selection" else entry.detail
            runs_log.info(
                "%s %d: %s %s: %s: %s", entry.run, entry.number, entry.kind, entry.node, entry.code, what
            )
        return {"control_entries_count": entry.number}


# The steps of a run as a conversation, so that guidance sees when the run is stuck.

#: Steps kept in the state of a run: twice as many as guidance looks at.
_MOST: Final = 100
#: Characters of a name, an objective or a result in a step: guidance compares them and reads an error's line.
_LONGEST: Final = 500
#: The result of a step that a person did not allow, in words that guidance does not take for a failure.
DECLINED: Final = "declined by the user"


def with_step(state: Mapping[str, Any], node: str, result: object, *, failed: bool) -> AgentState:
    """The update that adds a step to the run; nothing for a node that is no capability."""
    if node in INFRASTRUCTURE:
        return {}
    planned = current_step(state) or {}
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    step = {
        "capability": node[:_LONGEST],
        "objective": str(planned.get("task_objective") or "")[:_LONGEST],
        "inputs": list(planned.get("inputs") or ()),
        "result": f"Error: {text}"[:_LONGEST] if failed else text[:_LONGEST],
    }
    return {"capability_steps": [*(state.get("capability_steps") or ()), step][-_MOST:]}


def conversation_of(task: str, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The task and the steps of a run so far, as messages of chat completions."""
    return [{"role": "user", "content": task}, *_calls(state.get("capability_steps") or ())]


def _calls(steps: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(steps, start=1):
        arguments = json.dumps({"objective": step["objective"], "inputs": step["inputs"]})
        function = {"name": step["capability"], "arguments": arguments}
        call = {"id": f"step_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call["id"], "content": step["result"]}
