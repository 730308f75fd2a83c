"""Runs of agents in the ledger, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pointsman.decision.decision import run_of
from pointsman.prices import dollars
from pointsman.reports.usage import cost, usage
from pointsman.stores.ledger import Record, RunEntry
from pointsman.stores.ledger.runs import RunRecord, RunUsage
from pointsman.vocabulary import ModelSpec

#: Nodes shown in a line.
_SHOWN = 12


def as_json(run: Sequence[RunEntry], used: RunUsage | None = None) -> dict[str, Any]:
    """A run in short, with known usage of its questions."""
    taken = {"usage": used} if used else {}
    return {
        "run": run[0].run,
        "session": run[0].session,
        "began_at": run[0].at,
        "entries": len(run),
        "retries": sum(entry.kind == "retry" for entry in run),
        "refusals": sum(entry.kind == "refusal" for entry in run),
        "way": _way(run),
        "last": run[-1].code,
        **taken,
    }


def line(run: Sequence[RunEntry]) -> str:
    """A run in one line: when, which, and its way."""
    when, name, way = cells(run)
    return f"{when} {name:<22} run {way}"


def cells(run: Sequence[RunEntry]) -> tuple[str, str, str]:
    """When a run began, which it is, and its way."""
    way = _way(run)
    shown = way if len(way) <= _SHOWN else [*way[: _SHOWN - 2], "…", way[-1]]
    return _when(run[0].at), run[0].run, " > ".join(shown)


def explained(found: RunRecord, models: Mapping[str, ModelSpec]) -> Iterator[str]:
    """Every entry of a run in order, its questions, and their cost at the models' prices."""
    run = found.entries
    yield f"{run[0].run}  {_when(run[0].at)} UTC  session {run[0].session or '-'}"
    expected = 1
    for entry in run:
        if entry.number > expected:
            yield f"    {entry.number - expected} missing"
        expected = entry.number + 1
        yield f"{entry.number:>3} +{entry.at - run[0].at:.1f} s {_what(entry)}"
        if entry.message:
            yield f"      said: {entry.message}"
    yield from map(_question, found.questions)
    if found.questions:
        yield _taken(found, models)


def _question(record: Record) -> str:
    decision, tried = record.decision, record.attempts
    asked = tried[-1].model if tried else "nobody"
    tier = f"tier {decision.tier.tier}" if decision.tier else "no tier"
    hints = [firing.reason for firing in decision.guidance.firings] if decision.guidance else []
    hint = f"; guidance: {', '.join(hints)}" if hints else ""
    tokens = [f"{used.input} tokens in and {used.output} out" for used in map(usage, tried) if used]
    taken = f": {', '.join(tokens)}" if tokens else ""
    return f"  {run_of(decision)[1]} asked {asked} ({tier}, {decision.id}){taken}{hint}"


def _taken(found: RunRecord, models: Mapping[str, ModelSpec]) -> str:
    """The sum of a run: tokens, and their cost where every price and usage is known."""
    used = found.usage
    counted = f"{used.questions} questions, {used.input_tokens} tokens in and {used.output_tokens} out"
    unknown = f", {used.without_usage} answers without usage" if used.without_usage else ""
    tried = [attempt for record in found.questions for attempt in record.attempts]
    costs = [cost(models.get(each.model), taken) for each in tried if (taken := usage(each))]
    if not costs or not models:
        return counted + unknown
    known = [each for each in costs if each is not None]
    lacking = "" if len(known) == len(costs) and not unknown else ", at least: some costs are unknown"
    return f"{counted}{unknown}; cost {dollars(sum(known))}{lacking}"


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
