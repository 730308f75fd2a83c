"""Callers: most ask and read, some read slowly, leave in the middle, or never finish what they send."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections import Counter
from typing import Any, Final

import httpx

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.format import Ending
from support.raw_http import JSON, head
from support.requests_by_format import PATHS, request

__all__ = ["Callers"]

_WORDS: Final = (
    "hi",
    "fix the failing test in the login module",
    "summarise this log file " + "with many lines " * 200,
    "design a distributed queue, step by step, and prove that no message is lost",
)
_SESSIONS: Final = 2_000
_PATIENCE: Final = 60.0  # seconds for one answer; on a machine with nothing else to do it takes milliseconds

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Callers:
    """All callers of one run, and what became of their requests."""

    def __init__(self, port: int, seed: int) -> None:
        self.results: Counter[str] = Counter()
        self.lost: list[str] = []  # what should have been served and was not
        self.told: set[str] = set()  # numbers of the requests whose stream ended with an error event
        self.milliseconds: list[float] = []  # of small answers that are not streamed
        self._port = port
        self._chance = random.Random(seed)
        self._numbers = itertools.count()

    async def ask(self, every: float, until: float) -> None:
        """Ask one request after the other on kept connections, and expect a whole answer to each."""
        async with self._client() as client:
            while time.monotonic() < until:
                number, wire = str(next(self._numbers)), self._chance.choice(list(WireFormat))
                streams = self._chance.random() < 0.5
                path, session, body = self._asked(number, wire, streams=streams)
                headers = {"content-type": "application/json", "x-session-id": session}
                began = time.monotonic()
                try:
                    async with asyncio.timeout(_PATIENCE):
                        answer = await client.post(path, content=body, headers=headers)
                    self._judge(number, wire, answer, streams=streams)
                    if not streams:
                        self.milliseconds.append((time.monotonic() - began) * 1e3)
                except (httpx.HTTPError, TimeoutError) as error:
                    self.lost.append(f"{number} {wire} {streams=}: {type(error).__name__} {error}")
                await asyncio.sleep(self._chance.expovariate(1 / every))

    async def read_slowly(self, until: float) -> None:
        """Ask for a large answer and take little of it: some all the time, some nothing."""
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                reader, writer = await self._connect(limit=1 << 14)
                streams = self._chance.random() < 0.5
                writer.write(self._request(streams=streams, large=True))
                reads = self._chance.random() < 0.5
                end = time.monotonic() + 15
                while time.monotonic() < min(end, until):
                    if reads and not await reader.read(1 << 14):
                        break
                    await asyncio.sleep(0.2)
                writer.transport.abort()
            self.results["slow readers"] += 1

    async def leave(self, every: float, until: float) -> None:
        """Ask, and go away before the answer, inside it, or inside the request."""
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                reader, writer = await self._connect()
                sent = self._request(streams=True, large=self._chance.random() < 0.3)
                cut = len(sent) if self._chance.random() < 0.7 else self._chance.randrange(1, len(sent))
                writer.write(sent[:cut])
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._chance.random() * 0.1):
                        await reader.read(1 << 12)
                writer.transport.abort()
            self.results["disconnects"] += 1
            await asyncio.sleep(self._chance.expovariate(1 / every))

    async def never_finish(self, until: float) -> None:
        """Send half a head or half a body, and wait until the gateway has had enough."""
        whole = self._request(streams=False, size=200_000)
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                reader, writer = await self._connect()
                writer.write(whole[: self._chance.choice((10, len(whole) // 2))])
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(until - time.monotonic(), 0)):
                        await reader.read()
                writer.transport.abort()
            self.results["unfinished requests"] += 1

    async def get(self, path: str) -> str:
        """Return one of the gateway's own pages."""
        async with self._client() as client:
            return (await client.get(path)).text

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self._port}", timeout=None, trust_env=False)

    async def _connect(self, limit: int = 1 << 20) -> Pair:
        return await asyncio.open_connection("127.0.0.1", self._port, limit=limit)

    def _request(self, *, streams: bool, large: bool = False, size: int = 0) -> bytes:
        """A request of a caller who does not wait for the answer."""
        path, session, body = self._asked("0", WireFormat.CHAT, streams=streams, large=large, size=size)
        own = b"x-session-id: " + session.encode()
        return head(JSON, own, path=path.encode(), length=len(body)) + body

    def _asked(
        self, number: str, wire: WireFormat, *, streams: bool, large: bool = False, size: int = 0
    ) -> tuple[str, str, bytes]:
        """Path, session and body of a request."""
        asked: dict[str, Any] = request(wire)
        words = self._chance.choice(_WORDS) + "x" * size
        said = words if wire is WireFormat.RESPONSES else [{"role": "user", "content": words}]
        asked |= {FORMATS[wire].items: said} | ({"stream": True} if streams else {})
        path = f"{PATHS[wire]}?n={number}{'&large=1' if large else ''}"
        return path, f"s-{self._chance.randrange(_SESSIONS)}", json.dumps(asked).encode()

    def _judge(self, number: str, wire: WireFormat, answer: httpx.Response, *, streams: bool) -> None:
        if answer.status_code != 200:
            self.lost.append(f"{number} {wire} {streams=}: {answer.status_code} {answer.content[:300]!r}")
        elif not streams:
            json.loads(answer.content)
            self.results["whole"] += 1
        elif FORMATS[wire].end([answer.content]).ending is Ending.COMPLETE:
            self.results["streams"] += 1
        elif b"error" in answer.content:
            self.told.add(number)
        else:
            self.lost.append(f"{number} {wire} a stream without an end: {answer.content[-300:]!r}")
