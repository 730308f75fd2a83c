"""Real servers on loopback: the gateway, and upstreams that do as a test says."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import uvicorn
import uvloop

from pointsman.agreement import AgreementPolicy
from pointsman.config import Config, ShadowSpec, load
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.serve import Server
from pointsman.upstreams.port import DEMO_URL, Secret, ServerSpec, Timeouts, UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider

# A client of httpx gives up after five seconds unless told otherwise; a busy machine may take longer.
_patience = inspect.signature(httpx.get).parameters["timeout"].default
_patience.connect = _patience.read = _patience.write = _patience.pool = 60.0


class _Impatient:
    """asyncio as uvicorn's server sees it: it looks every 5 ms whether it should end, not every 0.1 s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


setattr(uvicorn.server, "asyncio", _Impatient())  # noqa: B010 - the module's own name is another type

Answering = Callable[["Asked", Any], Awaitable[None]]


@dataclass
class Asked:
    """A request as the upstream saw it."""

    path: str
    headers: dict[str, str]
    body: bytes
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    method: str = "POST"


class Running:
    """A uvicorn server in a thread of its own."""

    def __init__(self, server: uvicorn.Server, gateway: Gateway | None = None) -> None:
        self.server = server
        self._gateway = gateway
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.server.serve()

    def __enter__(self) -> Self:
        self._thread.start()
        while not self.server.started:
            assert self._thread.is_alive(), "the server did not start"
            threading.Event().wait(0.005)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self._thread.join(60)

    @property
    def gateway(self) -> Gateway:
        """What it serves, where that is a gateway."""
        assert self._gateway is not None
        return self._gateway

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the server's thread, and wait for it: uvloop's objects belong to one thread."""

        async def calling() -> None:
            function(*args)

        asyncio.run_coroutine_threadsafe(calling(), self._loop).result(60)


class ScriptedUpstream:
    """An upstream whose answer a test writes as an ASGI-like function; it keeps what it was asked."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.asked: list[Asked] = []
        self.closed = threading.Event()  # some caller went away before the answer was whole

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = scope["query_string"].decode()
        path = scope["path"] + (f"?{query}" if query else "")
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        asked = Asked(path, headers, body, method=scope["method"])
        self.asked.append(asked)
        watch = asyncio.create_task(self._watch(receive, asked))
        try:
            await self.answering(asked, send)
        finally:
            watch.cancel()

    async def _watch(self, receive: Any, asked: Asked) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        asked.disconnected.set()
        self.closed.set()

    @contextmanager
    def running(self) -> Iterator[str]:
        config = uvicorn.Config(
            self, port=0, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        with Running(uvicorn.Server(config)) as running:
            yield running.url


async def reply(send: Any, status: int, body: bytes, *headers: tuple[str, str]) -> None:
    """Answer with a whole body."""
    named = [(name.encode(), value.encode()) for name, value in headers] or [
        (b"content-type", b"application/json")
    ]
    await send({"type": "http.response.start", "status": status, "headers": named})
    await send({"type": "http.response.body", "body": body})


def state_for(
    *urls: str,
    decider: ScriptedDecider | None = None,
    server: ServerSpec | None = None,
    shadow_model: ShadowSpec | None = None,
    agreement: Mapping[str, AgreementPolicy] | None = None,
    translated: frozenset[WireFormat] = frozenset(),
    model_id: str = "model-{}",
    **upstream: Any,
) -> LiveState:
    """Return a state with one upstream and one model per address: up0/m0, up1/m1, …

    ``model_id`` is the models' id at the upstream, with their number in place of ``{}``;
    ``timeouts`` and ``formats`` may be lists, with one entry per address; models translate then.
    """
    times = Timeouts(connect=30.0, first_byte=60.0, total=60.0)
    given = {"api_key": Secret("sk-upstream"), "timeouts": times, "retries": 0, **upstream}
    urls = urls or (DEMO_URL,)
    patience = given.pop("timeouts")
    if isinstance(patience, Timeouts):
        patience = [patience] * len(urls)
    spoken = given.pop("formats", frozenset(WireFormat))
    ways = [(spoken, translated)] * len(urls)
    if isinstance(spoken, list):
        ways = [(formats, translated_formats(formats)) for formats in spoken]
    upstreams = {
        f"up{i}": UpstreamSpec(name=f"up{i}", base_url=url, timeouts=patience[i], formats=ways[i][0], **given)
        for i, url in enumerate(urls)
    }
    models = {
        f"m{i}": ModelSpec(
            f"m{i}",
            f"up{i}",
            model_id.format(i),
            formats=ways[i][0],
            translated=ways[i][1],
        )
        for i in range(len(urls))
    }
    config = Config(
        models=models,
        upstreams=upstreams,
        server=server or ServerSpec(port=0),
        shadow=shadow_model or ShadowSpec(),
        agreement=dict(agreement or {}),
    )
    return build_live_state(decider or ScriptedDecider(*models), config)


@contextmanager
def gateway(
    served: LiveState | Gateway | Builder | Path, variables: Mapping[str, str] = os.environ
) -> Iterator[Running]:
    """Serve a state, a gateway, or what a configuration file or a builder says, which is closed at the end.

    It must ask for a free port: tests run side by side. ``variables`` are those that a file refers to.
    """
    with ExitStack() as stack:
        if isinstance(served, Path):
            file = served
            served = Builder(lambda: load(file, variables), file)
        if isinstance(served, Builder):
            served = stack.enter_context(closing(served))()
        app = served if isinstance(served, Gateway) else Gateway(served)
        assert app.state.server.port == 0
        yield stack.enter_context(Running(Server(app), app))
