"""The gRPC server: Envoy's service, health checks, TLS, a graceful end, reload of the configuration."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import uvicorn
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from pointsman.config import is_loopback
from pointsman.config.serving import ExtProcSpec
from pointsman.errors import ConfigError
from pointsman.ext_proc import messages as proto
from pointsman.ext_proc._envoy import behind_envoy
from pointsman.ext_proc._stream import ProcessingStream
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.listening import address, bound
from pointsman.gateway.parts import LiveState, Receive, Scope, Send
from pointsman.gateway.reloading import Reloader
from pointsman.gateway.request_log import RequestLog, ServedRequest
from pointsman.gateway.serve import tune_process

__all__ = ["ExtProcServer", "check_bind", "gateway_for", "run"]

#: Bytes of a message beside the body in it.
_HEADERS: Final = 1 << 20


def check_bind(spec: ExtProcSpec) -> None:
    """Refuse to listen on a public address without TLS.

    Raises:
        ConfigError: the address is public, and there is neither a certificate nor ``insecure``.
    """
    if spec.certificate is None and not spec.insecure and not is_loopback(spec.host):
        raise ConfigError(
            f"refusing to listen on {spec.host} without TLS: prompts would cross the network unencrypted",
            hint="set certificate and private_key under [ext_proc], or insecure = true within a mesh",
        )


def gateway_for(state: LiveState, spec: ExtProcSpec) -> Gateway:
    """Return a gateway that gives its requests to Envoy."""
    return Gateway(behind_envoy(state, spec.model_value))


class ExtProcServer:
    """Serves Envoy's external processing filter."""

    def __init__(
        self,
        gateway: Gateway,
        spec: ExtProcSpec,
        tell: Callable[[ServedRequest], object] | None = None,
        builder: Builder | None = None,
    ) -> None:
        """Prepare to serve.

        Args:
            gateway: From ``gateway_for``.
            spec: How Envoy reaches it.
            tell: Called for each request at its end, on the event loop.
            builder: Of the gateway's state; without a file it builds no other.

        Raises:
            ConfigError: a public address without TLS, or a certificate that cannot be read.
        """
        check_bind(spec)
        self.port = 0  # once it listens
        self._gateway = gateway
        self._spec = spec
        self._application = RequestLog(gateway, tell or _nobody)
        changed = partial(behind_envoy, value=spec.model_value)
        self._reloader = Reloader(gateway, builder, changed) if builder and builder.watch else None
        self._reloading: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()  # streams that Envoy has ended
        self._credentials = _credentials(spec)
        self._server: Any = None
        self._health: Any = None

    async def start(self) -> None:
        """Begin to listen, and to reload a changed configuration.

        Raises:
            ConfigError: the address cannot be used.
        """
        limit = self._gateway.state.server.limits.body_bytes
        self._server = grpc.aio.server(
            options=[
                # Twice the limit: a body beyond it is passed on as it came, not refused by gRPC.
                ("grpc.max_receive_message_length", 2 * limit + _HEADERS),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=self._spec.streams,
        )
        handler = grpc.stream_stream_rpc_method_handler(
            self._process,
            request_deserializer=proto.ProcessingRequest.FromString,
            response_serializer=proto.ProcessingResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler(proto.SERVICE, {"Process": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        place = address(self._spec.host, self._spec.port)
        try:
            if self._credentials is None:
                self.port = self._server.add_insecure_port(place)
            else:
                self.port = self._server.add_secure_port(place, self._credentials)
        except RuntimeError as error:
            raise ConfigError(
                f"cannot listen on {place}", hint="[ext_proc] host and port in pointsman.toml set another"
            ) from error
        if self._reloader is not None:
            self._reloading = self._reloader.start()
        await self._server.start()
        await self._say(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Say in health checks that it ends, let requests in progress finish, then end."""
        if self._reloading is not None:
            self._reloading.cancel()
        self._gateway.readiness.is_draining = True
        await self._say(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.stop(self._gateway.state.server.drain)
        await self.settled()
        self._gateway.stop()
        self._gateway.state.close()

    async def settled(self) -> None:
        """Wait until every stream that has ended is written down."""
        while self._ending:
            await asyncio.wait(self._ending)

    async def _say(self, status: Any) -> None:
        for service in ("", proto.SERVICE):
            await self._health.set(service, status)

    async def _process(self, _: Any, context: Any) -> None:
        """Answer the messages of one request."""
        metrics = self._gateway.metrics
        stream = ProcessingStream(
            self._application,
            self._gateway.state,
            self._gateway.bodies,
            self._spec,
            lambda result: metrics.count("ext_proc", result),
        )
        try:
            while (message := await context.read()) is not grpc.aio.EOF:
                for answer in await stream.take(message):
                    await context.write(answer)
        finally:  # also when Envoy cancels: what is known is written down in a task that nobody cancels
            ending = asyncio.create_task(stream.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


def _credentials(spec: ExtProcSpec) -> Any:
    if spec.certificate is None or spec.private_key is None:
        return None
    pair = _read(spec.private_key), _read(spec.certificate)
    authority = _read(spec.client_ca) if spec.client_ca else None
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}", hint="a PEM file under [ext_proc]") from None


def _nobody(_: ServedRequest) -> None:
    """No listener."""


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
