"""``pointsman run``: execute one task with the configured models, and record the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointsman.cli.output import FAILED, ConfigOption, echo, json_line, needs_extra, print_json, read_config

if TYPE_CHECKING:
    from pointsman.api import Pointsman
    from pointsman.orchestrator import Agent, Application


def run(
    task: Annotated[str, typer.Argument(help="The task; may begin with /caps:off, /task:off or /chat.")],
    *,
    app: Annotated[
        Path | None,
        typer.Option(
            help="Python file that defines `application`; default: the configured one, else the built-in one."
        ),
    ] = None,
    session: Annotated[
        str, typer.Option(help="Session in the ledger; default: one for this run alone.")
    ] = "",
    config: ConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve every step that needs approval.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final state as JSON.")] = False,
) -> None:
    """Execute one task and print the answer; the router's moves go to standard error.

    Each question of an application that sets no model asks the configured model of its tier. The run
    is recorded in the ledger. The exit code is 0 when the task was answered and 1 when the run ended in an
    error.
    """
    import asyncio

    from pointsman.orchestrator import Agent

    with _application(app, config) as application:
        agent = Agent(application, approve=_agree if yes else _ask)
        state = asyncio.run(_follow(agent, task, session))
    if as_json:
        print_json(state)
    else:
        echo(state.get("response") or "")
    echo(f"pointsman decisions show {state['control_run_id']}", err=True)
    if state["control_outcome"] not in ("respond", "clarify"):
        raise typer.Exit(FAILED)


@contextmanager
def _application(file: Path | None, config: Path | None) -> Iterator[Application]:
    """The application named or built in, with the configured models, limits and ledger."""
    from pointsman.orchestrator import load_application
    from pointsman.orchestrator.default_application import OfflineModel, default_application

    named = str(file) if file else read_config(config).capabilities.application
    chosen = load_application(named) if named else default_application()
    with _pointsman(config) as pointsman:
        application = pointsman.application(chosen)
        if application.model is None:
            echo("no model can be asked: results are repeated as they are; pointsman config init", err=True)
            application = replace(application, model=OfflineModel())
        yield application


def _pointsman(config: Path | None) -> Pointsman:
    """As configured; without a configuration the default policy, and the ledger in its usual place."""
    from pointsman.api import Pointsman
    from pointsman.config import find
    from pointsman.config.files import state_file
    from pointsman.stores.ledger import SqliteLedger

    found = config or find()
    if found is None:
        return Pointsman(ledger=SqliteLedger(state_file("ledger.sqlite")))
    with needs_extra("gateway", needed_for="asking the configured models"):
        return Pointsman.from_config(found)


async def _follow(agent: Agent, task: str, session: str) -> Mapping[str, Any]:
    state: Mapping[str, Any] = {}
    async for progress in agent.stream(task, session=session):
        move = progress.move
        wait = f" after {move.delay:g} s" if move.delay else ""
        echo(f"{move.next}{wait}: {move.reason.detail}", err=True)
        state = progress.state
    return state


async def _ask(name: str, step: Mapping[str, Any]) -> bool:
    import asyncio

    from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity

    try:
        return await asyncio.to_thread(typer.confirm, f"Run {name} for {json_line(step)}?", err=True)
    except typer.Abort:
        why = f"{name} needs a person's approval, and standard input is closed; --yes approves every step"
        raise ClassifiedError(ErrorSeverity.CRITICAL, why) from None


async def _agree(name: str, step: Mapping[str, Any]) -> bool:  # noqa: ARG001 - the shape of Approve
    return True
