"""Upstreams that say exactly what a test lets them say, and the client that asks them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from pointsman.upstreams.http import HttpClient
from pointsman.upstreams.port import Call, Timeouts, UpstreamSpec, send

__all__ = ["CALL", "OK", "PATIENT", "Serve", "Server", "ask", "client_of", "listening"]

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CALL = Call(b"/chat/completions?a=b", [(b"content-type", b"application/json")], b'{"model":"m"}')
PATIENT = Timeouts(connect=10, first_byte=30, total=60)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


class Server:
    """Reads requests; answers each with the next of some byte strings, and counts connections."""

    def __init__(self, *answers: bytes, then_close: bool = False, one_by_one: bool = False) -> None:
        self.answers = list(answers)
        self.then_close = then_close
        self.one_by_one = one_by_one
        self.connections = 0
        self.asked: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head + await reader.readexactly(len(CALL.body)))
            answer = self.answers.pop(0)
            for part in (answer[n : n + 1] for n in range(len(answer))) if self.one_by_one else [answer]:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if self.then_close:
                break


@asynccontextmanager
async def listening(serve: Serve, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a port of loopback; every connection has ended when this ends."""
    served: set[asyncio.Task[None] | None] = set()

    async def serving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has hung up
        except RuntimeError:  # uvloop's word for writing after that
            if not writer.is_closing():
                raise
        writer.close()

    server = await asyncio.start_server(serving, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*filter(None, served))


@asynccontextmanager
async def client_of(
    serve: Serve,
    timeouts: Timeouts = PATIENT,
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    env: Mapping[str, str] | None = None,
    **spec: Any,
) -> AsyncIterator[HttpClient]:
    """A client of a server; ``spec`` is what else its upstream is configured with."""
    async with listening(serve, tls=tls) as port:
        url = f"{'https' if tls else 'http'}://{host}:{port}/v1"
        client = HttpClient(UpstreamSpec(name="up", base_url=url, timeouts=timeouts, **spec), env or {})
        try:
            yield client
        finally:
            client.close()


async def ask(client: HttpClient) -> tuple[int, bytes]:
    exchange = await send(client, CALL)
    try:
        return exchange.status, await exchange.read()
    finally:
        exchange.close()
