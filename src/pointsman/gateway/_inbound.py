"""The caller's side of a request: authentication, limits, the body as it arrives, and the disconnect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import msgspec

from pointsman.config import is_loopback
from pointsman.errors import (
    MalformedRequest,
    Overloaded,
    TooLarge,
    Unauthorized,
    WrongContentType,
    shown,
)
from pointsman.gateway._answer_budget import AnswerBudget
from pointsman.offload import offload_large
from pointsman.upstreams.port import Headers, ServerSpec, hash_key
from pointsman.vocabulary import LARGE
from pointsman.wire import Body, Format

__all__ = [
    "BodyBudget",
    "BodyReservation",
    "CallerLeft",
    "CallerShare",
    "DisconnectWatch",
    "DisconnectWatches",
    "InboundRequest",
    "Receive",
    "Scope",
    "Send",
    "authorise",
    "check_no_query",
    "named_keys",
    "read_body",
    "read_bytes",
    "too_large",
]  # fmt: skip

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Any
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Of the budget, what bodies above ``LARGE`` may fill: the rest is left to the others, whoever sends what.
_OF_LARGE: Final = 3 / 4
#: Of the budget, what the bodies of one of several callers may hold: two of the largest.
_OF_ONE: Final = 2 / 3

#: What browsers alone send, and the latter for what a person typed and for pages of the gateway.
_OF_BROWSERS: Final = frozenset({b"origin", b"sec-fetch-site"})
_OWN_SITE: Final = frozenset({b"none", b"same-origin"})
#: A host and a port, the host without the brackets of an IPv6 address (RFC 9110, section 7.2).
_HOST: Final = re.compile(rb"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+|[0-9a-f:]+))(?::[0-9]*)?")
#: Values of ``Host`` that are remembered; a machine is called by a few.
_HOSTS: Final = 64
_LONGEST_HOST: Final = 300  # bytes; a name has 253 at most (RFC 1035, section 2.3.4)
_SET_KEYS: Final = 'set keys = ["${POINTSMAN_KEY}"] under [server]'

_JSON: Final = b"application/json"
#: A key of the gateway, beside a credential that goes to an upstream.
_OWN_KEY: Final = b"x-pointsman-key"


class CallerLeft(Exception):
    """The caller went away while sending."""


class InboundRequest(msgspec.Struct, frozen=True):
    """One caller's request, read to its end."""

    wire: Format
    headers: Mapping[bytes, bytes]  # by name, in lower case
    all_headers: Headers  # as they were sent, repeated ones too
    query: bytes
    body: Body
    arrived: float  # seconds of ``time.perf_counter``
    keys: Sequence[bytes] = ()  # digests of the gateway's own
    reservation: BodyReservation | None = None  # counts the body; None: nobody counts
    limit: int = 0  # bytes of a body; 0: none
    caller: str = ""  # name of the key it came with; empty: none was asked for

    def grow(self, count: int) -> None:
        """Count bytes that the gateway puts into the request.

        Raises:
            TooLarge: with them the body is larger than any may be.
            Overloaded: the bodies of all requests together are too large.
        """
        if self.limit and len(self.body.raw) + count > self.limit:
            raise TooLarge(
                f"with what it goes on from, the request is larger than {self.limit} bytes",
                hint="begin a new conversation",
            )
        if self.reservation is not None:
            self.reservation.take(count)


def authorise(
    headers: Mapping[bytes, bytes],
    server: ServerSpec,
    callers: Mapping[bytes, str],
    *,
    is_open: bool = False,
) -> str:
    """Let a request pass that presents one of the keys, if any is required, and return the key's name.

    Both ways in which the clients of the three formats present a key are accepted, and ``x-pointsman-key``
    if those hold a credential for an upstream. If no key is required, web pages are refused: a
    browser lets a page reach this machine once the page's host name resolves to it. It sends that name in
    ``Host``, and the page's origin in ``Origin``, which a GET of the same origin does not have
    (docs/decisions/0072, 0144), nor a navigation or an embedded page: ``Sec-Fetch-Site`` names the site of
    those.

    Args:
        headers: The caller's, by name.
        server: Has the keys, and the address.
        callers: The names of the keys, by digest (``named_keys``).
        is_open: Pages of other sites may link to it: all of its content is the gateway's own.

    Returns:
        The name of the key presented; empty if no key is required.

    Raises:
        Unauthorized: no key, or an unknown one; a web page's request if no key is configured.
    """
    if not server.keys:
        if not _OF_BROWSERS.isdisjoint(headers) and _is_of_another_site(headers, is_open=is_open):
            raise Unauthorized("a gateway without keys rejects requests of other web origins", hint=_SET_KEYS)
        _check_host(headers.get(b"host", b"localhost"), server.host)  # HTTP/1.0 needs none
        return ""
    presented = headers.get(_OWN_KEY, b"")
    if not presented:
        bearer = headers.get(b"authorization", b"")
        presented = bearer[7:].strip() if bearer[:7].lower() == b"bearer " else b""
        presented = presented or headers.get(b"x-api-key", b"")
    if not presented:
        raise Unauthorized(
            "an API key is required",
            hint="send it as 'Authorization: Bearer KEY' or in the header 'x-api-key'",
        )
    digest = hash_key(presented.strip().decode("utf-8", "replace"))
    # Looked up by its digest: time may tell of the digest of what was presented, and nothing of a key.
    caller = callers.get(digest)
    if caller is None:
        raise Unauthorized("unknown API key", hint="valid keys are listed under [server] and [keys]")
    return caller


