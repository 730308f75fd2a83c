"""The plainest relay there is over one HTTP client: ``relay.py CLIENT PORT UPSTREAM_URL``."""

import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn

PATH = "/chat/completions"
JSON = "application/json"


async def ours(url: str, body: bytes) -> AsyncIterator[bytes]:
    """``pointsman.upstreams.http``."""
    from pointsman.upstreams.http import HttpClient
    from pointsman.upstreams.port import Call, UpstreamSpec

    client = CLIENTS.setdefault("ours", HttpClient(UpstreamSpec("bench", url)))
    answer = await client.send(Call(PATH.encode(), [(b"content-type", JSON.encode())], body))
    while chunk := await answer.next():
        yield chunk


async def aiohttp(url: str, body: bytes) -> AsyncIterator[bytes]:
    """``aiohttp.ClientSession``, no limit on connections."""
    import aiohttp as library

    if "aiohttp" not in CLIENTS:
        CLIENTS["aiohttp"] = library.ClientSession(connector=library.TCPConnector(limit=0))
    async with CLIENTS["aiohttp"].post(url + PATH, data=body, headers={"content-type": JSON}) as answer:
        async for chunk in answer.content.iter_any():
            yield chunk


async def pyreqwest(url: str, body: bytes) -> AsyncIterator[bytes]:
    """``pyreqwest.client.Client``, HTTP/1.1 only."""
    from pyreqwest.client import ClientBuilder

    if "pyreqwest" not in CLIENTS:
        CLIENTS["pyreqwest"] = ClientBuilder().http1_only().build()
    request = CLIENTS["pyreqwest"].post(url + PATH).header("content-type", JSON).body_bytes(body)
    async with request.build_streamed() as answer:
        while chunk := await answer.body_reader.read_chunk():
            yield bytes(chunk)


CLIENTS: dict[str, Any] = {}
RELAYS: dict[str, Callable[[str, bytes], AsyncIterator[bytes]]] = {
    "ours": ours,
    "aiohttp": aiohttp,
    "pyreqwest": pyreqwest,
}


def application(relay: Callable[[str, bytes], AsyncIterator[bytes]], url: str) -> Any:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async for chunk in relay(url, body):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def main() -> None:
    name, port, url = sys.argv[1:]
    uvicorn.run(
        application(RELAYS[name], url),
        port=int(port),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        interface="asgi3",
        log_level="error",
        timeout_keep_alive=300,
    )


if __name__ == "__main__":
    main()
