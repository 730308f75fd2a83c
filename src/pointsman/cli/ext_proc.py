"""``pointsman ext-proc``: the gateway's decisions behind Envoy."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pointsman.catalogue import user_file
from pointsman.cli.log_format import LogFormat, log_to_stderr
from pointsman.cli.output import config_file, echo, needs_extra
from pointsman.config import Config, load
from pointsman.config.trust import record_of

__all__ = ["register"]

log = logging.getLogger("pointsman.ext_proc")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ext-proc")(ext_proc)


def ext_proc(
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Decide with the configuration of the demo.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="Configuration; default: pointsman.toml here, then the user's.")
    ] = None,
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
    with needs_extra("gateway", "pointsman ext-proc"):
        from pointsman.cli._served import told_requests
        from pointsman.gateway.build import Builder, demo_config
        from pointsman.gateway.reloading import WatchedFile
    with needs_extra("extproc", "pointsman ext-proc"):
        from pointsman.ext_proc.process import run
        from pointsman.ext_proc.server import ExtProcServer, gateway_for
    log_to_stderr(log_level, log_format)
    log.setLevel(logging.INFO)
    file = None if demo else config_file(config)
    builder = Builder(lambda: _listening_on(load(file) if file else demo_config(), host, port), file)
    with closing(builder):
        watch = WatchedFile(file, user_file(), record_of(file)) if file else None
        state = builder()
        spec = builder.config.ext_proc
        gateway = gateway_for(state, spec)
        with told_requests(builder, gateway.metrics, requests=None, log_format=log_format, demo=demo) as tell:
            server = ExtProcServer(gateway, spec, tell, builder if file else None, watch)
            is_json = log_format is LogFormat.JSON
            run(server, gateway, spec, lambda said: log.info("%s", said) if is_json else echo(said))


def _listening_on(config: Config, host: str | None, port: int | None) -> Config:
    spec = config.ext_proc
    host, port = spec.host if host is None else host, spec.port if port is None else port
    return msgspec.structs.replace(config, ext_proc=msgspec.structs.replace(spec, host=host, port=port))
