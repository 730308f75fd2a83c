"""``pointsman sessions``: list, show and delete session memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from pointsman.cli.ledger import has_ledger, opened
from pointsman.cli.output import (
    ConfigOption,
    Group,
    JsonLinesOption,
    JsonOption,
    config_file,
    print_either,
    print_json,
    print_rows,
    utc_time,
)
from pointsman.config import load
from pointsman.decision.decision import run_of
from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.factory import open_sessions
from pointsman.prices import dollars
from pointsman.printable import Column, TextTable, printable
from pointsman.reports.usage import cost, usage
from pointsman.stores.ledger import Record, RunEntry
from pointsman.stores.ledger.runs import RunRecord, RunUsage, usage_by_run
from pointsman.stores.sessions import SessionStore, SqliteSessions
from pointsman.vocabulary import ModelSpec

_COLUMNS: Final = (Column("last used (UTC)", whole=True), Column("session", whole=True))

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]


sessions: Final = typer.Typer(cls=Group, no_args_is_help=True, help="List, show or delete session memory.")


@sessions.command("list")
def list_sessions(
    *,
    config: ConfigOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """List sessions, one per line, most recently used first."""
    with _opened(config) as store:
        found = sorted(store.sessions(), key=lambda entry: entry[1], reverse=True)
    values = ({"session": session, "used_at": put_at} for session, put_at in found)
    table = TextTable(_COLUMNS, [(utc_time(put_at), name) for name, put_at in found])
    print_rows(values, table, as_json=as_json)


@sessions.command()
def show(session: SessionArgument, *, config: ConfigOption = None) -> None:
    """Print a session's memory, and its runs of agents in the ledger, as JSON."""
    runs = _recorded(config, session)
    loaded = load(config_file(config)).sessions
    if loaded.store == "memory" and runs:
        memory = None  # in the gateway that runs
    else:
        with _opened(config) as store:
            memory = store.get(session)
    if memory is None and not runs:
        raise _unknown(session)
    shown = msgspec.json.decode(memory, type=dict[str, Any]) if memory else {}
    print_json(shown | {"runs": runs} if runs else shown)


@sessions.command()
def forget(session: SessionArgument, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Delete a session's memory. A running gateway uses its copy of a session file until it restarts."""
    with _opened(config) as store:
        if not store.forget(session):
            raise _unknown(session)
    done = {"session": session, "forgotten": True}
    print_either(done, f"forgot {printable(session)}", as_json=as_json)


def _recorded(config: Path | None, session: str) -> list[dict[str, Any]]:
    """The session's latest runs in short; none without a ledger."""
    if not has_ledger(load(config_file(config)).ledger):
        return []
    with opened(None, config) as ledger:
        runs = list(ledger.runs(session=session))
        used = usage_by_run(ledger.records(session=session)) if runs else {}
        return [run_json(run, used.get(run[0].run)) for run in runs]


@contextmanager
def _opened(config: Path | None) -> Iterator[SessionStore]:
    spec = load(config_file(config)).sessions
    if spec.store == "memory":
        raise StoreUnavailable(
            "sessions are in the memory of the gateway that runs",
            hint='store = "sqlite" in [sessions] writes them to a file',
        )
    with closing(open_sessions(spec)) as store:
        if isinstance(store, SqliteSessions) and store.fault:
            raise StoreUnavailable(store.fault)
        yield store


def _unknown(session: str) -> PointsmanError:
    return PointsmanError(f'unknown session "{session}"', hint="pointsman sessions list")


#: Nodes shown in a line.
_SHOWN = 12


def run_json(run: Sequence[RunEntry], used: RunUsage | None = None) -> dict[str, Any]:
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


def run_cells(run: Sequence[RunEntry]) -> tuple[str, str, str]:
    """When a run began, which it is, and its way."""
    way = _way(run)
    shown = way if len(way) <= _SHOWN else [*way[: _SHOWN - 2], "…", way[-1]]
    return utc_time(run[0].at), run[0].run, " > ".join(shown)


def explained_run(found: RunRecord, models: Mapping[str, ModelSpec]) -> Iterator[str]:
    """Every entry of a run in order, its questions, and their cost at the models' prices."""
    run = found.entries
    yield f"{run[0].run}  {utc_time(run[0].at)} UTC  session {run[0].session or '-'}"
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
