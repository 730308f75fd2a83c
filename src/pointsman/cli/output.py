"""Shared by all commands: errors, JSON output, and reading lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Protocol, cast

import msgspec
import typer
from typer.core import TyperGroup

from pointsman.cli.terminal import end_progress, is_terminal, progress, show_table
from pointsman.errors import ConfigError, MissingExtra, PointsmanError
from pointsman.printable import Block, Column, TextTable, csv_text, plain_rows, printable, printable_json

if TYPE_CHECKING:
    from pointsman.config import Config

FAILED: Final = 1  # done, but some lines or checks failed
USAGE: Final = 2  # wrong usage or configuration

_encoder: Final = msgspec.json.Encoder()


class HelpWriter(Protocol):
    """What typer hands to a group for its help: the part used here."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Indent the lines under a heading."""

    def write_dl(self, rows: list[tuple[str, str]]) -> None:
        """Write a list of names and their descriptions."""


class Group(TyperGroup):
    """A group of commands. Its help gives the first paragraph of each, however long."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group. Without any argument, its help shows the commands."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:  # as completion parses
            echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: object, formatter: HelpWriter) -> None:  # noqa: ARG002 - typer's own
        """Write the commands."""
        summaries = {
            name: first_paragraph(command.help)
            for name, command in self.commands.items()
            if not command.hidden
        }
        write_commands("Commands", summaries, formatter)


class OpenGroup(Group):
    """A group to which installed packages add commands: looked up when no own command has the name."""

    kind = "report"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if no package offers one."""
        return super().get_command(ctx, cmd_name) or plugin_command(self.kind, cmd_name)


def plugin_command(kind: str, name: str) -> Any:
    """Return the command of a package, a function or a ``typer.Typer``; None if no package offers one."""
    from pointsman.plugins import load

    offered = load(kind, name)
    return offered and command_of(name, offered)


def command_of(name: str, offered: Any) -> Any:
    """Return the command of a function, or of a group; of several commands in one, the one of this name."""
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.callback()(lambda: None)  # with a callback, an app of one command is a group too
    if isinstance(offered, typer.Typer):
        alone.add_typer(offered, name=name)
    else:
        alone.command(name)(offered)
    found: Any = cast("TyperGroup", typer.main.get_command(alone)).commands[name]
    return getattr(found, "commands", {}).get(name, found)


class SlowGroup(Group):
    """A group of commands that may take a while, and show it on a terminal."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is asked for."""
        with progress(ctx.command_path):
            return super().invoke(ctx)


def write_commands(heading: str, summaries: Mapping[str, str], formatter: HelpWriter) -> None:
    """Write commands and what each does under a heading."""
    with formatter.section(heading):
        formatter.write_dl(list(summaries.items()))


def first_paragraph(text: str | None) -> str:
    """The first paragraph of a command's help, as one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def report_error(error: PointsmanError) -> int:
    """Print one line, and if known the way out and the page about it. Returns the exit code."""
    hint = error.hint
    if isinstance(error, MissingExtra):  # which does not know how this copy was installed
        from pointsman.diagnostics import install_command

        hint = install_command(error.extra)
    echo(f"pointsman: {error.message}", err=True)
    if hint:
        echo(f"  hint: {hint}", err=True)
    # One that is about an option says all there is to say.
    if type(error) is not PointsmanError and (place := _documentation()):
        echo(f"  docs: {place}{error.docs}", err=True)
    return USAGE


def _documentation() -> str:
    """Return the address of the documentation that the distribution names, else its folder in a checkout.

    A wheel without an address has neither: "".
    """
    from importlib.metadata import PackageNotFoundError, metadata  # only for an error

    try:
        addresses = metadata("pointsman").get_all("Project-URL") or ()
    except PackageNotFoundError:
        addresses = ()
    known: dict[str, str] = dict(address.split(", ", 1) for address in addresses)
    folder = "docs/" if (Path(__file__).parents[3] / "docs").is_dir() else ""
    return known.get("Documentation", folder).removesuffix("README.md")


def json_line(value: object) -> str:
    """One line of JSON."""
    return printable_json(_encoder.encode(value).decode())


def print_json(value: object) -> None:
    """Indented JSON on standard output."""
    echo(printable_json(msgspec.json.format(_encoder.encode(value), indent=2).decode()))


def read_config(named: Path | None) -> Config:
    """Return the configuration that is named, or found; the defaults without one. Its keys need not be set.

    Raises:
        ConfigError: the file is wrong.
    """
    from pointsman.config import AnyKey, Config, find, load

    file = named or find()
    return load(file, AnyKey()) if file else Config()


def check_profile(profile: str | None, config: Path | None) -> None:
    """Refuse --profile together with --config.

    Raises:
        PointsmanError: both are given.
    """
    if profile is not None and config is not None:
        raise PointsmanError("--profile and --config exclude each other", hint="profile is a key of [tiers]")


def require_model(config: Config, name: str) -> None:
    """Refuse a model that is not configured.

    Raises:
        ConfigError: it is not.
    """
    if name not in config.models:
        raise ConfigError(f'no model "{name}"', hint=f"configured: {', '.join(config.models) or 'none'}")


def config_file(named: Path | None) -> Path:
    """Return the configuration to read: the one named, else the one that is found.

    Raises:
        ConfigError: none is named and none is found.
    """
    from pointsman.config import find

    file = named or find()
    if file is None:
        raise ConfigError(
            "there is no pointsman.toml",
            hint="pointsman config init writes one; pointsman serve --demo needs none",
        )
    return file


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, without anything in it that steers a terminal. Commands print by this function alone."""
    end_progress(err=err)
    typer.echo(printable(text, keep="\n\t"), err=err, nl=nl)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under headings: on a terminal in its width, elsewhere and where it is too narrow whole."""
    if is_terminal() and rows and show_table(columns, list(TextTable(columns, rows).shown())):
        return
    for line in plain_rows(columns, rows):
        echo(line)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print the lines and tables of a report."""
    for block in blocks:
        if isinstance(block, str):
            echo(block)
        else:
            print_table(*block)


