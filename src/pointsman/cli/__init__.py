"""Floor 8: the command line, one file per command.

Exit codes: 0 done; 1 done, but some lines or checks failed; 2 wrong usage or configuration.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import typer

from pointsman.cli.output import report_error
from pointsman.errors import PointsmanError

__all__ = ["app", "main"]

#: Modules that register commands, in the order of ``pointsman --help``.
COMMANDS: Final = (
    "serve",
    "explain",
    "classify",
    "config",
    "decisions",
    "router",
    "sessions",
    "domains",
    "lexicon",
    "watch",
    "hook",
    "report",
    "select",
    "capabilities",
    "run",
    "fit",
    "eval",
    "replay",
    "outcomes",
)


def _version(value: bool) -> None:
    if value:
        from pointsman import __version__

        typer.echo(f"pointsman {__version__}")
        raise typer.Exit


def _build() -> typer.Typer:
    built = typer.Typer(
        name="pointsman",
        help="The decision layer for LLM agents: which model, which guidance, and why.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
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

    for name in COMMANDS:
        import_module(f"pointsman.cli.{name}").register(built)
    return built


app = _build()


def main() -> None:
    """Entry point: a deliberate error is one line and a hint, never a traceback."""
    try:
        app()
    except PointsmanError as error:
        sys.exit(report_error(error))
