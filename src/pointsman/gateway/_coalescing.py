"""Sends the head of an answer with the first of its body."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["CoalescingTransport"]


class CoalescingTransport:
    """A transport that sends the head of an answer with the first of its body.

    uvicorn writes them apart: two system calls, and the caller is woken twice, the first time for nothing.
    """

    def __init__(self, transport: asyncio.Transport, protocol: HttpToolsProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._answered: Any = None  # the request whose head was written last
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        request: Any = self._protocol.cycle
        if request is not self._answered and request.response_started and request.scope["method"] == "POST":
            self._answered, self._head = request, data
            return
        if self._head:
            data, self._head = self._head + data, b""
        self._transport.write(data)

    def close(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()
