"""A gateway called without a server: requests and answers in one event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pointsman.gateway.app import Gateway

__all__ = ["Received", "ask"]


@dataclass
class Received:
    """What a caller got."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


async def ask(
    gateway: Gateway,
    path: str,
    body: object,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
) -> Received:
    """Send one request, and return its answer. ``body`` is JSON unless it is bytes already."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", "content-length": str(len(raw)), **(headers or {})}
    answer, unread = Received(), [raw]
    waiting = asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await waiting.wait()  # nobody leaves
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.body += message["body"]

    place, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()],
    }
    await gateway(scope, receive, send)
    return answer
