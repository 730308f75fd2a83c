"""Runs of agents in the ledger, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pointsman.stores.ledger import RunEntry

__all__ = ["as_json", "explained", "line"]

#: Nodes shown in a line.
_SHOWN = 12


def as_json(run: Sequence[RunEntry]) -> dict[str, Any]:
    """A run in short; its entries are printed by ``decisions show``."""
    return {
        "run": run[0].run,
        "session": run[0].session,
        "began_at": run[0].at,
        "entries": len(run),
        "retries": sum(entry.kind == "retry" for entry in run),
        "refusals": sum(entry.kind == "refusal" for entry in run),
        "way": _way(run),
        "last": run[-1].code,
    }


def line(run: Sequence[RunEntry]) -> str:
    """A run in one line: when, which, and its way."""
    way = _way(run)
    shown = way if len(way) <= _SHOWN else [*way[: _SHOWN - 2], "…", way[-1]]
    return f"{_when(run[0].at)} {run[0].run:<22} run {' > '.join(shown)}"


def explained(run: Sequence[RunEntry]) -> Iterator[str]:
    """Every entry of a run in order."""
    yield f"{run[0].run}  {_when(run[0].at)} UTC  session {run[0].session or '-'}"
    expected = 1
    for entry in run:
        if entry.number > expected:
            yield f"    {entry.number - expected} missing"
        expected = entry.number + 1
        yield f"{entry.number:>3} +{entry.at - run[0].at:.1f} s {_what(entry)}"
        if entry.message:
            yield f"      said: {entry.message}"


def _what(entry: RunEntry) -> str:
    if entry.kind == "selection":
        names = ", ".join(_scored(entry, name) for name in entry.selected) or "nothing"
        asked = f"; asked a model about {', '.join(entry.asked_model)}" if entry.asked_model else ""
        abstained = f"; no judgement: {entry.abstained}" if entry.abstained else ""
        return f"selected {names}{asked}{abstained}"
    if entry.kind == "refusal":
        return f"refused {entry.node}: {entry.code}: {entry.detail}"
    wait = f" after {entry.delay:g} s" if entry.delay else ""
    return f"{entry.kind} to {entry.node}{wait}: {entry.code}: {entry.detail}"


def _scored(entry: RunEntry, name: str) -> str:
    return f"{name} ({entry.scores[name]:.2f})" if name in entry.scores else name


def _way(run: Sequence[RunEntry]) -> list[str]:
    return [entry.node for entry in run if entry.kind in ("move", "retry")]


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
