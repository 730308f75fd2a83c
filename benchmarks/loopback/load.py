"""Requests at a fixed concurrency over kept connections, and how long each took."""

import asyncio
import time
from collections.abc import Iterator
from typing import cast

import httptools
import uvloop

__all__ = ["Measured", "load"]


class Measured:
    """What one load saw: times in seconds, events counted, answers that were not 200."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.events = 0
        self.failed = 0

    @property
    def p50(self) -> float:
        return sorted(self.times)[len(self.times) // 2]


class Client(asyncio.Protocol):
    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.answered: asyncio.Future[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[None]:
        self.parser = httptools.HttpResponseParser(self)
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.answered

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionError("closed before the answer was whole"))

    def on_body(self, part: bytes) -> None:
        self.measured.events += part.count(b"data: {")

    def on_message_complete(self) -> None:
        self.measured.failed += self.parser.get_status_code() != 200
        self.answered.set_result(None)


def framed(port: int, body: bytes) -> bytes:
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        "content-type: application/json\r\nauthorization: Bearer bench\r\nuser-agent: bench\r\n"
        f"accept: */*\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _load(port: int, bodies: Iterator[bytes], concurrency: int) -> Measured:
    measured = Measured()
    loop = asyncio.get_running_loop()

    async def worker() -> None:
        transport, client = await loop.create_connection(lambda: Client(measured), "127.0.0.1", port)
        for body in bodies:
            started = time.perf_counter()
            await client.ask(framed(port, body))
            measured.times.append(time.perf_counter() - started)
        transport.close()

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return measured


def load(port: int, bodies: Iterator[bytes], concurrency: int) -> Measured:
    """Send every body once."""
    return uvloop.run(_load(port, bodies, concurrency))
