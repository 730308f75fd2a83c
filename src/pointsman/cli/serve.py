"""``pointsman serve``: run the gateway, or its demo without a configuration."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.catalogue import user_file
from pointsman.cli._listening import announce, demo_traffic, listening_on
from pointsman.cli.log_format import LogFormat, log_to_stderr
from pointsman.cli.output import config_file, needs_extra
from pointsman.config import load
from pointsman.config.trust import record_of

__all__ = ["register"]

#: More than the cores of a large machine; each takes 100 MB.
MOST_WORKERS: Final = 64


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
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_WORKERS, help="Processes that serve, instead of the configured number."),
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
        from pointsman.cli._workers import WorkerOptions, serve_with_workers
        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder, demo_config
        from pointsman.gateway.listening import bound
        from pointsman.gateway.reloading import WatchedFile
        from pointsman.gateway.serve import Server, check_bind
    log_to_stderr(log_level, log_format)
    file = None if demo else config_file(config)
    watch = (
        WatchedFile(file, user_file(), record_of(file)) if file else None
    )  # before it is read: no change is missed
    read = [load(file) if file else demo_config()]
    count = read[0].server.workers if workers is None else workers
    if count > 1:
        options = WorkerOptions(file, host, port, log_level, log_format, requests)
        serve_with_workers(count, listening_on(read[0], host, port), options, traffic=demo and traffic)
        return
    builder = Builder(
        lambda: listening_on(read.pop() if read else load(file) if file else demo_config(), host, port), file
    )
    with closing(builder):
        state = builder()
        check_bind(state.server)
        gateway = Gateway(state)
        with (
            bound(state.server.host, state.server.port) as listening,
            told_requests(
                builder, gateway.metrics, requests=requests, log_format=log_format, demo=demo
            ) as tell,
        ):
            server = Server(gateway, builder if file else None, watch, tell)
            announce(listening, builder.config, demo=demo, log_format=log_format)
            with demo_traffic(listening, log_format) if demo and traffic else nullcontext():
                server.run(sockets=[listening])
