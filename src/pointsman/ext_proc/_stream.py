"""One request as Envoy shows it, message by message (``ExternalProcessor.Process``).

With buffered bodies every message is answered at once, and the decision is in the answer to the body. With
streamed bodies in full duplex nothing is answered until all of the body has come: the head of the request
waits for the decision, and Envoy does not ask for it earlier.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from pointsman.access import Grant
from pointsman.config.serving import ExtProcSpec
from pointsman.errors import CallerError, Overloaded, Unauthorized
from pointsman.ext_proc import messages as proto
from pointsman.ext_proc._envoy import (
    EnvoyExchange,
    Fields,
    admitted,
    body_parts,
    check_passed,
    continued,
    current,
    immediate,
    is_bounded,
    mutated,
    plain,
    refused,
)
from pointsman.gateway.parts import (
    BodyBudget,
    BodyReservation,
    CapturedAnswer,
    LiveState,
    caller_credentials,
    response_headers,
    whole_body,
)
from pointsman.gateway.request_log import ServedRequest, current_request
from pointsman.gateway.upstream import Target, header_value
from pointsman.upstreams.port import Headers
from pointsman.upstreams.relayed_headers import OWN_PREFIX
from pointsman.wire import ENDPOINTS

log = logging.getLogger(__name__)

#: Serves one request of ASGI: the gateway.
Serve = Callable[..., Any]
#: Counts what became of a request.
Count = Callable[[str], None]

_NONE, _, _BUFFERED, _PARTIAL, _DUPLEX, _ = range(len(proto.BODY_MODES))
#: Statuses of refusals that are about the form of a body, which may be one for somebody else behind Envoy.
_OF_FORM: Final = frozenset({400, 413, 415})
_FAILED: Final = 500
#: Not shown to the gateway: answers are kept by Envoy's upstream, not here; the body may have been changed.
_HIDDEN: Final = frozenset({b"idempotency-key", b"content-length"})
#: Without keys these must name this machine, which Envoy is not.
_HOSTS: Final = frozenset({b"host", b"origin"})
#: So that the usage in an answer can be read.
_REMOVED: Final = ("accept-encoding",)
_STATUS: Final = re.compile(rb"[1-5][0-9]{2}")
#: Seconds that the gateway gets to write down a response whose end it has.
_PATIENCE: Final = 5.0


class _Phase(Enum):
    """How far Envoy has been answered about a request."""

    OPEN = auto()  # its head has been, if it came
    HELD = auto()  # its head has not been
    PASSED = auto()  # it goes on
    ANSWERED = auto()  # with the response, at once


class _Modes(NamedTuple):
    """How Envoy sends bodies."""

    request: int
    response: int


class _Head(NamedTuple):
    """The head of a request."""

    pseudo: dict[bytes, bytes]
    headers: Headers

    @property
    def method(self) -> bytes:
        return self.pseudo.get(b":method", b"")

    @property
    def target(self) -> tuple[bytes, bytes]:
        """Its path and its query."""
        path, _, query = self.pseudo.get(b":path", b"").partition(b"?")
        return path, query

    def scope(self, *, has_keys: bool) -> dict[str, Any]:
        """Return it as ASGI has it, as the gateway is shown it."""
        path, query = self.target
        hidden = _HIDDEN if has_keys else _HIDDEN | _HOSTS
        return {
            "type": "http",
            "method": self.method.decode("latin-1"),
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "headers": [pair for pair in self.headers if pair[0] not in hidden],
        }

    def spoofed(self) -> list[str]:
        """Return the gateway's headers that the caller sent, a key among them."""
        return sorted({name.decode("latin-1") for name, _ in self.headers if name.startswith(OWN_PREFIX)})

    def keys(self, known: Sequence[bytes]) -> Iterator[str]:
        """Yield the headers that hold a key of the gateway: it goes nowhere."""
        if not known:
            return
        try:
            theirs = {name for name, _ in caller_credentials(self.headers, known)}
        except Unauthorized:
            theirs = set()
        sent = {name for name, _ in self.headers}
        yield from (name.decode() for name in (b"authorization", b"x-api-key") if name in sent - theirs)


def _read(headers: Any) -> tuple[dict[bytes, bytes], list[tuple[bytes, bytes]]]:
    """Return pseudo headers by name, and the others as ASGI has them."""
    pseudo: dict[bytes, bytes] = {}
    others: list[tuple[bytes, bytes]] = []
    for header in headers.headers:
        name = header.key.lower().encode("latin-1", "replace")
        value = header.raw_value or header.value.encode("utf-8", "surrogateescape")
        if name.startswith(b":"):
            pseudo[name] = value
        else:
            others.append((name, value))
    return pseudo, others


