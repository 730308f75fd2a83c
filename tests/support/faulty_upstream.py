"""An upstream that breaks a share of its answers in six ways, and a run of requests against it.

Used by a test with a few hundred requests and by ``benchmarks/faults.py`` with thousands.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import httpx

from pointsman.testing import MemoryLedger
from pointsman.upstreams.port import Timeouts
from pointsman.vocabulary import WireFormat
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, answer, events, format_of, request
from support.servers import ScriptedUpstream, gateway, reply, state_for
from support.threads import serving

FIRST_BYTE = 1.0  # seconds an upstream may be silent; a machine busy with other tests stalls for less
BLOCK = 20  # answers in which each of the six faults comes once: 30 %
AT_ONCE = 16
#: Closing then resets the connection, as a server does that has no room left.
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 seconds

FORMATS = tuple(WireFormat)


def _head(status: str, kind: str, length: int) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n"
    ).encode()


def silent(wire: WireFormat, *, stream: bool) -> bytes:
    return b""  # and the connection stays open


def server_error(wire: WireFormat, *, stream: bool) -> bytes:
    return _head("500 Internal Server Error", "text/plain", 4) + b"\r\noops"


def rate_limited(wire: WireFormat, *, stream: bool) -> bytes:
    return _head("429 Too Many Requests", "text/plain", 4) + b"retry-after-ms: 5\r\n\r\nslow"


def cut(wire: WireFormat, *, stream: bool) -> bytes:
    """Cut inside the body, or inside a stream's first event."""
    body = events(wire)[0] if stream else answer(wire)
    return _head("200 OK", "text/event-stream" if stream else "application/json", len(body)) + (
        b"\r\n" + body[:-5]
    )


def malformed(wire: WireFormat, *, stream: bool) -> bytes:
    """A page instead of JSON; a stream that says at once that it cannot."""
    if stream:
        body = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n'
        return _head("200 OK", "text/event-stream", len(body)) + b"\r\n" + body
    return _head("200 OK", "application/json", 13) + b"\r\n<html></html>"


Fault = Callable[..., bytes]
FAULTS: dict[str, Fault | None] = {
    "refused": None,  # before a byte was read
    "silent": silent,
    "500": server_error,
    "429": rate_limited,
    "cut": cut,
    "malformed": malformed,
}


class FaultyUpstream:
    """Takes one request a connection, and breaks six answers in twenty in an order that a seed decides."""

    def __init__(self, seed: int) -> None:
        self.broken: Counter[str] = Counter()
        self.answers = 0
        self._plan = self._faults(random.Random(seed))

    def _faults(self, chance: random.Random) -> Iterator[str]:
        while True:
            block = [*FAULTS, *[""] * (BLOCK - len(FAULTS))]
            chance.shuffle(block)
            yield from block

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = next(self._plan)
        self.answers += 1
        self.broken.update([name] if name else [])
        try:
            if name == "refused":
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                return
            writer.write(await self._answer(name, reader))
            await writer.drain()
            if name == "silent":
                await reader.read()  # until the gateway has had enough
        except (OSError, asyncio.IncompleteReadError):
            pass  # the gateway went away
        finally:
            writer.close()

    async def _answer(self, name: str, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        wire, is_stream = format_of(path), json.loads(await reader.readexactly(length)).get("stream", False)
        fault = FAULTS.get(name)
        if fault is not None:
            return fault(wire, stream=is_stream)
        body = b"".join(events(wire)) if is_stream else answer(wire)
        kind = "text/event-stream" if is_stream else "application/json"
        return _head("200 OK", kind, len(body)) + b"\r\n" + body

    def running(self) -> AbstractContextManager[str]:
        """Serve in a thread; gives the address."""
        return serving(self._serve)


@dataclass
class Result:
    """What callers got, and what it took."""

    requests: int = 0
    good: int = 0
    bad: list[str] = field(default_factory=list)  # what a caller got instead
    attempts: Counter[int] = field(default_factory=Counter)  # requests by attempts they took
    broken: Counter[str] = field(default_factory=Counter)  # the upstream's answers by fault
    answers: int = 0  # of the faulty upstream
    errors: Counter[str] = field(default_factory=Counter)  # failed attempts as the ledger names them

    @property
    def share(self) -> float:
        return self.good / self.requests


async def healthy(asked: Any, send: Any) -> None:
    """Answer in the format asked, whole or as a stream."""
    wire = format_of(asked.path)
    if json.loads(asked.body).get("stream"):
        await reply(send, 200, b"".join(events(wire)), ("content-type", "text/event-stream"))
    else:
        await reply(send, 200, answer(wire))


def run(requests: int, *, seed: int, retries: int) -> Result:
    """Send requests of all formats, whole and streamed in turn, through a gateway to a faulty upstream."""
    faulty, other, ledger = FaultyUpstream(seed), ScriptedUpstream(healthy), MemoryLedger(size=requests)
    times = Timeouts(connect=2.0, first_byte=FIRST_BYTE, total=20.0)
    with faulty.running() as first, other.running() as second:
        decider = ScriptedDecider("m0", "m1", ledger=ledger)
        state = state_for(first, f"{second}/v1", decider=decider, retries=retries, timeouts=times)
        with gateway(state) as running:
            result = asyncio.run(_send_all(running.url, requests))
    result.broken, result.answers = faulty.broken, faulty.answers
    for number in range(1, requests + 1):
        tries = ledger.attempts(f"d-{number}")
        result.errors.update(attempt.error for attempt in tries if attempt.error)
    return result


async def _send_all(url: str, requests: int) -> Result:
    result, numbers = Result(), iter(range(requests))

    async def send_some(client: httpx.AsyncClient) -> None:
        for number in numbers:
            await _send(client, number, result)

    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        await asyncio.gather(*(send_some(client) for _ in range(AT_ONCE)))
    return result


async def _send(client: httpx.AsyncClient, number: int, result: Result) -> None:
    wire, is_stream = FORMATS[number % 3], number % 2 == 1
    got = await client.post(PATHS[wire], json=request(wire, stream=is_stream))
    wanted = b"".join(events(wire)) if is_stream else answer(wire)
    result.requests += 1
    result.attempts[int(got.headers["x-pointsman-attempts"])] += 1
    if got.status_code == 200 and got.content == wanted:
        result.good += 1
    else:
        result.bad.append(f"{wire} {got.status_code} {got.text[:200]}")
