"""The plainest relay there is over one HTTP client: ``relay.py CLIENT PORT UPSTREAM_URL``."""

import sys
from typing import Any

import uvicorn

from loopback.http_clients import CLIENTS
from pointsman.upstreams.port import Call, UpstreamClient, UpstreamSpec

PATH = b"/chat/completions"
HEADERS = [(b"content-type", b"application/json"), (b"authorization", b"Bearer bench")]


def application(client: UpstreamClient) -> Any:
    async def app(_scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        answer = await client.send(Call(PATH, HEADERS, body))
        await send({"type": "http.response.start", "status": answer.status, "headers": []})
        while chunk := await answer.next():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        answer.close()

    return app


def main() -> None:
    name, port, url = sys.argv[1:]
    uvicorn.run(
        application(CLIENTS[name](UpstreamSpec("bench", url))),
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
