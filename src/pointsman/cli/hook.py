"""``pointsman hook``: guidance inside agents that run a command after every tool call."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import typer

from pointsman.cli.output import FAILED, Group, echo, json_line, print_json, standard_input
from pointsman.drivers import no_model
from pointsman.errors import ConfigError, PointsmanError
from pointsman.guidance import GuidancePolicy, Guide, Mode, OwnClasses
from pointsman.integrations.hooks import (
    ClaudeCodeEvent,
    CodexEvent,
    HookEvent,
    HookState,
    OpencodeEvent,
    answer_event,
    read_event,
    settings,
)
from pointsman.vocabulary import ModelQuery, ModelReply

if TYPE_CHECKING:
    from pointsman.config import Config

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="File by which every part is decided, recorded in its ledger; default: guidance alone, by the "
        "built-in policy.",
    ),
]

# The guidance of a configuration, for commands that run without a gateway.

_DEFAULT: Final = GuidancePolicy(mode=Mode.ON)


def policy_of(file: Path | None) -> GuidancePolicy:
    """Return the policy of a file, else the default one.

    Raises:
        ConfigError: The file cannot be read, or is wrong.
    """
    if file is None:
        return _DEFAULT
    from pointsman.config import AnyKey, load  # the hook runs after every call: most read no file

    return load(file, AnyKey()).guidance


def own_classes(policy: GuidancePolicy) -> OwnClasses:
    """Import the classes that a policy names."""
    if not policy.providers:
        return {}
    from pointsman.config.applications import load_classes

    return load_classes(policy)


@contextmanager
def asking(config: Config, file: Path) -> Iterator[Callable[[ModelQuery], ModelReply]]:
    """Yield a function that answers the questions of a policy by the models of its file, if it asks any.

    Without their keys no model is asked: a message reports it, and decisions without a model are made.
    """
    from pointsman.config import load
    from pointsman.factory import asks_somebody, build_ask
    from pointsman.model_calls import AskingThread
    from pointsman.upstreams.connections import Connections

    if not asks_somebody(config):
        yield no_model
        return
    try:
        config = msgspec.structs.replace(load(file), guidance=config.guidance)
    except ConfigError as error:
        echo(f"pointsman: no model is asked: {error}", err=True)
        yield no_model
        return
    connections = Connections()
    thread = AskingThread(build_ask(config, connections), connections.close)
    try:
        yield thread.ask
    finally:
        thread.close()


_HELP: Final = """{} from standard input and reply in the hook's format.

Fails open: on an error it prints one line to standard error with exit code 1. {}
"""

hook: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Guidance through the hooks of an agent.")


def _add(name: str, kind: type[HookEvent], reads: str, shows: str, install: str) -> None:
    """Add the commands of an agent: the hook itself, and ``install``.

    Args:
        name: Of the agent.
        kind: Its events.
        reads: Input of the hook, in its help.
        shows: Effect of a line on standard error, in its help.
        install: The help of ``install``.
    """
    group = typer.Typer(cls=Group, invoke_without_command=True)

    @group.callback(help=_HELP.format(reads, shows))
    def answer(
        context: typer.Context,
        *,
        state: Annotated[Path | None, typer.Option(help="File of the stored sessions.")] = None,
        control: Annotated[
            float | None,
            typer.Option(
                min=0.0,
                max=1.0,
                help="Share of sessions in the control group, in which guidance is withheld; default: 0, or "
                "the share in --config.",
            ),
        ] = None,
        seed: Annotated[int | None, typer.Option(help="Random seed of the control group.")] = None,
        config: ConfigOption = None,
    ) -> None:
        if context.invoked_subcommand is None:
            _answer(kind, state or _state_of(name), config, control=control, seed=seed)

    @group.command("install", help=install)
    def print_settings(*, config: ConfigOption = None) -> None:
        arguments = ["hook", name, *(["--config", str(config.resolve())] if config else ())]
        if kind is OpencodeEvent:
            _print_plugin(arguments)
        else:
            _print_settings(kind, arguments, config)

    hook.add_typer(group, name=name)


def _state_of(name: str) -> Path:
    """Where the hook of an agent stores sessions."""
    # As config.files.state_file finds it, without loading the configuration: the hook runs after every call.
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "pointsman" / f"{name}.sqlite"


_add(
    "claude-code",
    ClaudeCodeEvent,
    "Read a Claude Code hook event",
    "Claude Code shows the line and continues.",
    "Print the settings to add to ~/.claude/settings.json, or to a project's .claude/settings.json.",
)
_add(
    "codex",
    CodexEvent,
    "Read a Codex hook event",
    "Codex shows the line and continues.",
    "Print the settings to add to ~/.codex/hooks.json, or to a project's .codex/hooks.json.",
)
_add(
    "opencode",
    OpencodeEvent,
    "Read an event of the opencode plugin",
    "The plugin reports it once, and opencode continues.",
    "Print the plugin to save as ~/.config/opencode/plugin/pointsman.js (or in a project's .opencode).",
)


def _answer(kind: type[HookEvent], state: Path, config: Path | None, **options: float | None) -> None:
    given = {name: value for name, value in options.items() if value is not None}
    try:
        event, kept = read_event(standard_input().read(), kind), HookState(state)
        answer = _guided(event, kept, given) if config is None else _decided(event, kept, given, config)
    except PointsmanError as error:
        echo(f"pointsman: {error}", err=True)
        raise typer.Exit(FAILED) from None  # not 2, with which a hook blocks the agent
    if answer is not None:
        echo(json_line(answer))


def _guided(event: HookEvent, state: HookState, given: dict[str, Any]) -> dict[str, object] | None:
    """Guidance alone, under the built-in policy: neither a file nor the engine is loaded."""
    return answer_event(event, state, Guide(msgspec.structs.replace(policy_of(None), **given)))


def _decided(
    event: HookEvent, state: HookState, given: dict[str, Any], file: Path
) -> dict[str, object] | None:
    """Every part, under the policy of a file and recorded in its ledger."""
    from pointsman.config import AnyKey, load
    from pointsman.factory import build_runtime
    from pointsman.integrations.hooks.decisions import decide_event

    config = load(file, AnyKey())
    guidance = msgspec.structs.replace(config.guidance, **given)
    config = msgspec.structs.replace(config, guidance=guidance)
    runtime = build_runtime(config)
    try:
        with asking(config, file) as ask:
            return decide_event(event, state, runtime, ask)
    finally:
        runtime.close()


def _print_plugin(arguments: list[str]) -> None:
    from importlib import resources

    plugin = resources.files("pointsman.integrations.hooks").joinpath("opencode.js").read_text("utf-8")
    called = json_line([*_program(), *arguments])
    echo(plugin.replace('["pointsman", "hook", "opencode"]', called), nl=False)


def _program() -> list[str]:
    found = shutil.which("pointsman")
    return [found] if found else [sys.executable, "-m", "pointsman"]


def _print_settings(kind: type[HookEvent], arguments: list[str], config: Path | None) -> None:
    try:
        policy = policy_of(config)
    except PointsmanError as error:
        echo(f"pointsman: {error}", err=True)
        raise typer.Exit(FAILED) from None
    print_json(settings(shlex.join([*_program(), *arguments]), policy, kind))
