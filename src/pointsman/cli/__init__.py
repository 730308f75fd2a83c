"""Floor 8: the command line, one file per group of commands.

``pointsman --help`` imports no command and no configuration: the summary of each command is here, and
``tests/cli/test_start.py`` compares it with the first paragraph of the command's own help.

Exit codes: 0 done; 1 done, but some lines or checks failed, or the reader of the output closed it; 2 wrong
usage or configuration (1 for ``hook``); 130 interrupted.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, cast

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
from pointsman.errors import PointsmanError

__all__ = ["COMMANDS", "HEADINGS", "app", "main"]

#: Heading of ``pointsman --help`` -> command -> summary. A command is an object of the module of its
#: name, or the one that ``PLACES`` names.
HEADINGS: Final = {
    "Run an agent": {
        "claude": "Run Claude Code through a gateway; arguments are Claude Code's own.",
        "codex": "Run Codex through a gateway; arguments are Codex's own.",
        "opencode": "Run opencode through a gateway; arguments are opencode's own.",
        "qwen": "Run Qwen Code through a gateway; arguments are Qwen Code's own.",
        "aider": "Run aider through a gateway; arguments are aider's own.",
    },
    "Serve agents": {
        "serve": "Start the gateway. Set an agent's base URL to it; nothing else in the agent changes.",
        "ext-proc": "Decide for Envoy: serve its external processing filter over gRPC.",
        "open": "Open the console of the gateway that runs, or the page of one decision, in a browser.",
        "config": "Check, show or write the configuration file, or print its JSON Schema.",
        "trust": "Trust the configuration of a folder: the code that it runs, and the secrets that it uses.",
        "keys": "Make, list or revoke the keys of callers.",
        "models": "Models: list and show what is known, update the catalogue.",
        "router": "Show the routing, choose the classifier model, run the doctor.",
        "decisions": "List, show or export decisions.",
        "sessions": "List, show or delete session memory.",
        "ledger": "Copy ledgers between files and databases; migrate them.",
        "mcp": "Serve decide, explain, decisions and label to an MCP client over standard input and output.",
        "hook": "Guidance through the hooks of an agent.",
    },
    "Decide": {
        "explain": "Explain the decision for a prompt: signals, weights, and what would have changed it.",
        "classify": (
            'Classify prompts: JSON lines {"id", "text"} or {"id", "messages", "format"} in, '
            "one line each out."
        ),
        "select": 'Select capabilities: JSON lines {"id", "task"} in, {"id", "selected", "scores", …} out.',
        "watch": "Show where guidance would fire in recorded runs: one JSON line per firing.",
        "run": "Execute one task and print the answer; the router's moves go to standard error.",
    },
    "Learn and measure": {
        "audit": "Audit the logs of agents on this machine: costs, and where agents were stuck.",
        "outcomes": "Import, derive, judge and export outcomes of decisions.",
        "fit": "Train on your own outcomes.",
        "eval": "Evaluate routers and classifiers on labelled data.",
        "replay": (
            "Decide recorded requests again under another policy, oldest first, and report the changes."
        ),
        "report": (
            "Report savings, change, roles, projects, kinds, quality, escalation, drift, shadow, agreement "
            "and guidance."
        ),
    },
    "Patterns and descriptions": {
        "lexicon": "Check the patterns of a lexicon, a tier profile or a domain file.",
        "domains": "Check a file of task domains.",
        "capabilities": "Capabilities: list and check them.",
    },
}
#: Command -> ``module:object`` in this package, where it is not a module and an object of the command's name.
PLACES: Final = {
    **dict.fromkeys(HEADINGS["Run an agent"], "launch:agents"),
    "ext-proc": "serve:ext_proc",
    "open": "serve:open_page",
    "mcp": "serve:serve_tools",
    "trust": "config:trust_file",
    "keys": "config:keys",
    "explain": "explain:explain_text",
    "models": "routing:models",
    "router": "routing:router",
    "select": "tasks:select",
    "run": "tasks:run",
    "lexicon": "patterns:lexicon",
    "domains": "patterns:domains",
    "capabilities": "patterns:capabilities",
    "eval": "eval:evaluate",
}
COMMANDS: Final = tuple(chain.from_iterable(HEADINGS.values()))

Command: TypeAlias = TyperCommand | TyperGroup


@cache  # making a group reads the signatures of all its commands, and whether a command exists is asked too
def _command(name: str) -> Command:
    if name not in COMMANDS:
        raise KeyError(name)
    module, _, attribute = PLACES.get(name, name).partition(":")
    offered = getattr(import_module(f"pointsman.cli.{module}"), attribute or name)
    return cast("Command", command_of(name, offered))


class _Commands(Mapping[str, Command]):
    """Every command by name. Only the module of the requested command is imported."""

    def __getitem__(self, name: str) -> Command:
        return _command(name)

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
        """Find the command; say which group has one of the name, and where the work of many rows is done."""
        if args[0] == "batch":
            raise PointsmanError(
                'no such command "batch"',
                hint="pointsman classify --in 'x/*.parquet' --out DIR decides rows; replay has --in too",
            )
        if self.get_command(ctx, args[0]) is None:
            if args[0] == "gemini":
                raise PointsmanError(
                    "Gemini CLI speaks generateContent, a format that the gateway does not serve",
                    hint="pointsman qwen runs its sibling; pointsman audit reads the logs of Gemini CLI",
                )
            inner = [name for name in COMMANDS if args[0] in getattr(_command(name), "commands", ())]
            if inner:
                hint = " or ".join(f"pointsman {name} {args[0]}" for name in inner)
                raise PointsmanError(f'no such command "{args[0]}"', hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: object, formatter: HelpWriter) -> None:  # noqa: ARG002 - typer's own
        for heading, summaries in HEADINGS.items():
            write_commands(heading, summaries, formatter)


#: Columns of what was looked for, and of what was found.
_KIND: Final = 15
_FOUND: Final = 44


class _Found(NamedTuple):
    kind: str
    names: list[str]
    command: str


def is_first_time() -> bool:
    """Whether there is neither a configuration nor a ledger."""
    from pointsman.config import find
    from pointsman.config.files import state_file

    return find() is None and not state_file("ledger.sqlite").exists()


def welcome() -> Iterator[str]:
    """Yield the lines. They look at this machine alone: programs, variables, local servers and logs."""
    yield "Pointsman decides for each request of an agent which model serves it, and sees when it is stuck."
    yield ""
    for found in _on_this_machine():
        names = ", ".join(found.names) or "none"
        yield f"  {found.kind:<{_KIND}}{names:<{_FOUND}}{found.command if found.names else ''}".rstrip()
    yield ""
    yield "Without any of them: pointsman serve --demo. All commands: pointsman --help"
    yield "Only this machine was looked at. Nothing was sent or written, and nothing is downloaded later."


def _on_this_machine() -> Iterator[_Found]:
    from pointsman.audit import Collection, Home, sources
    from pointsman.cli.launch import AGENTS
    from pointsman.config.draft import PROVIDERS, find_local

    logs = Collection(Home.at(None), sources()).found()
    yield _Found("Logs", [f"{name} ({count:,})" for name, count in logs.items()], "pointsman audit")
    agents = [name for name in AGENTS if shutil.which(name)]
    keys = [each.variable for each in PROVIDERS if os.environ.get(each.variable)]
    servers = [found.name for found in find_local()]
    launched = f"pointsman {agents[0]}" if agents and (keys or servers) else "needs a key or a model server"
    yield _Found("Agents", agents, launched)
    yield _Found("Keys", keys, "pointsman config init && pointsman serve")
    yield _Found("Model servers", servers, "pointsman config init --local && pointsman serve")


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
    try:
        sys.stdout.flush()
    except OSError:  # said by now, and not again when Python ends and writes what is left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # To an agent that calls a hook, 2 says that the prompt or the tool is to be blocked.
    sys.exit(FAILED if code == USAGE and sys.argv[1:2] == ["hook"] else code)


def _run() -> int | None:
    try:
        code: int | None = app(prog_name="pointsman", standalone_mode=False)
        sys.stdout.flush()
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
