"""An HTTP proxy on loopback: tunnels (CONNECT) and plain requests, all to one port, or a refusal."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["ScriptedProxy"]


class ScriptedProxy:
    """Records the head of each request. What it is asked for, it connects to ``port``."""

    def __init__(self, *, refusal: bytes = b"") -> None:
        self.port = 0
        self.refusal = refusal
        self.asked: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        if self.refusal:
            writer.write(self.refusal)
            await reader.read()
            return
        there, onward = await asyncio.open_connection("127.0.0.1", self.port)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            onward.write(head)
        await asyncio.gather(_pump(reader, onward), _pump(there, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()