def named_keys(server: ServerSpec) -> dict[bytes, str]:
    """Return the name of each key by its digest."""
    return {digest: server.caller(number) for number, digest in enumerate(server.keys)}


def _is_of_another_site(headers: Mapping[bytes, bytes], *, is_open: bool) -> bool:
    """Whether a page asks that is not of this machine."""
    if b"origin" in headers:
        return not _is_local(headers[b"origin"])
    return not is_open and headers[b"sec-fetch-site"] not in _OWN_SITE


def _is_local(origin: bytes) -> bool:
    """Whether a page comes from this machine."""
    try:
        host = urlsplit(origin.decode("ascii")).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


@lru_cache(_HOSTS)  # nothing is kept of a host that is refused
def _check_host(host: bytes, bound: str) -> None:
    """Refuse a header ``Host`` that names neither this machine nor the address that is bound."""
    found = _HOST.fullmatch(host.lower()) if len(host) <= _LONGEST_HOST else None
    name = (found[1] or found[2]).decode("ascii") if found else ""
    if not (is_loopback(name) or name == bound.lower()):
        raise Unauthorized(
            "a gateway without keys rejects requests for other hosts than this machine", hint=_SET_KEYS
        )


def check_no_query(query: bytes) -> None:
    """Refuse a query at a path of the gateway's own that has no parameters.

    Whoever asks for ``?by=hour`` and gets an answer believes that it is by hour.

    Raises:
        MalformedRequest: there is one.
    """
    if query:
        name = next((name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)), "")
        raise MalformedRequest(f'unknown query parameter "{shown(name)}"', hint="this path has none")


async def read_body(
    wire: Format,
    headers: Mapping[bytes, bytes],
    receive: Receive,
    server: ServerSpec,
    reservation: BodyReservation,
    take: Callable[[], bytes | None] | None = None,
) -> Body:
    """Check everything else that can be checked before the body is read, then read it.

    Args:
        wire: Its format.
        headers: The caller's, by name.
        receive: Receives the body in parts (ASGI).
        server: Limits it.
        reservation: Counts it.
        take: Returns the body at once where all of it has come (``DirectSend.take_body``).

    Raises:
        Overloaded: the bodies of all requests together are too large.
        CallerError: too large, or not JSON.
        CallerLeft: the connection ended before the body did.
    """
    kind = headers.get(b"content-type", b"")
    if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
        raise WrongContentType("the body must be JSON", hint="send 'Content-Type: application/json'")
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise WrongContentType("the body must not be compressed", hint="send no 'Content-Encoding'")
    limit, whole = server.limits.body_bytes, None if take is None else take()
    if whole is None:
        parts = await _read_parts(receive, headers, limit, reservation)
    elif len(whole) > limit:
        raise too_large(limit)
    else:
        reservation.take(len(whole))
        if len(whole) <= LARGE:
            return Body(wire, whole)
        parts = [whole]
    if len(parts) == 1 and len(parts[0]) <= LARGE:
        return Body(wire, parts[0])
    return await offload_large(sum(map(len, parts)), _joined, wire, parts)


def _joined(wire: Format, parts: list[bytes]) -> Body:
    """Join a body and read it. A large one in a thread: joining 31 MB takes the event loop some 20 ms."""
    raw = b"".join(parts)
    parts.clear()
    return Body(wire, raw)


def too_large(limit: int) -> TooLarge:
    """Return the refusal of a body over the limit."""
    return TooLarge(f"the request body is larger than {limit} bytes")


