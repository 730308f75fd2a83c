"""Floor 8: the command line, one file per group of commands.

Exit codes: 0 done; 1 done, but some lines or checks failed, or the reader of the output closed it; 2 wrong
usage or configuration (1 for ``hook``); 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import Any, TypeAlias, cast

import typer
from typer.core import TyperCommand, TyperGroup

from pointsman.cli.output import (
    FAILED,
    USAGE,
    Group,
    HelpWriter,
    command_of,
    echo,
    plugin_command,
    report_error,
    write_commands,
)
from pointsman.cli.summaries import COMMANDS, HEADINGS, PLACES, is_first_time, welcome
from pointsman.errors import PointsmanError

__all__ = ["app", "main"]

Command: TypeAlias = TyperCommand | TyperGroup


class _Commands(Mapping[str, Command]):
    """Every command by name. Only the module of the requested command is imported."""

    def __getitem__(self, name: str) -> Command:
        if name not in COMMANDS:
            raise KeyError(name)
        module, _, attribute = PLACES.get(name, name).partition(":")
        offered = getattr(import_module(f"pointsman.cli.{module}"), attribute or name)
        return cast("Command", command_of(name, offered))

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Root(Group):
    """``pointsman`` itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds to it

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options. Without any argument, say what to begin with, or show the commands."""
        if not args and not ctx.resilient_parsing and is_first_time():
            echo("\n".join(welcome()))
            ctx.exit()
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; if Pointsman has none, an installed package may offer it."""
        return super().get_command(ctx, cmd_name) or plugin_command("command", cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; say where the work of many rows is done."""
        if args[0] == "batch":
            raise PointsmanError(
                'no such command "batch"',
                hint="pointsman classify --in 'x/*.parquet' --out DIR decides rows; replay has --in too",
            )
        if args[0] == "gemini" and self.get_command(ctx, args[0]) is None:
            raise PointsmanError(
                "Gemini CLI speaks generateContent, a format that the gateway does not serve",
                hint="pointsman qwen runs its sibling; pointsman audit reads the logs of Gemini CLI",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: object, formatter: HelpWriter) -> None:  # noqa: ARG002 - typer's own
        for heading, summaries in HEADINGS.items():
            write_commands(heading, summaries, formatter)


def _version(value: bool) -> None:
    if value:
        from pointsman import __version__

        echo(f"pointsman {__version__}")
        raise typer.Exit


def _build() -> typer.Typer:
    built = typer.Typer(
        name="pointsman",
        cls=_Root,
        help="The decision layer for LLM agents: model tier, task domains, guidance and capabilities.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @built.callback()
    def root(
        *,
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        pass

    return built


app = _build()


def main() -> None:
    """Entry point. An error is one line and a hint, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character gets "?" in its place
            stream.reconfigure(errors="replace")
    code = _run()
    # To an agent that calls a hook, 2 says that the prompt or the tool is to be blocked.
    sys.exit(FAILED if code == USAGE and sys.argv[1:2] == ["hook"] else code)


def _run() -> int | None:
    try:
        code: int | None = app(prog_name="pointsman", standalone_mode=False)
    except PointsmanError as error:
        return report_error(error)
    except typer.TyperException as error:
        return report_error(_wrong_usage(error))
    except typer.Abort:  # a question got no answer
        return FAILED
    except OSError as error:  # a file someone named, or the disk behind the output
        place = f"{error.filename}: " if error.filename else ""
        return report_error(PointsmanError(f"{place}{error.strerror or error}"))
    return code


def _wrong_usage(error: typer.TyperException) -> PointsmanError:
    context = getattr(error, "ctx", None)  # of the command that was parsed, where there is one
    command = context.command_path if context else "pointsman"
    return PointsmanError(error.format_message(), hint=f"{command} --help")
