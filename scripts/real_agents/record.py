"""Stands between a client and the gateway, and keeps each request with what was decided of it."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

__all__ = ["Recorder", "Seen"]

_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


class Seen(NamedTuple):
    """One request, and the headers of the gateway's answer."""

    path: str
    body: bytes
    status: int
    answered: dict[str, str]  # by name in lower case
    method: str = "POST"

    @property
    def changed(self) -> list[str]:
        """What the gateway said it has changed."""
        _, _, names = self.answered.get("x-pointsman-translated", "").partition("changed=")
        return [name.strip() for name in names.split(",") if name.strip()]


class _Handler(BaseHTTPRequestHandler):
    target: ClassVar[int]
    seen: ClassVar[list[Seen]]
    protocol_version = "HTTP/1.0"  # a connection for each request

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        sent = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _HOP}
        gateway = http.client.HTTPConnection("127.0.0.1", self.target, timeout=120)
        asked = sent | {"x-pointsman-debug": "1", "connection": "close"}
        gateway.request(self.command, self.path, body, asked)
        answer = gateway.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        self.seen.append(Seen(self.path, body, answer.status, headers, self.command))
        self.send_response(answer.status)
        for name, value in headers.items():
            if name not in _HOP:
                self.send_header(name, value)
        self.end_headers()
        while data := answer.read1(65_536):
            self.wfile.write(data)
        gateway.close()

    do_GET = do_HEAD = do_POST = _relay  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server uses
        pass


class Recorder:
    """A relay on a port of its own; ``seen`` grows while clients ask."""

    def __init__(self, target: int) -> None:
        self.seen: list[Seen] = []
        handler = type("Handler", (_Handler,), {"target": target, "seen": self.seen})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.port: int = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
