"""An HTTP/1.1 client for upstreams, on httptools and asyncio, with a connection pool and timeouts.

It does what a gateway needs and nothing else: POST, keep-alive, TLS, proxies, streamed responses, timeouts
and a connection limit. Why not a library: docs/decisions/0074, with the figures of two.
"""

from pointsman.upstreams.http._client import HttpClient

__all__ = ["HttpClient"]
