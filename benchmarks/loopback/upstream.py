"""An upstream that costs next to nothing: ``python upstream.py PORT EVENTS GAP_SECONDS``.

Answers chat completions at once: whole, or as a stream of EVENTS events with a pause before each.
"""

import asyncio
import sys
from typing import cast

import httptools
import uvloop

ANSWER = (
    b'{"id":"c1","object":"chat.completion","created":1,"model":"small-1","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}'
)
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(ANSWER),
    ANSWER,
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    b'{"id":"c1","object":"chat.completion.chunk","created":1,"model":"small-1","choices":[{"index":0,%s}]}'
)


def event(data: bytes) -> bytes:
    framed = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(framed), framed)


WORD = event(CHUNK % b'"delta":{"content":" word"},"finish_reason":null')
END = event(CHUNK % b'"delta":{},"finish_reason":"stop"') + event(b"[DONE]") + b"0\r\n\r\n"


class Upstream(asyncio.Protocol):
    def __init__(self, events: int, gap: float) -> None:
        self.events, self.gap = events, gap
        self.body = b""
        self.parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        body, self.body = self.body, b""
        if b'"stream":true' in body.replace(b": ", b":"):
            self.task = asyncio.ensure_future(self.stream())
        else:
            self.transport.write(WHOLE)

    async def stream(self) -> None:
        self.transport.write(HEAD)
        for _ in range(self.events):
            await asyncio.sleep(self.gap)
            if self.transport.is_closing():
                return
            self.transport.write(WORD)
        self.transport.write(END)


async def main(port: int, events: int, gap: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(events, gap), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
