"""An upstream on loopback that breaks a share of its answers, and one that breaks none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
from collections import Counter
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pointsman.vocabulary import WireFormat
from support.faulty_upstream import FAULTS
from support.requests_by_format import answer, events, format_of

__all__ = ["Upstream"]

#: Of a hundred answers, how many break in which way; the rest is whole.
_SHARES: Final = {
    "500": 5,
    "429": 3,
    "refused": 3,
    "cut": 4,
    "malformed": 3,
    "silent": 1,
    "cut in a stream": 6,
}
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection
#: Bytes of a large answer: more than the system holds of a connection, so that a slow reader is felt.
_LARGE: Final = 6_000_000


class Upstream:
    """Answers in all formats. The number of a request is in its query, as ``n``."""

    def __init__(self, *, breaks: bool, seed: int) -> None:
        self.broken: Counter[str] = Counter()
        self.cut: set[str] = set()  # numbers of the requests whose stream was cut behind its first event
        self.asked = 0
        self._breaks = breaks
        self._chance = random.Random(seed)

    async def start(self) -> str:
        """Listen, and return the address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    def _next_fault(self) -> str:
        place = self._chance.randrange(100)
        for name, share in _SHARES.items() if self._breaks else ():
            if place < share:
                return name
            place -= share
        return ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection is kept."""
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        streams = json.loads(await reader.readexactly(length)).get("stream", False)
        query, wire = parse_qs(urlsplit(path).query), format_of(path)
        self.asked += 1
        fault = self._next_fault()
        if fault == "cut in a stream" and not streams:
            fault = ""
        self.broken.update([fault] if fault else [])
        if fault == "refused":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            return False
        if fault == "cut in a stream":
            self.cut.add(query["n"][0])
            writer.write(_stream_head() + _chunk(b"".join(events(wire)[:2])))
            await writer.drain()
            return False
        if fault:
            broken = FAULTS[fault]
            writer.write(broken(wire, stream=streams) if broken else b"")
            if fault == "silent":
                await reader.read()  # until the gateway has had enough
            return False
        await _whole(wire, writer, streams=streams, large="large" in query)
        return True


def _stream_head() -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _whole(wire: WireFormat, writer: asyncio.StreamWriter, *, streams: bool, large: bool) -> None:
    if not streams:
        body = answer(wire)
        if large:  # spaces between two tokens change no JSON
            body = body[:-1] + b" " * _LARGE + b"}"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        return
    first, *rest = events(wire)
    writer.write(_stream_head() + _chunk(first))
    for _ in range(_LARGE // 10_000 if large else 0):
        writer.write(_chunk(b": " + b"x" * 9_996 + b"\n\n"))  # a comment
        await writer.drain()
    for event in rest:
        await asyncio.sleep(0.002)
        writer.write(_chunk(event))
    writer.write(b"0\r\n\r\n")