async def read_bytes(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, reservation: BodyReservation | None = None
) -> bytes:
    """Read a body of at most ``limit`` bytes, and count it as it arrives.

    Raises:
        Overloaded: the bodies of all requests together are too large.
        TooLarge: it is larger, or its announced length is.
        CallerLeft: the connection ended before the body did.
    """
    parts = await _read_parts(receive, headers, limit, reservation)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _read_parts(
    receive: Receive, headers: Mapping[bytes, bytes], limit: int, reservation: BodyReservation | None
) -> list[bytes]:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        part = message.get("body", b"")
        parts.append(part)
        if reservation is not None:
            reservation.take(len(part))
        size += len(part)
        if size > limit:
            raise too_large(limit)
        more = message.get("more_body", False)
    return parts


class BodyBudget:
    """Counts the bytes that have arrived of all request bodies, until their requests are answered."""

    def __init__(self) -> None:
        self.held = 0  # bytes
        self.answers = AnswerBudget()


class CallerShare:
    """The requests in progress of one caller, and the bytes of their bodies."""

    def __init__(self, caller: str) -> None:
        self.caller = caller  # name of the key
        self.requests = 0
        self.held = 0  # bytes of their bodies


class BodyReservation:
    """The bytes of one request's body. An announced length is not counted."""

    held = 0
    _answer = 0  # bytes of a large whole answer
    share: CallerShare | None = None  # of its caller, where there are several

    def __init__(self, budget: BodyBudget, total: int) -> None:
        """Count in a budget; all bodies together hold at most ``total`` bytes."""
        self._budget = budget
        self._total = total

    def take(self, count: int) -> None:
        """Count some bytes more.

        Raises:
            Overloaded: the bodies of all requests together, or of its caller, are too large.
        """
        budget, share = self._budget, self.share
        self.held += count
        budget.held += count
        if share is not None:
            share.held += count
        if budget.held <= (of_one := self._total * _OF_ONE):
            return
        if budget.held > self._total * (_OF_LARGE if self.held > LARGE else 1):
            raise Overloaded(
                "the bodies of all requests in progress exceed the limit", hint="send the request again later"
            )
        if share is not None and share.held > of_one:
            raise Overloaded(
                "the bodies of this caller's requests in progress exceed its share of the limit",
                hint="send the request again later",
            )

    async def take_answer(self, size: int) -> None:
        """Wait until a large answer of this size may be read; see ``AnswerBudget``."""
        await self._budget.answers.take(size)
        self._answer += size

    def take_of_answer(self, size: int) -> None:
        """Count bytes of a large answer that came; see ``AnswerBudget``."""
        self._budget.answers.take_now(size)
        self._answer += size

    async def take_event(self, size: int) -> None:
        """Wait until an event of a stream, of which so many bytes have come, may grow further.

        Raises:
            Overloaded: there was no room in time.
        """
        if (more := size - self._answer) > 0:
            await self._budget.answers.take(more, own=self._answer)
            self._answer += more

    def release(self) -> None:
        """The request is over."""
        self._budget.held -= self.held
        if self.share is not None:
            self.share.held -= self.held
        self.held = 0
        if self._answer:
            self.give_answer()

    def give_answer(self, size: int | None = None) -> None:
        """A large answer, or a large event, is held no longer; ``size``: of several answers, of this one."""
        size = self._answer if size is None else min(size, self._answer)
        self._budget.answers.give(size)
        self._answer -= size


class DisconnectWatch:
    """Cancels the task it was made in when the caller goes away."""

    is_due = False  # at the next look
    caller_left = False
    _watching: asyncio.Task[None] | None = None

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._task = asyncio.current_task()

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


class DisconnectWatches:
    """Watches the connections of all callers that have waited for a while.

    Most other requests are answered before a caller could disconnect, and a task or a timer for each request
    costs each of them.
    """

    _EVERY: Final = 0.25  # seconds; a caller is watched after one to two of them, and must be missed within 1

    def __init__(self) -> None:
        self._active: set[DisconnectWatch] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  # where a look is planned

    def begin(self, watch: DisconnectWatch) -> None:
        """Watch over the caller from now on; its body has arrived."""
        self._active.add(watch)
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop = loop
            loop.call_later(self._EVERY, self._look, loop)

    def end(self, watch: DisconnectWatch) -> None:
        """The caller has been answered."""
        self._active.discard(watch)
        if watch.is_due:
            watch.stop()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        for watch in self._active:
            if watch.is_due:
                watch.start()
            watch.is_due = True
        if self._active:
            self._loop = loop
            loop.call_later(self._EVERY, self._look, loop)
