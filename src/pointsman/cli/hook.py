"""``pointsman hook``: guidance inside agents that run a command after every tool call."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from pointsman.cli.guidance_policy import asking, policy_of
from pointsman.cli.output import FAILED, Group, echo, json_line, print_json, standard_input
from pointsman.errors import PointsmanError
from pointsman.guidance import Guide
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

ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="File by which every part is decided, recorded in its ledger; default: guidance alone, by the "
        "built-in policy.",
    ),
]

StateOption: TypeAlias = Annotated[Path | None, typer.Option(help="File of the stored sessions.")]
ControlOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Share of sessions in the control group, in which guidance is withheld; default: 0, or the "
        "share in --config.",
    ),
]
SeedOption: TypeAlias = Annotated[int | None, typer.Option(help="Random seed of the control group.")]

hook: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Guidance through the hooks of an agent.")
_claude_code: Final = typer.Typer(cls=Group, invoke_without_command=True)
_codex: Final = typer.Typer(cls=Group, invoke_without_command=True)
hook.add_typer(_claude_code, name="claude-code")
hook.add_typer(_codex, name="codex")
_opencode: Final = typer.Typer(cls=Group, invoke_without_command=True)
hook.add_typer(_opencode, name="opencode")


def default_state(name: str = "claude-code") -> Path:
    """Where the hook of an agent stores sessions."""
    # As config.shapes.state_file finds it, without loading the configuration: the hook runs after every call.
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "pointsman" / f"{name}.sqlite"


@_claude_code.callback()
def claude_code(
    context: typer.Context,
    *,
    state: StateOption = None,
    control: ControlOption = None,
    seed: SeedOption = None,
    config: ConfigOption = None,
) -> None:
    """Read a Claude Code hook event from standard input and reply in the hook's format.

    Fails open: on an error it prints one line to standard error with exit code 1. Claude Code shows the line
    and continues.
    """
    if context.invoked_subcommand is None:
        _answer(ClaudeCodeEvent, state or default_state(), config, control=control, seed=seed)


@_codex.callback()
def codex(
    context: typer.Context,
    *,
    state: StateOption = None,
    control: ControlOption = None,
    seed: SeedOption = None,
    config: ConfigOption = None,
) -> None:
    """Read a Codex hook event from standard input and reply in the hook's format.

    Fails open: on an error it prints one line to standard error with exit code 1. Codex shows the line and
    continues.
    """
    if context.invoked_subcommand is None:
        _answer(CodexEvent, state or default_state("codex"), config, control=control, seed=seed)


@_opencode.callback()
def opencode(
    context: typer.Context,
    *,
    state: StateOption = None,
    control: ControlOption = None,
    seed: SeedOption = None,
    config: ConfigOption = None,
) -> None:
    """Read an event of the opencode plugin from standard input and reply in the hook's format.

    Fails open: on an error it prints one line to standard error with exit code 1. The plugin reports it once,
    and opencode continues.
    """
    if context.invoked_subcommand is None:
        _answer(OpencodeEvent, state or default_state("opencode"), config, control=control, seed=seed)


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


@_claude_code.command("install")
def install_claude_code(*, config: ConfigOption = None) -> None:
    """Print the settings to add to ~/.claude/settings.json, or to a project's .claude/settings.json."""
    _print_settings(ClaudeCodeEvent, "claude-code", config)


@_codex.command("install")
def install_codex(*, config: ConfigOption = None) -> None:
    """Print the settings to add to ~/.codex/hooks.json, or to a project's .codex/hooks.json."""
    _print_settings(CodexEvent, "codex", config)


@_opencode.command("install")
def install_opencode(*, config: ConfigOption = None) -> None:
    """Print the plugin to save as ~/.config/opencode/plugin/pointsman.js (or in a project's .opencode)."""
    from importlib import resources

    plugin = resources.files("pointsman.integrations.hooks").joinpath("opencode.js").read_text("utf-8")
    program = json_line([*_program(), "hook", "opencode", *_config_arguments(config)])
    echo(plugin.replace('["pointsman", "hook", "opencode"]', program), nl=False)


def _program() -> list[str]:
    found = shutil.which("pointsman")
    return [found] if found else [sys.executable, "-m", "pointsman"]


def _config_arguments(config: Path | None) -> list[str]:
    return ["--config", str(config.resolve())] if config else []


def _print_settings(kind: type[HookEvent], name: str, config: Path | None) -> None:
    try:
        policy = policy_of(config)
    except PointsmanError as error:
        echo(f"pointsman: {error}", err=True)
        raise typer.Exit(FAILED) from None
    command = shlex.join([*_program(), "hook", name, *_config_arguments(config)])
    print_json(settings(command, policy, kind))