class ProcessingStream:
    """The messages of one request, in the order in which Envoy sends them."""

    def __init__(
        self, serve: Serve, state: LiveState, bodies: BodyBudget, spec: ExtProcSpec, count: Count
    ) -> None:
        """Prepare for one request.

        Args:
            serve: The gateway.
            state: State that serves the request.
            bodies: Counts the bytes of all bodies that wait for their end.
            spec: How Envoy is answered.
            count: Called with the result of the request.
        """
        self._serve = serve
        self._state = state
        self._reservation = BodyReservation(bodies, state.body_bytes)
        self._spec = spec
        self._count = count
        mode = _DUPLEX if spec.body_mode == "full_duplex" else _BUFFERED
        self._modes = _Modes(mode, mode)
        self._head = _Head({}, [])
        self._parts: list[bytes] = []
        self._size = 0
        self._phase = _Phase.OPEN
        self._grant: Grant | None = None  # of the request's key
        self._exchange: EnvoyExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._served: ServedRequest | None = None
        self._answer = CapturedAnswer()  # the gateway's own

    async def take(self, message: Any) -> list[Any]:
        """Return the answers to a message; in full duplex there may be none yet."""
        if self._phase is _Phase.ANSWERED:
            return []  # what was on its way goes nowhere
        if self._spec.body_mode == "auto" and message.HasField("protocol_config"):
            config = message.protocol_config
            self._modes = _Modes(config.request_body_mode, config.response_body_mode)
        kind = message.WhichOneof("request")
        match kind:
            case "request_headers":
                return await self._take_head(message.request_headers)
            case "request_body":
                return await self._take_body(message.request_body)
            case "request_trailers":
                return await self._take_trailers()
            case "response_headers":
                return [self._take_response(message.response_headers)]
            case "response_body":
                return [self._take_response_body(message.response_body)]
            case "response_trailers":
                self._finish()
                return [continued("response_trailers")]
            case _:
                return []

    async def end(self) -> None:
        """Envoy has ended the stream: record the known part of the response."""
        self._reservation.release()
        task, exchange = self._task, self._exchange
        if task is None or exchange is None or task.done():
            return
        if exchange.has_begun and not exchange.has_body:
            exchange.finish()  # its body is not shown
        if exchange.has_ended:
            await asyncio.wait({task}, timeout=_PATIENCE)
        task.cancel()  # otherwise the caller left
        await asyncio.wait({task}, timeout=_PATIENCE)

    @property
    def _is_duplex(self) -> bool:
        return self._modes.request == _DUPLEX

    async def _take_head(self, message: Any) -> list[Any]:
        self._head = _Head(*_read(message.headers))
        try:
            self._grant = admitted(self._state, self._head.headers)
            if why := self._undecided(ends=message.end_of_stream):
                await self._pass_on(why)
                return [continued("request_headers", self._cleaned())]
        except (CallerError, Overloaded) as error:
            return [await self._refuse(error)]
        if self._is_duplex:
            self._phase = _Phase.HELD
            return []
        return [continued("request_headers")]

    def _undecided(self, *, ends: bool) -> str:
        """Return why a request is not decided, by its head; empty if it is."""
        if self._head.method != b"POST" or self._head.target[0] not in ENDPOINTS:
            return "other_path"
        if ends:
            return "no_body"
        return "" if self._modes.request in {_BUFFERED, _PARTIAL, _DUPLEX} else "body_mode"

    async def _pass_on(self, why: str) -> None:
        """Pass the request unchanged.

        Raises:
            CallerError: its key may not do that.
            Overloaded: that is unknown.
        """
        await check_passed(self._state, self._grant, why, self._head.method, self._head.headers)
        self._count(why)
        self._reservation.release()
        self._phase = _Phase.PASSED

    async def _refuse(self, error: CallerError | Overloaded) -> Any:
        """Answer in the place of an upstream."""
        self._count("answered")
        self._parts.clear()
        self._reservation.release()
        self._phase = _Phase.ANSWERED
        return await refused(error, self._scope())

    def _cleaned(self) -> Fields | None:
        """Return headers removed from a request that passes unchanged: none if no key is required."""
        keys = self._state.server.keys
        removed = [*self._head.spoofed(), *self._head.keys(keys)] if keys else []
        return {"header_mutation": mutated((), removed)} if removed else None

    async def _take_body(self, message: Any) -> list[Any]:
        body, ends = message.body, message.end_of_stream
        if self._phase is _Phase.PASSED:
            return [plain("request_body", streams=self._is_duplex, body=body, ends=ends)]
        self._parts.append(body)
        self._size += len(body)
        try:
            self._reservation.take(len(body))
        except Overloaded:
            return await self._as_it_came("overloaded", ends=ends)
        is_cut = self._modes.request == _PARTIAL and not ends
        if is_cut or self._size > self._state.server.limits.body_bytes:
            return await self._as_it_came("too_large", ends=ends)
        if self._is_duplex:
            return await self._decide(ends=True) if ends else []
        return await self._decide()

    async def _take_trailers(self) -> list[Any]:
        decided = await self._decide() if self._phase is _Phase.HELD else []
        return decided if self._phase is _Phase.ANSWERED else [*decided, continued("request_trailers")]

    async def _as_it_came(self, why: str, *, ends: bool) -> list[Any]:
        """Pass a request after a part or all of its body, if its key allows that."""
        body, was_held = b"".join(self._parts), self._phase is _Phase.HELD
        try:
            await self._pass_on(why)
        except (CallerError, Overloaded) as error:
            return [await self._refuse(error)]
        self._parts.clear()
        if not was_held:
            return [continued("request_body", self._cleaned())]
        head = continued("request_headers", self._cleaned())
        return [head, *body_parts(body, ends=ends)]

    async def _decide(self, *, ends: bool = False) -> list[Any]:
        """Let the gateway serve the request until it would send it, and answer Envoy with that.

        Args:
            ends: In full duplex: the body was the end of the request; else trailers follow.
        """
        exchange = self._exchange = EnvoyExchange()
        self._reservation.release()  # the gateway counts it from now on
        self._task = asyncio.create_task(self._run(exchange, b"".join(self._parts)))
        waiting: set[asyncio.Future[Any]] = {self._task, exchange.call}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if exchange.call.done():
            self._served = exchange.served
            self._count("decided")
            return list(self._changed(exchange.call.result().body, ends=ends))
        status = self._answer.status
        decided = self._served is not None and self._served.decision is not None
        may_pass = status >= _FAILED or (status in _OF_FORM and not decided)
        if not status or (may_pass and not is_bounded(self._grant)):
            return await self._as_it_came("unknown_format" if status in _OF_FORM else "failed", ends=ends)
        self._count("answered")
        self._phase = _Phase.ANSWERED
        return [immediate(status, self._answer.headers, self._answer.body)]

    def _changed(self, body: bytes, *, ends: bool) -> Iterator[Any]:
        sent = b"".join(self._parts)
        self._parts.clear()
        is_new = self._spec.replace_body and body != sent
        body = body if is_new else sent
        was_held, self._phase = self._phase is _Phase.HELD, _Phase.PASSED
        headers, removed = self._request_headers()
        if is_new:
            headers.append((b"content-length", b"%d" % len(body)))
        common = {"header_mutation": mutated(headers, removed), "clear_route_cache": True}
        if was_held:
            yield continued("request_headers", common)
            yield from body_parts(body, ends=ends)
            return
        if is_new:
            common["body_mutation"] = {"body": body}
        yield continued("request_body", common)

    def _request_headers(self) -> tuple[list[tuple[bytes, bytes]], list[str]]:
        """Return the headers that are set on the request, and those that are removed from it."""
        headers: list[tuple[bytes, bytes]] = [*self._own_headers()]
        target = self._target()
        if target is not None:
            called = target.model.id if self._spec.model_value == "id" else target.model.name
            headers += [(name.lower().encode(), header_value(called)) for name in self._spec.model_headers]
        ours = {name.decode("latin-1") for name, _ in headers}
        spoofed = [name for name in self._head.spoofed() if name not in ours]
        return headers, [*_REMOVED, *spoofed, *self._head.keys(self._state.server.keys)]

    def _target(self) -> Target | None:
        """Return the model that must answer."""
        decision = self._served.decision if self._served else None
        return self._state.targets.get(decision.chain[0]) if decision and decision.chain else None

    def _own_headers(self) -> Headers:
        """Return the gateway's ``x-pointsman-*`` headers, for the request and for the response."""
        decision = self._served.decision if self._served else None
        if decision is None:
            return []
        found = response_headers(decision, self._target(), 1, 0.0, {}, None)
        told = (b"tier", b"decision-id", b"model")
        return [pair for pair in found if pair[0].removeprefix(OWN_PREFIX) in told]

    async def _run(self, exchange: EnvoyExchange, body: bytes) -> None:
        """Serve the request by the gateway, as if it had come over HTTP."""
        current.set(exchange)

        async def send(message: Any) -> None:
            if exchange.call.done():
                return  # the response is Envoy's
            self._served = current_request()
            await self._answer(message)

        try:
            await self._serve(self._scope(), whole_body(body), send)
        except Exception:
            # Fail open: whatever the gateway raises, the request goes on as it came; counted as "failed".
            log.exception("a request failed inside the gateway")

    def _scope(self) -> dict[str, Any]:
        return self._head.scope(has_keys=bool(self._state.server.keys))

    def _take_response(self, message: Any) -> Any:
        exchange = self._exchange
        if exchange is None or not exchange.call.done():
            return continued("response_headers")
        pseudo, headers = _read(message.headers)
        status = pseudo.get(b":status", b"")
        exchange.begin(int(status) if _STATUS.fullmatch(status) else 0, headers)
        if message.end_of_stream or self._modes.response == _NONE:
            exchange.finish()
        return continued("response_headers", {"header_mutation": mutated(self._own_headers())})

    def _take_response_body(self, message: Any) -> Any:
        if self._exchange is not None:
            self._exchange.feed(message.body)
            if message.end_of_stream:
                self._finish()
        streams = self._modes.response == _DUPLEX
        return plain("response_body", streams=streams, body=message.body, ends=message.end_of_stream)

    def _finish(self) -> None:
        if self._exchange is not None:
            self._exchange.finish()
