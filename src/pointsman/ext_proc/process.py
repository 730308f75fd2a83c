"""Runs the external processor as a process: until a signal, with pages over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import uvicorn

from pointsman.config.serving import ExtProcSpec
from pointsman.ext_proc.server import ExtProcServer
from pointsman.gateway.app import Gateway
from pointsman.gateway.listening import address, bound
from pointsman.gateway.parts import Receive, Scope, Send
from pointsman.gateway.serve import tune_process

__all__ = ["run"]

#: What monitors ask.
_SHOWN: Final = frozenset({"/metrics", "/health/live", "/health/ready"})
_OTHER_PORT: Final = "[ext_proc] host and http_port in pointsman.toml set another address"


def run(server: ExtProcServer, gateway: Gateway, spec: ExtProcSpec, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, and let requests in progress finish.

    Args:
        server: What Envoy asks.
        gateway: Has the pages for metrics and health.
        spec: Where both listen.
        say: Called with the address.

    Raises:
        ConfigError: an address cannot be used.
    """
    asyncio.run(_run(server, gateway, spec, say))


async def _run(
    server: ExtProcServer, gateway: Gateway, spec: ExtProcSpec, say: Callable[[str], None]
) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    tune_process()
    await server.start()
    async with _pages(gateway, spec) as pages:
        say(f"ext_proc for Envoy listens on {address(spec.host, server.port)}{pages}")
        await ended.wait()
        await server.stop()


def _pages_of(gateway: Gateway) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Return the gateway's pages for monitors alone: whatever it serves else is asked through Envoy."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] not in _SHOWN:
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        # Probes of Kubernetes name the pod's address in ``Host``, which no configuration knows.
        headers = [pair for pair in scope["headers"] if pair[0] != b"host"]
        await gateway({**scope, "headers": headers}, receive, send)

    return serve


class _Pages(uvicorn.Server):
    """A server that leaves signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@contextlib.asynccontextmanager
async def _pages(gateway: Gateway, spec: ExtProcSpec) -> AsyncIterator[str]:
    """Serve metrics and health over HTTP where a port is configured; yield their address for a person."""
    if spec.http_port is None:
        yield ""
        return
    listening = bound(spec.host, spec.http_port, hint=_OTHER_PORT)
    settings = uvicorn.Config(
        _pages_of(gateway),
        lifespan="off",
        ws="none",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
    )
    pages = _Pages(settings)
    serving = asyncio.create_task(pages.serve(sockets=[listening]))
    try:
        yield f", http://{address(spec.host, listening.getsockname()[1])}/metrics"
    finally:
        pages.should_exit = True
        await serving
