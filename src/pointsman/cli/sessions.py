"""``pointsman sessions``: list, show and delete session memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from pointsman.cli import _runs
from pointsman.cli.ledgers import has_ledger, opened
from pointsman.cli.options import ConfigOption, JsonLinesOption, JsonOption
from pointsman.cli.output import Group, config_file, echo, json_line, print_json, print_table
from pointsman.config import load
from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.factory import open_sessions
from pointsman.printable import Column, printable
from pointsman.stores.ledger.runs import usage_by_run
from pointsman.stores.sessions import SessionStore, SqliteSessions

__all__ = ["register"]

_COLUMNS: Final = (Column("last used (UTC)", whole=True), Column("session", whole=True))

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Id of the session.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    sessions = typer.Typer(cls=Group, no_args_is_help=True, help="List, show or delete session memory.")
    sessions.command("list")(list_sessions)
    sessions.command()(show)
    sessions.command()(forget)
    app.add_typer(sessions, name="sessions")


def list_sessions(
    *,
    config: ConfigOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """List sessions, one per line, most recently used first."""
    with _opened(config) as store:
        found = sorted(store.sessions(), key=lambda entry: entry[1], reverse=True)
    if as_json:
        for session, put_at in found:
            echo(json_line({"session": session, "used_at": put_at}))
        return
    print_table(
        _COLUMNS,
        [(f"{datetime.fromtimestamp(put_at, UTC):%Y-%m-%d %H:%M:%S}", name) for name, put_at in found],
    )


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


def forget(session: SessionArgument, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Delete a session's memory. A running gateway uses its copy of a session file until it restarts."""
    with _opened(config) as store:
        if not store.forget(session):
            raise _unknown(session)
    if as_json:
        print_json({"session": session, "forgotten": True})
    else:
        echo(f"forgot {printable(session)}")


def _recorded(config: Path | None, session: str) -> list[dict[str, Any]]:
    """The session's latest runs in short; none without a ledger."""
    if not has_ledger(load(config_file(config)).ledger):
        return []
    with opened(None, config) as ledger:
        runs = list(ledger.runs(session=session))
        used = usage_by_run(ledger.records(session=session)) if runs else {}
        return [_runs.as_json(run, used.get(run[0].run)) for run in runs]


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
