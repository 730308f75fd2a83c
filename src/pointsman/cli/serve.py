"""``pointsman serve``, ``ext-proc``, ``mcp`` and ``open``: run a server, or open the console of one."""

from __future__ import annotations

import logging
import socket
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from pointsman.cli._listening import (
    LogFormat,
    announce,
    demo_traffic,
    ignore_early_reload,
    listening_on,
    log_to_stderr,
)
from pointsman.cli.output import ConfigOption, config_file, echo, needs_extra, read_config
from pointsman.config import find_named, http_address, load
from pointsman.errors import ConfigError, PointsmanError
from pointsman.printable import without_credentials

#: More than the cores of a large machine; each takes 100 MB.
MOST_WORKERS: Final = 64


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
    config: ConfigOption = None,
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
    if not demo:  # which reloads nothing
        ignore_early_reload()
    with needs_extra("gateway", "pointsman serve"):
        from pointsman.cli._served import told_requests
        from pointsman.config.shapes import demo_config
        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder
        from pointsman.gateway.listening import bound
        from pointsman.gateway.serve import Server, check_bind
    log_to_stderr(log_level, log_format)
    file = None if demo else config_file(config)
    builder = Builder(lambda: listening_on(load(file) if file else demo_config(), host, port), file)
    count = builder.config.server.workers if workers is None else workers
    if count > 1:
        from pointsman.cli._workers import WorkerOptions, serve_with_workers  # one process needs none

        options = WorkerOptions(file, host, port, log_level, log_format, requests)
        serve_with_workers(count, builder.config, options, traffic=demo and traffic)
        return
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
            server = Server(gateway, builder, tell)
            announce(listening, builder.config, demo=demo, log_format=log_format)
            with demo_traffic(listening, log_format) if demo and traffic else nullcontext():
                server.run(sockets=[listening])


log = logging.getLogger("pointsman.ext_proc")


def ext_proc(
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Decide with the configuration of the demo.")] = False,
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on, instead of that of [ext_proc].")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port, instead of that of [ext_proc]; 0 selects a free port."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="Log level of decisions.")] = "warning",
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of the log: text, or one JSON object a line.")
    ] = LogFormat.TEXT,
) -> None:
    """Decide for Envoy: serve its external processing filter over gRPC."""
    if not demo:  # which reloads nothing
        ignore_early_reload()
    with needs_extra("gateway", "pointsman ext-proc"):
        from pointsman.cli._served import told_requests
        from pointsman.config.shapes import demo_config
        from pointsman.gateway.build import Builder
    with needs_extra("extproc", "pointsman ext-proc"):
        from pointsman.ext_proc.server import ExtProcServer, gateway_for, run
    log_to_stderr(log_level, log_format)
    log.setLevel(logging.INFO)
    file = None if demo else config_file(config)
    builder = Builder(
        lambda: listening_on(load(file) if file else demo_config(), host, port, "ext_proc"), file
    )
    with closing(builder):
        state = builder()
        spec = builder.config.ext_proc
        gateway = gateway_for(state, spec)
        with told_requests(builder, gateway.metrics, requests=None, log_format=log_format, demo=demo) as tell:
            server = ExtProcServer(gateway, spec, tell, builder)
            is_json = log_format is LogFormat.JSON
            run(server, gateway, spec, lambda said: log.info("%s", said) if is_json else echo(said))


def serve_tools(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Configuration; default: POINTSMAN_CONFIG, then the user's; never the one here."
        ),
    ] = None,
) -> None:
    """Serve decide, explain, decisions and label to an MCP client over standard input and output.

    Only label writes: an outcome, into the ledger. A client starts it in the folder of a project, so a
    pointsman.toml there counts only if --config names it. Needs the extra mcp.
    """
    from pointsman.api import Pointsman
    from pointsman.integrations.mcp import build_server

    file = config or find_named()
    if file is None:
        raise ConfigError(
            "no configuration is named",
            hint="--config FILE names one; pointsman mcp does not look in the working directory",
        )
    with Pointsman.from_config(file) as points:
        build_server(points).run("stdio")


#: Seconds in which a gateway on this machine accepts a connection.
_PATIENCE: Final = 2.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def open_page(
    decision_id: Annotated[
        str,
        typer.Argument(metavar="[ID]", help="Decision id; without one, the page of what happens now."),
    ] = "",
    *,
    url: Annotated[str, typer.Option(help="Address of the gateway; default: the configured one.")] = "",
    config: ConfigOption = None,
) -> None:
    """Open the console of the gateway that runs, or the page of one decision, in a browser.

    The address is printed too, for a browser elsewhere.
    """
    base = (url or _configured_url(config)).rstrip("/")
    _check_listens(base)
    page = f"{base}/console" + (f"/decisions/{quote(decision_id, safe='')}" if decision_id else "")
    echo(page)
    import webbrowser

    if not webbrowser.open(page):
        echo("there is no browser here; open the address in one", err=True)


def _configured_url(config: Path | None) -> str:
    """Return where the configured gateway listens; without a file, where the demo does."""
    server = read_config(config).server
    host = _ANY.get(server.host, server.host)
    if not server.port:
        raise PointsmanError(
            "the configured port is 0, a free one",
            hint="--url names the address that pointsman serve printed",
        )
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _check_listens(url: str) -> None:
    """Refuse an address at which no server listens.

    Raises:
        PointsmanError: it is no address, or no server listens there.
    """
    parts, shown = http_address(url), without_credentials(url)
    if parts is None or not parts.hostname:
        raise PointsmanError(f'"{shown}" is no address of a gateway', hint="--url http://127.0.0.1:4747")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=_PATIENCE).close()
    except OSError as error:
        raise PointsmanError(
            f"no gateway listens at {shown}: {error.strerror or error}",
            hint="pointsman serve starts one; --url names another address",
        ) from None
