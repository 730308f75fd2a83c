"""A collector for tests: takes OTLP over HTTP on loopback, and decodes the protobuf."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["Collector", "values"]


class Collector:
    """Receives spans until it is left. ``status`` is what it answers with."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.exports: list[Any] = []  # ExportTraceServiceRequest
        self.arrived = threading.Event()  # a request has come
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._take(self)

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = request.rfile.read(int(request.headers["content-length"]))
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.status == 200:
            self.paths.append(request.path)
            self.headers.append({name.lower(): value for name, value in request.headers.items()})
            self.exports.append(ExportTraceServiceRequest.FromString(body))
        request.send_response(self.status)
        request.send_header("content-length", "0")
        request.end_headers()
        self.arrived.set()

    @property
    def spans(self) -> list[Any]:
        """Every span received, in order."""
        return [
            span
            for export in self.exports
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


def values(attributes: Any) -> dict[str, Any]:
    """Attributes of a span, an event or a resource as plain values."""
    found: dict[str, Any] = {}
    for each in attributes:
        value = each.value
        match value.WhichOneof("value"):
            case "array_value":
                found[each.key] = [one.string_value for one in value.array_value.values]
            case kind:
                found[each.key] = getattr(value, kind)
    return found
