"""The caller's side of a request: what is let in, the body as it arrives, and whether anybody still waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from functools import partial
from typing import Any, Final, TypeAlias

from pointsman.errors import TooLarge, WrongContentType
from pointsman.gateway.auth import authorise
from pointsman.gateway.budget import Share
from pointsman.offload import offload
from pointsman.upstreams.port import ServerSpec
from pointsman.vocabulary import LARGE
from pointsman.wire import Body

__all__ = ["CallerLeft", "Receive", "Scope", "Watch", "Watches", "read_body", "read_bytes"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Any


class CallerLeft(Exception):
    """The caller went away while sending."""


async def read_body(named: Mapping[bytes, bytes], receive: Receive, server: ServerSpec, share: Share) -> Body:
    """Check everything that can be checked before the body is read, then read it.

    Raises:
        Overloaded: the bodies of all requests together are too large.
        CallerError: no key, too large, or not JSON.
        CallerLeft: the connection ended before the body did.
    """
    authorise(named, server.keys)
    if named.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise WrongContentType("the body must be JSON", hint="send 'Content-Type: application/json'")
    if named.get(b"content-encoding", b"identity") != b"identity":
        raise WrongContentType("the body must not be compressed", hint="send no 'Content-Encoding'")
    raw = await read_bytes(receive, named, server.limits.body_bytes, share)
    return Body(raw) if len(raw) <= LARGE else await offload(len(raw), partial(Body, raw))


class Watch:
    """Cancels the task it was made in when the caller goes away."""

    __slots__ = ("_receive", "_task", "_watching", "caller_left", "is_due")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()
        self._watching: asyncio.Task[None] | None = None
        self.is_due = False  # at the next look
        self.caller_left = False

    def start(self) -> None:
        """Begin to look."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        """Stop looking."""
        if self._watching is not None:
            self._watching.cancel()

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.caller_left = True
        if self._task is not None:
            self._task.cancel()


class Watches:
    """Watches over all callers who have waited for a while.

    Most of what is answered sooner is answered before anybody could leave, and a task or a timer for each
    request costs each of them.
    """

    _EVERY: Final = 0.25  # seconds; a caller is watched after one to two of them, and must be missed within 1

    def __init__(self) -> None:
        self._active: set[Watch] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  # where a look is planned

    def begin(self, receive: Receive) -> Watch:
        """Watch over the caller of the current task."""
        watch = Watch(receive)
        self._active.add(watch)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._plan(loop)
        return watch

    def end(self, watch: Watch) -> None:
        """The caller has been answered."""
        self._active.discard(watch)
        watch.stop()

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.call_later(self._EVERY, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        for watch in self._active:
            if watch.is_due:
                watch.start()
            watch.is_due = True
        if self._active:
            self._plan(loop)


async def read_bytes(
    receive: Receive, named: Mapping[bytes, bytes], limit: int, share: Share | None = None
) -> bytes:
    """Read a body of at most ``limit`` bytes, and count it as it arrives.

    Raises:
        Overloaded: the bodies of all requests together are too large.
        TooLarge: it is larger, or says that it will be.
        CallerLeft: the connection ended before the body did.
    """
    declared = named.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise TooLarge(f"the request body is larger than {limit} bytes")
    message = await receive()
    if message["type"] == "http.disconnect":
        raise CallerLeft
    body: bytes = message.get("body", b"")
    if share is not None:
        share.take(len(body))
    if not message.get("more_body", False):
        return body
    parts, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        parts.append(message["body"])
        if share is not None:
            share.take(len(message["body"]))
        size += len(message["body"])
        if size > limit:
            raise TooLarge(f"the request body is larger than {limit} bytes")
    return b"".join(parts)
