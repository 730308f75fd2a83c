"""Runs the gateway: uvicorn with uvloop and httptools, graceful shutdown, tuning of the process."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import uvicorn

from pointsman.config import is_loopback
from pointsman.errors import ConfigError
from pointsman.evidence import forget_parsed
from pointsman.gateway._live_state import LiveState
from pointsman.gateway._protocol import bounded_protocol, close_slow, close_unread
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.reloading import Reloader
from pointsman.gateway.request_log import RequestLog, ServedRequest
from pointsman.upstreams.port import ServerSpec

if TYPE_CHECKING:
    from pointsman.gateway.workers import WorkerApp, WorkerPeers

__all__ = ["Server", "check_bind", "tune_process"]

log = logging.getLogger(__name__)

#: Seconds between looks whether another signal has come.
_TICK: Final = 0.1
#: Connections waiting to be accepted; Linux caps it at ``somaxconn``, 4,096 by default.
_BACKLOG: Final = 2048
#: Objects made before the collector looks for cycles: about fifty requests' worth instead of three. A request
#: leaves none behind, so looking is all it costs.
_GC_ALLOCATIONS: Final = 20_000
#: Seconds after which a thread that reads a large request lets the event loop go on; by default 5 ms.
_SWITCH_EVERY: Final = 0.001

#: Of mallopt(3), and the size in bytes from which a block is its own mapping: glibc's default at the start.
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK: Final = 128 << 10
#: Of mallopt(3) too: one heap for all threads, which the interpreter lets allocate one at a time.
_M_ARENA_MAX: Final = -8

#: Open files that are asked of the system, where it lets the process have as many.
_FILES: Final = 65_536


class Server(uvicorn.Server):
    """One gateway listening."""

    def __init__(
        self,
        gateway: Gateway,
        builder: Builder | None = None,
        tell: Callable[[ServedRequest], object] | None = None,
        peers: WorkerPeers | None = None,
    ) -> None:
        """Prepare to serve.

        Args:
            gateway: What to serve.
            builder: Of its state; without a file it builds no other.
            tell: Called with each request at its end, on the event loop.
            peers: The other processes that serve the same address; None if this is the only one.

        Raises:
            ConfigError: the address is public and no key is configured.
        """
        server = gateway.state.server
        check_bind(server)
        app = gateway if tell is None else RequestLog(gateway, tell)
        self._worker = _worker_app(gateway, app, peers)
        super().__init__(
            uvicorn.Config(
                self._worker or app,
                host=server.host,
                port=server.port,
                loop="uvloop",
                http=bounded_protocol(server.limits.header_bytes, self._most_connections),
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
                headers=[("x-content-type-options", "nosniff")],  # of every answer, also of an upstream's
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=max(round(server.drain), 1),
            )
        )
        self._gateway = gateway
        self._host = server.host  # that is bound: another one in the file waits for the next start
        self._reloader = Reloader(gateway, builder, self._served) if builder and builder.watch else None
        self._files = _FILES

    def _most_connections(self) -> int:
        return min(self._gateway.state.server.limits.connections, self._files)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until SIGTERM or SIGINT, and drain.

        Raises:
            SystemExit: SIGTERM has ended it. uvicorn raises the signal again when it has drained, and by
                default that ends the process before its stores are closed.
            KeyboardInterrupt: SIGINT has.
        """
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit())
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background jobs ignore it
        super().run(sockets)

    async def main_loop(self) -> None:
        """Serve until a signal, and reload the configuration when it changes."""
        connections, gateway = self.server_state.connections, self._gateway
        beside = [
            asyncio.create_task(close_slow(connections)),
            asyncio.create_task(
                close_unread(connections, lambda: gateway.state.server.limits.unread_seconds)
            ),
        ]
        if self._reloader is not None:
            beside.append(self._reloader.start())
        if self._worker is not None:
            beside.append(asyncio.create_task(self._worker.publish_for_ever()))
            self._worker.serving()  # it takes SIGHUP by now
        try:
            await super().main_loop()
            await self._announce()
        finally:
            for task in beside:
                task.cancel()

    def _served(self, state: LiveState) -> LiveState:
        """Return it, unless it would open a public address to anyone."""
        check_bind(state.server)
        check_bind(msgspec.structs.replace(state.server, host=self._host))
        return state

    async def _announce(self) -> None:
        """Let load balancers see that requests should go elsewhere, while those they still send are served.

        Only after one SIGTERM, and if a load balancer asks for readiness: Ctrl-C does not wait.
        """
        readiness, got = self._gateway.readiness, self._captured_signals
        readiness.is_draining = True
        is_watched = readiness.is_watched or (self._worker is not None and self._worker.is_watched())
        if got != [signal.SIGTERM] or not is_watched:
            return
        seconds = self._gateway.state.server.drain_notice
        log.info("shutting down: /health/ready answers 503, requests are served for %.0f s more", seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while got == [signal.SIGTERM]:  # noqa: ASYNC110 - another signal's handler is no coroutine
                    await asyncio.sleep(_TICK)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        if sockets:  # of a worker that follows another, which was started with another file
            self._host = sockets[0].getsockname()[0]
            self._served(self._gateway.state)
        tune_process()
        # Half of the files are for upstreams and stores: without one nobody is served.
        self._files = _open_files() // 2
        await super().startup(sockets)
        if self._worker is not None:
            await self._listen_to_workers(self._worker)

    async def _listen_to_workers(self, worker: WorkerApp) -> None:
        def create_protocol() -> asyncio.Protocol:
            protocol: Any = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn's ``startup`` does
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            protocol.app = worker.of_worker  # only this user can connect: the folder is theirs alone
            return cast("asyncio.Protocol", protocol)

        path = worker.socket
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - of the worker before; blocks for no longer than a socket does
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_unix_server(create_protocol, path, backlog=_BACKLOG))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open answers finish, then close connections to upstreams and the shadow policy."""
        self._gateway.stop()
        if self._worker is not None:
            self._worker.closing()
        await super().shutdown(sockets)
        if self._worker is not None:
            self._worker.close()
        self._gateway.state.close()


def _worker_app(gateway: Gateway, app: Gateway | RequestLog, peers: WorkerPeers | None) -> WorkerApp | None:
    if peers is None:
        return None
    from pointsman.gateway.workers import WorkerApp  # nobody else needs it

    return WorkerApp(gateway, app, peers)


def tune_process() -> None:
    """Prepare this process for serving: memory, open files, garbage collection, threads."""
    _raise_file_limit()
    forget_parsed()
    gc.collect()
    _give_back_memory()
    gc.freeze()  # what is loaded by now lives as long as the process: no collection need look at it again
    sys.setswitchinterval(_SWITCH_EVERY)
    gc.set_threshold(_GC_ALLOCATIONS, *gc.get_threshold()[1:])


def _give_back_memory() -> None:
    """Return what the start has freed to the system, and let memory of large bodies go back when it is freed.

    glibc begins so, and stops for blocks up to 32 MB once one of that size was freed; they then lie between
    others and stay. Ten answers of 28 MB left 348 MB behind when two of them were still held.
    """
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
        library.mallopt(_M_ARENA_MAX, 1)
        library.malloc_trim(0)


def _raise_file_limit() -> None:
    """Let the process open more files than the usual 1,024, as far as its hard limit goes (as Go does)."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # a system with a limit of its own below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_files() -> int:
    """Return how many files the process may have open."""
    try:
        import resource
    except ImportError:
        return _FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES if soft == resource.RLIM_INFINITY else soft


def check_bind(server: ServerSpec) -> None:
    """Refuse to bind to a public address without a key.

    Raises:
        ConfigError: the address is public and no key is configured.
    """
    if not server.keys and not is_loopback(server.host):
        raise ConfigError(
            f"refusing to bind to {server.host} without a key for callers: anyone could use your API keys",
            hint='set keys = ["${POINTSMAN_KEY}"] under [server], or host = "127.0.0.1"',
        )
