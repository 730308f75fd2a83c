"""``pointsman hook``: guidance inside agents that run a command after every tool call."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.guidance_policy import GuidanceOption, own_classes, policy_of
from pointsman.cli.output import FAILED, Group, json_line, print_json, standard_input
from pointsman.drivers import no_model
from pointsman.errors import PointsmanError
from pointsman.guidance import GuidancePolicy, Guide, asks_models
from pointsman.integrations.claude_code import HookState, answer_event, read_event, settings
from pointsman.vocabulary import ModelQuery, ModelReply

__all__ = ["default_state", "register"]

_hook: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Guidance through the hooks of an agent.")
_claude_code: Final = typer.Typer(cls=Group, invoke_without_command=True)
_hook.add_typer(_claude_code, name="claude-code")


def register(app: typer.Typer) -> None:
    """Add ``hook`` to the command line."""
    app.add_typer(_hook, name="hook")


def default_state() -> Path:
    """Where the hook stores sessions."""
    # As config.shapes.state_file finds it, without loading the configuration: the hook runs after every call.
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "pointsman" / "claude-code.sqlite"


@_claude_code.callback()
def claude_code(
    context: typer.Context,
    *,
    state: Annotated[Path | None, typer.Option(help="File of the stored sessions.")] = None,
    control: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of sessions in the control group, in which guidance is withheld; default: 0, or the "
            "share in --config.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed of the control group.")] = None,
    config: GuidanceOption = None,
) -> None:
    """Read a Claude Code hook event from standard input and reply in the hook's format.

    Fails open: on an error it prints one line to standard error with exit code 1. Claude Code shows the line
    and continues.
    """
    if context.invoked_subcommand is not None:
        return
    given = {name: value for name, value in (("control", control), ("seed", seed)) if value is not None}
    try:
        policy = msgspec.structs.replace(policy_of(config), **given)
        guide, event = Guide(policy, own=own_classes(policy)), read_event(standard_input().read())
        with _asking(policy, config) as ask:
            answer = answer_event(event, HookState(state or default_state()), guide, ask)
    except PointsmanError as error:
        typer.echo(f"pointsman: {error}", err=True)
        raise typer.Exit(FAILED) from None  # not 2, with which a hook blocks the agent
    if answer is not None:
        typer.echo(json_line(answer))


@contextmanager
def _asking(policy: GuidancePolicy, config: Path | None) -> Iterator[Callable[[ModelQuery], ModelReply]]:
    """What answers the questions of the policy: the models of its file, where it has any."""
    if config is None or not asks_models(policy):
        yield no_model
        return
    from pointsman.config import load
    from pointsman.factory import build_ask
    from pointsman.model_calls import AskingThread
    from pointsman.upstreams.connections import Connections

    connections = Connections()
    thread = AskingThread(build_ask(load(config), connections), connections.close)
    try:
        yield thread.ask
    finally:
        thread.close()


@_claude_code.command()
def install(*, config: GuidanceOption = None) -> None:
    """Print the settings to add to ~/.claude/settings.json, or to a project's .claude/settings.json."""
    found = shutil.which("pointsman")
    program = shlex.quote(found) if found else f"{shlex.quote(sys.executable)} -m pointsman"
    try:
        policy = policy_of(config)
    except PointsmanError as error:
        typer.echo(f"pointsman: {error}", err=True)
        raise typer.Exit(FAILED) from None
    named = f" --config {shlex.quote(str(config.resolve()))}" if config else ""
    print_json(settings(f"{program} hook claude-code{named}", policy))
