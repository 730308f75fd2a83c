"""Ledger entries of a run: one entry for each move, selection and refusal, made from its state."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from pointsman.orchestrator.router import Move
from pointsman.orchestrator.table import Situation
from pointsman.stores.ledger.port import RunEntry

#: Characters of a text in an entry; a run has some two hundred entries at most.
_LONGEST: Final = 500
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


def entry_of_move(state: Mapping[str, Any], move: Move, at: float) -> RunEntry:
    """The entry of a move. ``state`` is the one it was decided on; ``at`` is in seconds since the epoch."""
    reason = move.reason
    detail = reason.detail.removesuffix(move.message).removesuffix(": ") if move.message else reason.detail
    return RunEntry(
        **_place(state, at),
        kind="retry" if reason.code == _RETRY else "move",
        node=_cut(move.next),
        code=reason.code,
        detail=_cut(detail),
        message=_cut(move.message),
        delay=move.delay,
    )


def entry_of_selection(state: Mapping[str, Any], update: Mapping[str, Any], at: float) -> RunEntry:
    """The entry of a selection; ``update`` is the classifier's change of the state."""
    selected = update.get("planning_active_capabilities") or ()
    grounds = update.get("planning_selection_grounds") or {}
    scores = grounds.get("scores") or {}
    abstained = str(update.get("planning_selection_abstained") or "")
    bypassed = bool(state.get("control_capability_bypass"))
    return RunEntry(
        **_place(state, at),
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


def entry_of_refusal(state: Mapping[str, Any], node: str, refusal: Refusal, at: float) -> RunEntry:
    """The entry of a step that was not allowed to run."""
    return RunEntry(
        **_place(state, at),
        kind="refusal",
        node=_cut(node),
        code=f"routing.refused.{refusal}",
        detail=_REFUSALS[refusal],
    )


def _place(state: Mapping[str, Any], at: float) -> dict[str, Any]:
    return {
        "run": str(state.get("control_run_id") or ""),
        "session": str(state.get("control_session_id") or ""),
        "number": int(state.get("control_entries_count") or 0) + 1,
        "at": at,
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
