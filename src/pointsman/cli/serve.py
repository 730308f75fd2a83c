"""``pointsman serve``: run the gateway, or its demo without a configuration."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from pointsman.catalogue import user_file
from pointsman.cli.output import config_file, echo, needs_extra
from pointsman.cli.terminal import is_terminal
from pointsman.config import Config, examine, load
from pointsman.config.shapes import HASHED
from pointsman.errors import ConfigError
from pointsman.printable import printable

if TYPE_CHECKING:
    from pointsman.cli.request_lines import RequestLines
    from pointsman.diagnostics.client_lines import CallerKey
    from pointsman.gateway.build import Builder

__all__ = ["register"]

#: An address of TEST-NET-1 (RFC 5737): the route to it tells which address this machine has in its network.
_SOME_NETWORK = ("192.0.2.1", 9)

#: The time of a line in the log, with its distance from UTC.
_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Use the built-in demo upstream: no key, no network, no file.")
    ] = False,
    traffic: Annotated[
        bool, typer.Option(help="With --demo: let scripted agents send requests, for something to look at.")
    ] = True,
    requests: Annotated[
        bool | None,
        typer.Option(
            "--requests/--no-requests",
            help="Print one line per request, and a summary at the end. Default: on a terminal.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration; default: pointsman.toml here, then the user's.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to bind, instead of the configured one. Other than loopback needs keys."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port, instead of the configured one; 0 selects a free port."),
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="Log level of decisions; info logs one line per decision.")
    ] = "warning",
) -> None:
    """Start the gateway. Set an agent's base URL to it; nothing else in the agent changes."""
    with needs_extra("gateway", "pointsman serve"):
        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder, demo_config
        from pointsman.gateway.serve import Server, WatchedFile
    _log_to_stderr(log_level)
    file = None if demo else config_file(config)
    builder = Builder(lambda: _listening_on(load(file) if file else demo_config(), host, port), file)
    with closing(builder):
        watch = (
            WatchedFile(file, user_file()) if file else None
        )  # before it is read, so that no change is missed
        state = builder()
        lines = _request_lines(builder) if (is_terminal() if requests is None else requests) else None
        server = Server(Gateway(state), builder if file else None, watch, lines.tell if lines else None)
        with _bound(state.server.host, state.server.port) as listening, _summary(lines, builder, demo=demo):
            key = _caller_key(file if state.server.keys else None)
            _introduce(listening, builder.config, demo=demo, key=key)
            with _demo_traffic(listening) if demo and traffic else nullcontext():
                server.run(sockets=[listening])


def _request_lines(builder: Builder) -> RequestLines:
    from pointsman.cli.request_lines import RequestLines

    # Of the log, the reason of a refusal; its line says it too.
    logging.getLogger("pointsman.gateway._local_replies").setLevel(logging.WARNING)
    return RequestLines(lambda: builder.config.models)


@contextmanager
def _summary(lines: RequestLines | None, builder: Builder, *, demo: bool) -> Iterator[None]:
    """Print what was served, however the gateway ends."""
    try:
        yield
    finally:
        if lines is not None:
            lines.close()
            echo("\n" + "\n".join(lines.totals.lines(builder.config.ledger.path, demo=demo)))


@contextmanager
def _demo_traffic(listening: socket.socket) -> Iterator[None]:
    """Let the scripted agents play while the gateway serves."""
    from pointsman.cli.demo_traffic import DemoTraffic

    host, port = listening.getsockname()[:2]
    echo("Scripted agents play the sessions demo-…; --no-traffic leaves them out.\n")
    playing = DemoTraffic(host, port, time.strftime("%m%d-%H%M%S"))
    playing.start()
    try:
        yield
    finally:
        playing.stop()


def _with_public_name(record: logging.LogRecord) -> bool:
    """Name the package that logs: which of its modules does is no concern of an operator."""
    record.name = record.name.partition("._")[0]
    return True


class _OneLine(logging.Formatter):
    """Writes a message as one line: what is quoted in it can neither forge another nor steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        """Write the line without a traceback."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name in logging
        """Write a traceback, which may quote as well."""
        return printable(super().formatException(ei), keep="\n\t")


def _log_to_stderr(level: str) -> None:
    from pointsman.gateway.log_sampling import LogSampler

    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise ConfigError(f'unknown log level "{level}"', hint="debug, info, warning, error")
    before = list(logging.getLogger().handlers)
    logging.basicConfig()
    for handler in logging.getLogger().handlers:
        handler.addFilter(_with_public_name)
        if handler not in before:  # one of an application's own is its own business
            handler.addFilter(LogSampler(handler))
            handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s", _TIME))
    logging.getLogger("pointsman").setLevel(known[level.upper()])
    logging.getLogger("pointsman.gateway").setLevel(logging.INFO)


def _listening_on(config: Config, host: str | None, port: int | None) -> Config:
    server = config.server
    host, port = server.host if host is None else host, server.port if port is None else port
    return msgspec.structs.replace(config, server=msgspec.structs.replace(server, host=host, port=port))


def _bound(host: str, port: int) -> socket.socket:
    """Bind the address now, so that a port in use is one clear error and port 0 has a number to print."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen()  # what is copied at once waits for the server instead of being refused
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="--port 0 takes a free one; [server] port in pointsman.toml sets another",
        ) from None
    return listening


def _reachable(host: str) -> str:
    """Return an address under which this machine is reached; ``0.0.0.0`` and ``::`` are none."""
    if host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOME_NETWORK)  # a datagram socket: nothing is sent
        except OSError:
            return "127.0.0.1"  # no network: only this machine can call
        address: str = probe.getsockname()[0]
        return address


def _introduce(listening: socket.socket, config: Config, *, demo: bool, key: CallerKey) -> None:
    from pointsman.cli._banner import banner

    host, port = listening.getsockname()[:2]
    host = _reachable(host)
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if demo:
        echo("Pointsman demo: responses come from a built-in upstream; no model is called.\n")
    echo(banner(config, url, key))


def _caller_key(file: Path | None) -> CallerKey:
    """Return how the lines write the first key: by the variable that holds it, where there is one."""
    from pointsman.diagnostics.client_lines import CallerKey

    tables = examine(file).file if file else None
    if tables is None or not (tables.server.keys or tables.keys):
        return CallerKey()
    if not tables.server.keys:
        return CallerKey(is_asked=True)
    key = tables.server.keys[0]
    named = re.fullmatch(r"\$\{(\w+)\}", key.reference)
    is_hash = key.reveal().startswith(HASHED)
    return CallerKey(is_asked=True, variable=named[1] if named and not is_hash else "")
