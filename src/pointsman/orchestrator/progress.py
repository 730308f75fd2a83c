"""The record of a run: state updates after a node, steps for guidance, entries of the ledger.

Shared by every driver.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from pointsman.orchestrator._facts import ErrorClassification, ErrorSeverity
from pointsman.orchestrator.machine import Move
from pointsman.orchestrator.state import (
    INFRASTRUCTURE,
    TERMINAL,
    AgentState,
    current_step,
    results_of,
    step_index,
)
from pointsman.orchestrator.table import Situation
from pointsman.stores.ledger.port import RunEntry, Writes

__all__ = ["failed", "missing", "refused", "succeeded", "waited"]


def succeeded(
    state: Mapping[str, Any], node: str, update: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """The update of a node that returned ``update`` after ``seconds`` of work."""
    done: dict[str, Any] = {**update, **waited(state, seconds)}
    if node in TERMINAL:
        done |= {"control_outcome": node, "control_has_error": False}
    elif node not in INFRASTRUCTURE:
        done["planning_current_step_index"] = step_index(state) + 1
        done |= with_step(state, node, _result(update, node), failed=False)
    return done


def failed(
    state: Mapping[str, Any], node: str, classification: ErrorClassification, seconds: float, result: str = ""
) -> AgentState:
    """The update of a node that raised, ``seconds`` after it began; ``result`` is what its step came to."""
    info = {"capability_name": node, "classification": classification.to_state()}
    step = with_step(state, node, result or classification.user_message, failed=True)
    return {"control_has_error": True, "control_error_info": info, **waited(state, seconds), **step}


def refused(state: Mapping[str, Any], node: str) -> AgentState:
    """The update of a step a person did not allow: the plan has to do without it."""
    told = ErrorClassification(ErrorSeverity.REPLANNING, f"the person did not allow {node}")
    return failed(state, node, told, 0.0, DECLINED)


def missing(state: Mapping[str, Any], node: str) -> AgentState:
    """The update of a step that calls what can be selected but not run."""
    told = ErrorClassification(ErrorSeverity.REPLANNING, f'there is no capability "{node}"')
    return failed(state, node, told, 0.0)


def _result(update: Mapping[str, Any], node: str) -> object:
    """The result that a capability's update adds, which is its last."""
    made = [entry for entry in results_of(update).values() if entry.get("capability") == node]
    return made[-1].get("value") if made else None


def waited(state: Mapping[str, Any], seconds: float) -> AgentState:
    """Count ``seconds`` of work or waiting against the deadline."""
    return {"control_elapsed_seconds": float(state.get("control_elapsed_seconds") or 0.0) + max(seconds, 0.0)}


# Writes the entries of a run to the ledger: the effect of the router's decisions.


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

    def __init__(self, ledger: Writes | None) -> None:
        """Take the ledger, or None to record nothing."""
        self._ledger = ledger
        self.failures = 0  # entries that the ledger did not take

    @staticmethod
    def begin(state: Mapping[str, Any], session: str = "") -> AgentState:
        """Give a run that has none an id, and a session: the one named, its conversation's, or a new one."""
        run = str(state.get("control_run_id") or "") or new_run()
        kept = str(state.get("control_session_id") or "")
        return {"control_run_id": run, "control_session_id": session or kept or run}

    def move(self, state: Mapping[str, Any], move: Move) -> AgentState:
        """Record a move; ``state`` is the one it was decided on."""
        reason = move.reason
        detail = (
            reason.detail.removesuffix(move.message).removesuffix(": ") if move.message else reason.detail
        )
        entry = RunEntry(
            **_place(state, time.time()),
            kind="retry" if reason.code == _RETRY else "move",
            node=_cut(move.next),
            code=reason.code,
            detail=_cut(detail),
            message=_cut(move.message),
            delay=move.delay,
        )
        return self._append(entry)

    def ran(self, state: Mapping[str, Any], node: str, update: Mapping[str, Any]) -> AgentState:
        """Record a node's result, if it is a selection."""
        if node != "classifier" or update.get("control_has_error"):
            return {}
        selected = update.get("planning_active_capabilities") or ()
        grounds = update.get("planning_selection_grounds") or {}
        scores = grounds.get("scores") or {}
        abstained = str(update.get("planning_selection_abstained") or "")
        bypassed = bool(state.get("control_capability_bypass"))
        entry = RunEntry(
            **_place(state, time.time()),
            kind="selection",
            node="classifier",
            code="capabilities." + ("bypass" if bypassed else "unavailable" if abstained else "selected"),
            detail=f"{len(selected)} selected",
            message=_cut("; ".join(grounds.get("reasons") or ())),
            selected=tuple(map(_cut, selected[:_MOST_NAMES])),
            scores={_cut(name): scores[name] for name in list(scores)[:_MOST_NAMES]},
            asked_model=tuple(map(_cut, (grounds.get("asked_model") or ())[:_MOST_NAMES])),
            abstained=_cut(abstained),
        )
        return self._append(entry)

    def refusal(self, state: Mapping[str, Any], node: str, refusal: Refusal) -> AgentState:
        """Record a step that was not allowed to run."""
        entry = RunEntry(
            **_place(state, time.time()),
            kind="refusal",
            node=_cut(node),
            code=f"routing.refused.{refusal}",
            detail=_REFUSALS[refusal],
        )
        return self._append(entry)

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
#: Characters of a text in an entry or a step. A run has some two hundred entries at most; guidance compares
#: the names, objectives and results of steps, and reads an error's line.
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


# Ledger entries of a run: one entry for each move, selection and refusal, made from its state.


#: Names in an entry: registries are smaller, but for those made of a catalogue of tools.
_MOST_NAMES: Final = 200

_RETRY: Final = f"routing.{Situation.RETRY}"


class Refusal(StrEnum):
    """Why a step did not run; ``routing.refused.<reason>`` is the code of its entry."""

    PERSON = "person"  # asked, and did not allow it
    NOBODY = "nobody"  # it needs approval, and nobody can be asked
    UNASKED = "unasked"  # asking failed
    MISSING = "missing"  # it can be selected, but not run


_REFUSALS: Final = {
    Refusal.PERSON: "the person did not allow it",
    Refusal.NOBODY: "it needs a person's approval and nobody can be asked",
    Refusal.UNASKED: "asking for approval failed",
    Refusal.MISSING: "there is no such capability to run",
}


def _place(state: Mapping[str, Any], at: float) -> dict[str, Any]:
    return {
        "run": str(state.get("control_run_id") or ""),
        "session": str(state.get("control_session_id") or ""),
        "number": int(state.get("control_entries_count") or 0) + 1,
        "at": at,
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
