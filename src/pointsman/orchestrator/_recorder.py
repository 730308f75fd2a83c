"""Writes the entries of a run to the ledger: the effect of what the router has decided."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from pointsman.orchestrator._entries import Refusal, entry_of_move, entry_of_refusal, entry_of_selection
from pointsman.orchestrator.router import Move
from pointsman.orchestrator.state import AgentState
from pointsman.stores.ledger.port import Ledger, RunEntry

__all__ = ["Recorder", "new_run"]

log = logging.getLogger(__name__)
#: One line for each entry at INFO.
runs_log = logging.getLogger("pointsman.runs")


def new_run() -> str:
    """Return the id of a new run: unique across processes, because a graph goes on in another one."""
    return f"r-{secrets.token_hex(8)}"


class Recorder:
    """Appends entries, and returns the update by which the state counts them.

    The count is part of the state: whoever does a step again, because its state was lost, writes the same
    entry again, and not a second one. A ledger that fails costs the entry, never the run.
    """

    def __init__(self, ledger: Ledger | None, *, clock: Callable[[], float] = time.time) -> None:
        """Take the ledger, or None to keep nothing; ``clock`` gives seconds since the epoch."""
        self._ledger = ledger
        self._clock = clock
        self.failures = 0  # entries that the ledger did not take

    @staticmethod
    def begin(state: Mapping[str, Any], session: str = "") -> AgentState:
        """Give a run that has none an id, and a session: the one named, its conversation's, or its own."""
        run = str(state.get("control_run_id") or "") or new_run()
        kept = str(state.get("control_session_id") or "")
        return {"control_run_id": run, "control_session_id": session or kept or run}

    def move(self, state: Mapping[str, Any], move: Move) -> AgentState:
        """Record a move; ``state`` is the one it was decided on."""
        return self._append(entry_of_move(state, move, self._clock()))

    def ran(self, state: Mapping[str, Any], node: str, update: Mapping[str, Any]) -> AgentState:
        """Record what a node did, where that is a selection."""
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
