"""``pointsman claude`` and its like: run an agent through a private gateway, and report the cost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from pointsman.cli._listening import log_to_stderr
from pointsman.cli.output import echo, needs_extra
from pointsman.cli.terminal import is_terminal
from pointsman.config import Config, find, load
from pointsman.config.draft import Found, address_notes, draft, find_local, find_providers
from pointsman.config.edit import set_value, write_file
from pointsman.config.files import PROJECT, state_file
from pointsman.config.load import users_file
from pointsman.config.local import is_gateway
from pointsman.errors import ConfigError, PointsmanError

if TYPE_CHECKING:
    from pointsman.diagnostics.clients import CallerKey, Command


#: Command -> the client as ``diagnostics.clients`` names it.
AGENTS: Final = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "opencode",
    "qwen": "Qwen Code",
    "aider": "aider",
}
#: Variables that an agent would present to the gateway, or complain about, instead of what it is given.
_IN_THE_WAY: Final = {"claude": ("ANTHROPIC_API_KEY",)}
#: What each agent is installed by.
_PACKAGES: Final = {
    "claude": "npm install -g @anthropic-ai/claude-code",
    "codex": "npm install -g @openai/codex",
    "opencode": "npm install -g opencode-ai",
    "qwen": "npm install -g @qwen-code/qwen-code",
    "aider": "pipx install aider-chat",
}
#: Arguments for each agent, as an example.
_EXAMPLES: Final = {
    "claude": '-p "Explain this project"',
    "codex": 'exec "Explain this project"',
    "opencode": 'run "Explain this project"',
    "qwen": '-p "Explain this project"',
    "aider": '-m "Explain this project"',
}
#: Bytes of the log of launched gateways, and of the one before it.
_LOG_BYTES: Final = 1 << 20
#: To a shell, a process that signal N has ended returns this and N.
_BY_SIGNAL: Final = 128


def _launcher(name: str) -> Callable[[typer.Context], None]:
    def launch(context: typer.Context) -> None:
        raise typer.Exit(_launch(name, context.args))

    return launch


#: A command for each agent.
agents: Final = typer.Typer()
for _name, _client in AGENTS.items():
    agents.command(
        _name,
        help=f"Run {_client} through a gateway; arguments are {_client}'s own.\n\n"
        f"Example: pointsman {_name} {_EXAMPLES[_name]}",
        context_settings={
            "ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--help"]
        },
    )(_launcher(_name))  # fmt: skip


def _launch(name: str, arguments: list[str]) -> int:
    """Run an agent; return its exit code."""
    program = shutil.which(name)
    if program is None:
        raise PointsmanError(f"there is no {name} on the PATH", hint=f"{_PACKAGES[name]} installs it")
    with needs_extra("gateway", f"pointsman {name}"):
        import pointsman.gateway.serve  # noqa: F401 - before anything is asked or written
    file = find() or _first_run()
    config = load(file)
    with _gateway(name, file, config) as url:
        command = _command(name, url, config, file)
        environment = {key: value for key, value in os.environ.items() if key not in _hidden(name, command)}
        return _run([program, *command.arguments[1:], *arguments], environment | command.environment)


def _hidden(name: str, command: Command) -> tuple[str, ...]:
    """Return the variables that the agent does not see: none, if it logs in by itself."""
    return _IN_THE_WAY.get(name, ()) if "ANTHROPIC_AUTH_TOKEN" in command.environment else ()


def _command(name: str, url: str, config: Config, file: Path) -> Command:
    """Return what ``pointsman serve`` prints for this agent, taken apart."""
    from pointsman.cli._listening import caller_key
    from pointsman.diagnostics.clients import CLIENTS, judge_clients, lines_to_copy, split_line

    [verdict] = judge_clients(config, [each for each in CLIENTS if each.name == AGENTS[name]])
    if not verdict.fits:
        raise ConfigError(f"{file} cannot serve {AGENTS[name]}: {verdict.detail}", hint=verdict.hint)
    key = caller_key(file if config.server.keys else None)
    line = lines_to_copy(config, [verdict], url, key)[AGENTS[name]]
    return split_line(line, _with_key(key))


def _with_key(key: CallerKey) -> Mapping[str, str]:
    if key.is_asked and not os.environ.get(key.variable):
        variable = key.variable or "POINTSMAN_KEY"
        raise ConfigError(
            "the gateway asks for a key, and no variable of the environment holds it",
            hint=f'keys = ["${{{variable}}}"] under [server], and export {variable}=…',
        )
    return os.environ


@contextmanager
def _gateway(name: str, file: Path, config: Config) -> Iterator[str]:
    """Yield the address of the gateway that runs at the configured address, else of one for this agent."""
    from pointsman.gateway.listening import address

    usual = f"http://{address(config.server.host, config.server.port)}"
    if config.server.port and is_gateway(usual):
        echo(f"pointsman: uses the gateway at {usual}; costs: {usual}/console", err=True)
        yield usual
        return
    with _own_gateway(name, file) as url:
        yield url


@contextmanager
def _own_gateway(name: str, file: Path) -> Iterator[str]:
    """Serve on a free port of loopback, in a thread, until the agent has ended; then print the sums."""
    from pointsman.cli._listening import listening_on
    from pointsman.cli._served import Totals, print_summary
    from pointsman.gateway.app import Gateway
    from pointsman.gateway.build import Builder
    from pointsman.gateway.listening import address, bound
    from pointsman.gateway.request_log import ServedRequest
    from pointsman.gateway.serve import Server

    log = state_file("gateway.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log_to_stderr("warning", handler=RotatingFileHandler(log, maxBytes=_LOG_BYTES, backupCount=1, delay=True))
    totals, began = Totals(), time.time()
    sessions: set[str] = set()  # bounded by the agent's own: a gateway of one agent

    def tell(served: ServedRequest) -> None:
        totals.add(served, builder.config.models)
        if served.decision is not None:
            sessions.add(served.decision.input.session)

    with ExitStack() as stack:
        builder = stack.enter_context(
            closing(Builder(lambda: listening_on(load(file), "127.0.0.1", 0), file))
        )
        gateway = Gateway(builder())
        listening = stack.enter_context(bound("127.0.0.1", 0))
        server = Server(gateway, tell=tell)
        url = f"http://{address(*listening.getsockname()[:2])}"
        serving = threading.Thread(target=server.run, args=([listening],), name="gateway", daemon=True)
        serving.start()
        echo(f"pointsman: gateway at {url} until {name} ends, console {url}/console, log {log}", err=True)
        try:
            yield url
        finally:
            server.should_exit = True
            serving.join()
            builder.flush()
            print_summary(builder.config, totals, began, sessions=sessions)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run a program in the foreground: it alone handles Ctrl-C, and SIGTERM is passed to it."""
    before = {
        signal.SIGINT: signal.getsignal(signal.SIGINT),
        signal.SIGTERM: signal.getsignal(signal.SIGTERM),
    }
    signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the program would inherit
    try:
        with subprocess.Popen(command, env=environment) as process:  # noqa: S603 - what the user asked for
            signal.signal(signal.SIGTERM, lambda *_: process.terminate())
            code = process.wait()
    except OSError as error:
        raise PointsmanError(f"cannot run {command[0]}: {error.strerror}") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return _BY_SIGNAL - code if code < 0 else code