def print_either(value: object, *blocks: Block, as_json: bool) -> None:
    """Print a value as JSON, or lines and tables for a person."""
    if as_json:
        print_json(value)
    else:
        print_blocks(blocks)


def print_rows(values: Iterable[object], table: TextTable, *, as_json: bool) -> None:
    """Print values as JSON, one a line, or a table for a person."""
    if as_json:
        for value in values:
            echo(json_line(value))
    else:
        print_table(*table)


class Report(Protocol):
    """The forms of a report: for a program, and for a person."""

    def to_json(self) -> object:
        """Plain values."""

    def blocks(self) -> Iterable[Block]:
        """Lines and tables."""


def print_report(report: Report, *, as_json: bool, as_csv: bool = False) -> None:
    """Print a report as JSON, its tables as CSV, or all of it for a person.

    Raises:
        PointsmanError: both are asked for, or CSV of a report without a table.
    """
    if as_json and as_csv:
        raise PointsmanError("give --json or --csv", hint="--csv prints the tables, --json all figures")
    if as_json:
        print_json(report.to_json())
    elif not as_csv:
        print_blocks(list(report.blocks()))
    elif tables := [block for block in report.blocks() if isinstance(block, TextTable)]:
        echo(csv_text(tables), nl=False)
    else:
        raise PointsmanError("this report has no table to print as CSV", hint="--json prints its figures")


@contextmanager
def needs_extra(extra: str, needed_for: str) -> Iterator[None]:
    """Turn a failed import of an optional dependency into the name of the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra(extra, needed_for=needed_for) from error


def standard_input() -> BinaryIO:
    """Standard input, unread. On a terminal a line reports that it waits.

    Raises:
        PointsmanError: it is closed.
    """
    if sys.stdin is None:
        raise PointsmanError("standard input is closed", hint="give it a file, or name one")
    if sys.stdin.isatty():
        echo("pointsman: reading standard input; Ctrl-D ends it", err=True)
    return sys.stdin.buffer


def read_lines(file: Path | None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered, non-blank lines of a file, or of standard input when ``file`` is None or ``-``.

    A file with a name that ends in ``.gz`` is decompressed.

    Raises:
        PointsmanError: the file cannot be read.
    """
    from pointsman.jsonl import numbered, numbered_lines

    if file is None or str(file) == "-":
        yield from numbered(standard_input())
    else:
        yield from numbered_lines(file)


def writable(file: Path) -> Path:
    """Return a file to be written later: what takes minutes to make is refused a wrong place beforehand.

    Raises:
        PointsmanError: it is a folder, or there is none to put it in.
    """
    if file.is_dir() or not file.parent.is_dir():
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise PointsmanError(f"cannot write {file}: {why}")
    return file


def save(file: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        PointsmanError: it cannot be written.
    """
    try:
        file.write_bytes(data)
    except OSError as error:
        raise PointsmanError(f"cannot write {file}: {error.strerror or error}") from error


def utc_time(seconds: float) -> str:
    """Return a time since the epoch in UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration; default: pointsman.toml here, then the user's."),
]
LearnedRouterOption = Annotated[
    Path | None, typer.Option("--learned-router", help="Learned router file, written by pointsman fit tiers.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the tables as CSV.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", help="Ledger file, or address of PostgreSQL; default: the configured one."),
]
DemoOption = Annotated[bool, typer.Option("--demo", help="Read the ledger of pointsman serve --demo.")]
MarginOption = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Success, of 1, that a cheaper model may lose and still be good enough: chosen before outcomes "
        "are seen.",
    ),
]

#: What learning and measuring read, and which two of its models are meant.
OutcomesOption = Annotated[
    Path, typer.Option("--data", help="JSON lines: prompt, weak, strong; or prompt, scores.")
]
WeakOption = Annotated[str, typer.Option("--weak", help="Weak model, if lines have scores by model.")]
StrongOption = Annotated[str, typer.Option("--strong", help="Strong model, if lines have scores by model.")]
