"""A caller and an upstream in one event loop: each sends only when the other has received all before.

So the gateway between them reads the same bytes in the same pieces in every run.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import httptools
from loopback.upstream import END, HEAD, WHOLE, WORD

__all__ = ["Caller", "Upstream", "connected"]

MARK = " word"  # text of each event of a stream
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "model": "gpt-6-luna",
    "output": [],
}
USAGE = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}


def item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


def whole_response(text: str) -> dict[str, Any]:
    return {**RESPONSE, "status": "completed", "output": [item(text)], "usage": USAGE}


def framed(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


class Stream:
    """The pieces of one streamed answer: beginning, each event, end."""

    def __init__(self, path: str) -> None:
        self._is_chat = path.endswith("/chat/completions")
        self._number = 0

    def _event(self, kind: str, **members: Any) -> bytes:
        self._number += 1
        data = {"type": kind, "sequence_number": self._number, **members}
        framed = f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
        return b"%x\r\n%s\r\n" % (len(framed), framed)

    def begin(self) -> bytes:
        if self._is_chat:
            return HEAD
        empty = {**item(""), "status": "in_progress", "content": []}
        added = self._event("response.output_item.added", output_index=0, item=empty)
        return HEAD + self._event("response.created", response=RESPONSE) + added

    def word(self) -> bytes:
        if self._is_chat:
            return WORD
        members = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": MARK}
        return self._event("response.output_text.delta", **members)

    def end(self) -> bytes:
        if self._is_chat:
            return END
        done = self._event("response.output_item.done", output_index=0, item=item("word"))
        return done + self._event("response.completed", response=whole_response("word")) + b"0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """Answers chat completions and Responses: whole at once, a stream piece by piece when told to."""

    def __init__(self, open_streams: "asyncio.Queue[Upstream]") -> None:
        self._open = open_streams
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path += url.decode()

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        path, body = self._path, self._body
        self._path, self._body = "", b""
        if path.endswith("/v1/traces"):
            self.transport.write(framed(b""))
        elif json.loads(body).get("stream"):
            self.stream = Stream(path)
            self._open.put_nowait(self)
        elif path.endswith("/chat/completions"):
            self.transport.write(WHOLE)
        else:
            self.transport.write(framed(json.dumps(whole_response("Hello there")).encode()))


class Caller(asyncio.Protocol):
    """One kept connection to the gateway."""

    def __init__(self, streams: "asyncio.Queue[Upstream]") -> None:
        self._streams = streams
        self._changed = asyncio.Event()
        self._body = b""
        self._is_complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._is_complete = True
        self._changed.set()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        self._changed.set()

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        self._is_complete = True

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 120)

    def _words(self) -> int:
        return self._body.count(f'"{MARK}"'.encode())

    async def ask(self, request: bytes, events: int = 0) -> None:
        """Send a request; take its whole answer, or a stream of so many events.

        Raises:
            SystemExit: the answer is not 200, or lacks events.
        """
        self._parser = httptools.HttpResponseParser(self)
        self._body, self._is_complete = b"", False
        self.transport.write(request)
        if events:
            await self._stream(events)
        await self._until(lambda: self._is_complete)
        if self._parser.get_status_code() != 200 or self._words() != events:
            raise SystemExit(f"the gateway answered {self._parser.get_status_code()}: {self._body[:500]!r}")

    async def _stream(self, events: int) -> None:
        sender = await asyncio.wait_for(self._streams.get(), 60)
        sender.transport.write(sender.stream.begin())
        for number in range(events):
            sender.transport.write(sender.stream.word())
            await self._until(lambda due=number: self._words() > due or self._is_complete)  # type: ignore[misc]
        sender.transport.write(sender.stream.end())


async def connected(port: int, streams: "asyncio.Queue[Upstream]") -> Caller:
    """Connect to the gateway."""
    loop = asyncio.get_running_loop()
    _, caller = await loop.create_connection(lambda: Caller(streams), "127.0.0.1", port)
    return caller