def _first_run() -> Path:
    """Ask the three questions of the first run, and write the answers into the user's own configuration.

    Without a terminal the defaults are taken and printed.

    Raises:
        ConfigError: no provider can be asked.
    """
    found = find_providers(os.environ) or find_local()
    if not found:
        raise ConfigError(
            "no key of a provider is in the environment, and no model server listens on this machine",
            hint="export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY); "
            "with an agent's login: pointsman config init --from-audit passes it on (forward_auth)",
        )
    for line in address_notes(found):
        echo(f"pointsman: {line}", err=True)
    is_asked = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    ask = _ask if is_asked else _default
    text = draft(_chosen(found, ask))
    if (
        ask(
            "May hints for a stuck agent, and guidance for the task, be added to prompts?",
            "no",
            ["yes", "no"],
        )
        == "yes"
    ):
        for table in ("guidance", "domains"):
            text = set_value(text, (table, "mode"), '"on"')
    if ask("One ledger per project, or one for all?", "project", ["project", "all"]) == "project":
        place = state_file("projects") / PROJECT / "ledger.sqlite"
        text = set_value(text, ("ledger", "path"), json.dumps(str(place), ensure_ascii=False))
    file = users_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text)
    echo(f"pointsman: wrote {file}; pointsman config check explains it", err=True)
    return file


def _chosen(found: list[Found], ask: Callable[[str, str, list[str]], str]) -> list[Found]:
    """Return the providers that serve."""
    names = [each.name for each in found]
    if len(found) == 1:
        ask("Which provider serves?", names[0], names)
        return found
    name = ask("Which provider serves?", "all", ["all", *names])
    return [each for each in found if name in {"all", each.name}]


def _ask(question: str, default: str, choices: list[str]) -> str:
    while True:
        answer: str = typer.prompt(f"{question} ({', '.join(choices)})", default, err=True)
        if answer in choices:
            return answer


def _default(question: str, default: str, choices: list[str]) -> str:
    echo(f"pointsman: {question} {default} (no terminal to ask at; of {', '.join(choices)})", err=True)
    return default
