"""Floor 8: the command line, one file per command.

Exit codes: 0 done; 1 done, but some lines or checks failed; 2 wrong usage or configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from pointsman.cli.output import report_error
from pointsman.errors import PointsmanError

__all__ = ["app", "main"]

if TYPE_CHECKING:
    from typer._click import Command

#: Modules that register the command of their name, in the order of ``pointsman --help``.
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


class _Commands(Mapping[str, "Command"]):
    """Every command by name. Its module is imported when it is asked for, and no other's."""

    def __getitem__(self, name: str) -> Command:
        if name not in COMMANDS:
            raise KeyError(name)
        alone = typer.Typer()
        import_module(f"pointsman.cli.{name}").register(alone)
        return typer.main.get_group(alone).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Root(TyperGroup):
    """``pointsman`` itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds to it


def _version(value: bool) -> None:
    if value:
        from pointsman import __version__

        typer.echo(f"pointsman {__version__}")
        raise typer.Exit


def _build() -> typer.Typer:
    built = typer.Typer(
        name="pointsman",
        cls=_Root,
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

    return built


app = _build()


def main() -> None:
    """Entry point: a deliberate error is one line and a hint, never a traceback."""
    try:
        app()
    except PointsmanError as error:
        sys.exit(report_error(error))
