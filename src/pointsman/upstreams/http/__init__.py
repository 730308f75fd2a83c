"""An HTTP/1.1 client for upstreams, on httptools and asyncio, with a connection pool and timeouts.

It does what a gateway needs and nothing else: keep-alive, bodies sent while they arrive, streamed responses,
TLS, proxies, timeouts and a connection limit. Why not a library: docs/notebook/0074, with the figures.
"""

from pointsman.upstreams.http._client import HttpClient

__all__ = ["HttpClient"]
