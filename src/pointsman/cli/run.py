"""``pointsman run``: execute one task with an application of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pointsman.cli.output import FAILED, json_line, print_json

if TYPE_CHECKING:
    from pointsman.orchestrator import Agent

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    task: Annotated[str, typer.Argument(help="The task; may begin with /caps:off, /task:off or /chat.")],
    *,
    app: Annotated[Path, typer.Option(help="Python file that defines `application`.")] = Path(
        "examples/assistant.py"
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Approve every step that needs approval.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final state as JSON.")] = False,
) -> None:
    """Execute one task and print the answer; the router's moves go to standard error.

    The exit code is 0 when the task was answered and 1 when the run ended in an error.
    """
    import asyncio

    from pointsman.orchestrator import Agent, load_application

    agent = Agent(load_application(app), approve=_agree if yes else _ask)
    state = asyncio.run(_follow(agent, task))
    if as_json:
        print_json(state)
    else:
        typer.echo(state.get("response") or "")
    if state["control_outcome"] not in ("respond", "clarify"):
        raise typer.Exit(FAILED)


async def _follow(agent: Agent, task: str) -> Mapping[str, Any]:
    state: Mapping[str, Any] = {}
    async for progress in agent.stream(task):
        move = progress.move
        wait = f" after {move.delay:g} s" if move.delay else ""
        typer.echo(f"{move.next}{wait}: {move.reason.detail}", err=True)
        state = progress.state
    return state


async def _ask(name: str, step: Mapping[str, Any]) -> bool:
    import asyncio

    return await asyncio.to_thread(typer.confirm, f"Run {name} for {json_line(step)}?", err=True)


async def _agree(name: str, step: Mapping[str, Any]) -> bool:  # noqa: ARG001 - the shape of Approve
    return True
