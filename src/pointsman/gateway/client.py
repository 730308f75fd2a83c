"""An upstream on the network, behind the one-method seam."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import (
    ConnectError,
    ConnectTimeoutError,
    PyreqwestError,
    RequestTimeoutError,
)
from pyreqwest.http import Url
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from pointsman.errors import UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams import Call, Exchange, UpstreamSpec

__all__ = ["HttpClient"]


class HttpClient:
    """An upstream on the network, with a pool of connections of its own.

    Redirects are not followed: upstream addresses come from the configuration alone.
    """

    def __init__(self, spec: UpstreamSpec) -> None:
        times = spec.timeouts
        self._base = spec.base_url.rstrip("/")
        self._urls: dict[str, Url] = {}
        self._client: Client = (
            ClientBuilder()
            .connect_timeout(timedelta(seconds=times.connect))
            .read_timeout(timedelta(seconds=times.first_byte))
            .timeout(timedelta(seconds=times.total))
            .follow_redirects(False)  # noqa: FBT003 - the library's names
            .referer(False)  # noqa: FBT003
            .gzip(False)  # noqa: FBT003 - bytes pass as they are
            .brotli(False)  # noqa: FBT003
            .zstd(False)  # noqa: FBT003
            .deflate(False)  # noqa: FBT003
            .http1_lower_case_headers()
            .build()
        )

    async def send(self, call: Call) -> Exchange:
        """See ``UpstreamClient``."""
        request = (
            self._client.post(self._url(call.path))
            .headers(call.headers)
            .body_bytes(call.body)
            .build_streamed()
        )
        try:
            response = await request.__aenter__()
        except PyreqwestError as error:
            _raise(error)
        return _HttpExchange(request, response)

    def _url(self, path: str) -> Url | str:
        """Parse the few addresses there are once; one with a query is the caller's and not kept."""
        if "?" in path:
            return self._base + path
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = Url(self._base + path)
        return url


class _HttpExchange:
    __slots__ = ("_body", "_request", "_response", "headers", "status")

    def __init__(self, request: StreamRequest, response: Response) -> None:
        self._request = request
        self._response = response
        self._body = response.body_reader
        self.status = response.status
        self.headers = tuple(response.headers.items())

    async def read(self) -> bytes:
        try:
            return bytes(await self._response.bytes())
        except PyreqwestError as error:
            _raise(error)

    async def next(self) -> bytes | None:
        try:
            chunk = await self._body.read_chunk()
        except PyreqwestError as error:
            _raise(error)
        return None if chunk is None else bytes(chunk)

    async def close(self) -> None:
        await self._request.__aexit__(None, None, None)


def _raise(error: PyreqwestError) -> NoReturn:
    """Raise the error in our words: the library's name the address, which may hold a secret."""
    if isinstance(error, (ConnectError, ConnectTimeoutError)):
        raise UpstreamUnavailable("the upstream cannot be reached") from None
    if isinstance(error, RequestTimeoutError):
        raise UpstreamTimeout("the upstream did not answer in time") from None
    raise UpstreamError("the connection to the upstream broke off") from None
