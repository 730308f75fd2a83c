"""The caller's side of a request: what is let in, the body as it arrives, and whether anybody still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TypeAlias

from pointsman.errors import TooLarge, WrongContentType
from pointsman.gateway.auth import authorise
from pointsman.gateway.wire import Body
from pointsman.upstreams import ServerSpec

__all__ = ["CallerLeft", "Receive", "Scope", "Watch", "read_body"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Any


class CallerLeft(Exception):
    """The caller went away while sending."""


async def read_body(scope: Scope, named: Mapping[bytes, bytes], receive: Receive, server: ServerSpec) -> Body:
    """Check everything that can be checked before the body is read, then read it.

    Raises:
        CallerError: no key, too large, or not JSON.
        CallerLeft: the connection ended before the body did.
    """
    authorise(named, server.keys)
    if sum([len(name) + len(value) for name, value in scope["headers"]]) > server.limits.header_bytes:
        raise TooLarge(f"the headers are larger than {server.limits.header_bytes} bytes")
    if named.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise WrongContentType("the body must be JSON", hint="send 'Content-Type: application/json'")
    if named.get(b"content-encoding", b"identity") != b"identity":
        raise WrongContentType("the body must not be compressed", hint="send no 'Content-Encoding'")
    return Body(await _read(receive, named, server.limits.body_bytes))


class Watch:
    """Cancels the task it was made in when the caller goes away.

    It begins to look after a quarter of a second: most of what is answered sooner is answered before anybody
    could leave, and a task for each request costs each of them.
    """

    __slots__ = ("_receive", "_start", "_task", "_watching", "caller_left")

    _AFTER: Final = 0.25  # seconds; a caller who left must be noticed within one

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self._start = asyncio.get_running_loop().call_later(self._AFTER, self._begin)
        self.caller_left = False

    def stop(self) -> None:
        """Stop looking."""
        self._start.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _begin(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.caller_left = True
        if self._task is not None:
            self._task.cancel()


async def _read(receive: Receive, named: Mapping[bytes, bytes], limit: int) -> bytes:
    declared = named.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"the request body is larger than {limit} bytes")
    message = await receive()
    if message["type"] == "http.disconnect":
        raise CallerLeft
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit:
            raise TooLarge(f"the request body is larger than {limit} bytes")
    return b"".join(parts)
