"""``pointsman serve``: run the gateway, or its demo without a configuration."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pointsman.catalogue import user_file
from pointsman.cli.log_format import LogFormat, log_to_stderr
from pointsman.cli.output import config_file, echo, needs_extra
from pointsman.config import Config, examine, load
from pointsman.config.shapes import HASHED
from pointsman.errors import ConfigError

if TYPE_CHECKING:
    from pointsman.diagnostics.client_lines import CallerKey

__all__ = ["register"]

#: An address of TEST-NET-1 (RFC 5737): the route to it tells which address this machine has in its network.
_SOME_NETWORK = ("192.0.2.1", 9)

log = logging.getLogger("pointsman.gateway.serve")


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
            help="Write one line per request; on standard output a summary at the end, too. "
            "Default: on a terminal, and in a log in JSON.",
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
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of the log: text, or one JSON object a line.")
    ] = LogFormat.TEXT,
) -> None:
    """Start the gateway. Set an agent's base URL to it; nothing else in the agent changes."""
    with needs_extra("gateway", "pointsman serve"):
        from pointsman.cli._served import told_requests
        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder, demo_config
        from pointsman.gateway.serve import Server, WatchedFile, check_bind
    log_to_stderr(log_level, log_format)
    file = None if demo else config_file(config)
    builder = Builder(lambda: _listening_on(load(file) if file else demo_config(), host, port), file)
    with closing(builder):
        watch = (
            WatchedFile(file, user_file()) if file else None
        )  # before it is read, so that no change is missed
        state = builder()
        check_bind(state.server)
        gateway = Gateway(state)
        with (
            _bound(state.server.host, state.server.port) as listening,
            told_requests(
                builder, gateway.metrics, requests=requests, log_format=log_format, demo=demo
            ) as tell,
        ):
            server = Server(gateway, builder if file else None, watch, tell)
            key = _caller_key(file if state.server.keys else None)
            if log_format is LogFormat.JSON:
                log.info("listening on %s", _url(listening))
            else:
                _introduce(listening, builder.config, demo=demo, key=key)
            with _demo_traffic(listening, log_format) if demo and traffic else nullcontext():
                server.run(sockets=[listening])


@contextmanager
def _demo_traffic(listening: socket.socket, log_format: LogFormat) -> Iterator[None]:
    """Let the scripted agents play while the gateway serves."""
    from pointsman.cli.demo_traffic import DemoTraffic

    host, port = listening.getsockname()[:2]
    if log_format is LogFormat.TEXT:
        echo("Scripted agents play the sessions demo-…; --no-traffic leaves them out.\n")
    playing = DemoTraffic(host, port, time.strftime("%m%d-%H%M%S"))
    playing.start()
    try:
        yield
    finally:
        playing.stop()


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

    if demo:
        echo("Pointsman demo: responses come from a built-in upstream; no model is called.\n")
    echo(banner(config, _url(listening), key))


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    host = _reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
