"""The HTTP clients that were measured, each behind the port of upstreams: ``pointsman.upstreams.port``.

They do what the port asks and no more than a measurement needs: no map of errors, no proxies.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pointsman.upstreams.port import Call, Exchange, Headers, UpstreamClient, UpstreamSpec

__all__ = ["CLIENTS"]


def ours(spec: UpstreamSpec) -> UpstreamClient:
    """``pointsman.upstreams.http``."""
    from pointsman.upstreams.http import HttpClient

    return HttpClient(spec)


class _Aiohttp:
    """``aiohttp.ClientSession``: no decompression, no redirects, no limit on connections."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self._spec = spec
        self._url = spec.base_url
        self._session: Any = None

    async def send(self, call: Call) -> Exchange:
        if self._session is None:  # needs a running loop
            import aiohttp

            times = self._spec.timeouts
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=times.total, sock_connect=times.connect, sock_read=times.first_byte
                ),
                auto_decompress=False,
                skip_auto_headers={"accept", "user-agent", "accept-encoding"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in call.headers]
        headers.append(("accept-encoding", "identity"))
        return _AiohttpAnswer(
            await self._session.post(
                self._url + call.path.decode(), data=call.body, headers=headers, allow_redirects=False
            )
        )

    def close(self) -> None:
        """Nothing: the process ends."""


class _AiohttpAnswer:
    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.status: int = answer.status
        self.headers: Headers = [(name.lower(), value) for name, value in answer.raw_headers]
        self.next = answer.content.readany
        self.read = answer.read
        self.close = answer.close


class _Pyreqwest:
    """``pyreqwest.client.Client``: HTTP/1.1 only, no decompression, no redirects."""

    def __init__(self, spec: UpstreamSpec, *, threads: bool = False) -> None:
        from pyreqwest.client import ClientBuilder

        times = spec.timeouts
        builder = ClientBuilder().http1_only().http1_lower_case_headers().follow_redirects(enable=False)
        builder = (
            builder.gzip(enable=False)
            .brotli(enable=False)
            .zstd(enable=False)
            .deflate(enable=False)
            .referer(enable=False)
        )
        builder = builder.connect_timeout(timedelta(seconds=times.connect)).no_proxy()
        builder = builder.read_timeout(timedelta(seconds=times.first_byte or times.total))
        self._client = (
            builder.timeout(timedelta(seconds=times.total)).runtime_multithreaded(enable=threads).build()
        )
        self._url = spec.base_url

    async def send(self, call: Call) -> Exchange:
        request = self._client.post(self._url + call.path.decode())
        for name, value in call.headers:
            request = request.header(name.decode(), value.decode("latin-1"))
        # By default the head of an answer is handed over only after 64 KiB of its body, or all of it.
        request = request.header("accept-encoding", "identity").streamed_read_buffer_limit(0)
        stream = request.body_bytes(call.body).build_streamed()
        return _PyreqwestAnswer(stream, await stream.__aenter__())

    def close(self) -> None:
        """Nothing: the process ends."""


class _PyreqwestAnswer:
    def __init__(self, stream: Any, answer: Any) -> None:
        self._stream = stream
        self._reader = answer.body_reader
        self.status: int = answer.status
        self.headers: Headers = [
            (name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()
        ]

    async def next(self) -> bytes:
        return bytes(await self._reader.read_chunk() or b"")

    async def read(self) -> bytes:
        return bytes(await self._reader.bytes())

    def close(self) -> None:
        """Let go of it: the last reference to an answer cuts it off."""
        self._stream = self._reader = None


def _threaded(spec: UpstreamSpec) -> UpstreamClient:
    return _Pyreqwest(spec, threads=True)


CLIENTS: dict[str, Callable[[UpstreamSpec], UpstreamClient]] = {
    "ours": ours,
    "aiohttp": _Aiohttp,
    "pyreqwest": _Pyreqwest,
    "pyreqwest-threads": _threaded,
}
