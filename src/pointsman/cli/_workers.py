"""``pointsman serve --workers N``: the supervisor, and what each worker runs."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pointsman.cli._listening import (
    LogFormat,
    announce,
    demo_traffic,
    ignore_early_reload,
    listening_on,
    log_to_stderr,
)
from pointsman.cli._served import Totals, print_summary, told_requests, wants_lines
from pointsman.cli.output import USAGE
from pointsman.config import Config, load
from pointsman.config.shapes import demo_config
from pointsman.errors import PointsmanError
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder, check_shared
from pointsman.gateway.listening import bound_for_all
from pointsman.gateway.serve import Server, check_bind
from pointsman.gateway.workers import Supervisor, WorkerLink, WorkerPeers
from pointsman.stores.workers import Worker

#: Where Linux keeps files in memory, and the bytes that the files of a run take at most.
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the folder in it is of this user alone
_ROOM: Final = 8 << 20


class WorkerOptions(NamedTuple):
    """Options of the command line."""

    file: Path | None  # None: the demo
    host: str | None
    port: int | None
    log_level: str
    log_format: LogFormat
    requests: bool | None

    def read(self) -> Config:
        """Read the configuration.

        Raises:
            ConfigError: it is wrong.
        """
        return listening_on(load(self.file) if self.file else demo_config(), self.host, self.port)


def serve_with_workers(count: int, config: Config, options: WorkerOptions, *, traffic: bool) -> None:
    """Serve with several processes until a signal ends them.

    Args:
        count: How many.
        config: The workers' configuration.
        options: Of the command line.
        traffic: Whether scripted agents send requests.

    Raises:
        ConfigError: it cannot be served, or a worker does not start.
    """
    check_bind(config.server)
    check_shared(config)
    totals, server, demo, began = Totals(), config.server, options.file is None, time.time()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pointsman-", dir=_memory())))
        sockets = bound_for_all(server.host, server.port, count)
        for listening in sockets:
            stack.callback(listening.close)
        given = options._replace(port=sockets[0].getsockname()[1])
        if wants_lines(options.requests, options.log_format) and options.log_format is LogFormat.TEXT:
            stack.callback(lambda: print_summary(config, totals, began, demo=demo))
        first = Worker(1, count, folder)
        draining = server.drain_notice + server.drain
        supervisor = Supervisor(run_worker, given, first, sockets, draining=draining, ended=totals.add_all)
        with demo_traffic(sockets[0], options.log_format) if traffic else nullcontext():
            supervisor.serve(lambda: announce(sockets[0], config, demo=demo, log_format=options.log_format))


def _memory() -> str | None:
    """Return where a folder of the run is in memory; None: where temporary files are, perhaps on a disk."""
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return None
    return _SHARED_MEMORY if free >= _ROOM and os.access(_SHARED_MEMORY, os.W_OK) else None


def run_worker(worker: Worker, link: WorkerLink, listening: socket.socket, options: WorkerOptions) -> None:
    """Run one worker, in a separate process."""
    link.begin()
    log_to_stderr(options.log_level, options.log_format)
    try:
        _serve(worker, link, listening, options)
    except PointsmanError as error:
        link.failed(error)
        sys.exit(USAGE)
    except KeyboardInterrupt:  # the supervisor says so
        pass


def _serve(worker: Worker, link: WorkerLink, listening: socket.socket, options: WorkerOptions) -> None:
    file = options.file
    ignore_early_reload()  # for the demo, which reloads nothing, until it ends
    peers = WorkerPeers(worker, link)
    builder = Builder(options.read, file, worker, peers.flush)
    with closing(builder):
        gateway = Gateway(builder())
        with told_requests(
            builder,
            gateway.metrics,
            requests=options.requests,
            log_format=options.log_format,
            demo=file is None,
            summed=link.ended,
        ) as tell:
            server = Server(gateway, builder, tell, peers)
            server.run(sockets=[listening])
