"""The gateway as an ASGI application: what agents call is handled here, everything else by ``pages``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.decision import Decision
from pointsman.errors import CallerError, MalformedRequest, TooLarge, WrongContentType
from pointsman.gateway import headers
from pointsman.gateway.auth import authorise
from pointsman.gateway.metrics import Metrics
from pointsman.gateway.ourselves import answer_command, last_word, send_words
from pointsman.gateway.pages import OPEN_PATHS, Pages
from pointsman.gateway.relay import Headers, Send, relay, send_body
from pointsman.gateway.request import Request
from pointsman.gateway.session_id import fingerprint, named_session
from pointsman.gateway.setup import Setup
from pointsman.gateway.upstream import Target, targets
from pointsman.gateway.wire import WIRES, Body, Fault, Wire
from pointsman.ledger.port import Attempt
from pointsman.text import turn_from_body
from pointsman.types import Turn, WireFormat

__all__ = ["Gateway"]

log = logging.getLogger(__name__)

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Any

#: Both spellings of each endpoint: some clients add the version to their base URL, some to their path.
_ENDPOINTS: Final[Mapping[bytes, Wire]] = {
    prefix + wire.path: wire for wire in WIRES.values() for prefix in (b"", b"/v1")
}
_STATUS_CLASS: Final = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")
_REQUEST_ID: Final = 128  # characters of a caller's request id that are kept


class Gateway:
    """Serves one ``Setup`` at a time; after ``replace``, requests under way finish with the one they had."""

    def __init__(self, setup: Setup) -> None:
        self.metrics = Metrics()
        self.setup = setup
        self.targets: Mapping[str, Target] = targets(setup.models, setup.upstreams, setup.connections, {})
        self.active = 0  # requests under way
        self.metrics.gauge("requests_in_progress", "Requests under way.", lambda: self.active)
        self.metrics.gauge(
            "ledger_lost", "Rows the ledger could not keep.", lambda: self.setup.runtime.ledger.lost
        )
        self._pages = Pages(self).app

    def replace(self, setup: Setup) -> None:
        """Serve another setup from the next request on."""
        known = {target.upstream.spec.name: target.upstream for target in self.targets.values()}
        self.targets = targets(setup.models, setup.upstreams, setup.connections, known)
        self.setup = setup
        setup.connections.keep_only(setup.upstreams.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        wire = _ENDPOINTS.get(scope["raw_path"])
        if wire is not None and scope["method"] == "POST":
            await self._agent(wire, scope, receive, send)
            return
        named = dict(scope["headers"])
        try:
            if scope["raw_path"] not in OPEN_PATHS:
                authorise(named, self.setup.server.keys)
        except CallerError as error:
            guess = WIRES[WireFormat.MESSAGES if b"anthropic-version" in named else WireFormat.CHAT]
            await self._refuse(guess, error, send)
            return
        scope["path"] = scope["raw_path"].decode("ascii")  # what was authorised is what is looked up
        await self._pages(scope, receive, send)

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down (``request.Context``)."""
        self.setup.runtime.ledger.append(attempt)
        self.metrics.attempt(attempt)

    async def _agent(self, wire: Wire, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one of the three endpoints, for as long as the caller is there."""
        self.active += 1
        watch: _Watch | None = None
        try:
            arrived = time.perf_counter()
            named = dict(scope["headers"])
            self._admit(scope, named)
            body = Body(await _read(receive, named, self.setup.server.limits.body_bytes))
            watch = _Watch(receive)
            await self._decide_and_relay(wire, scope, named, body, arrived, send)
        except CallerError as error:
            await self._refuse(wire, error, send)
        except asyncio.CancelledError:
            if watch is None or not watch.caller_left:
                raise  # the server is going down, not the caller
            self.metrics.count("disconnects")
        finally:
            self.active -= 1
            if watch is not None:
                watch.stop()

    def _admit(self, scope: Scope, named: Mapping[bytes, bytes]) -> None:
        """Check everything that can be checked before the body is read."""
        server = self.setup.server
        authorise(named, server.keys)
        if sum([len(name) + len(value) for name, value in scope["headers"]]) > server.limits.header_bytes:
            raise TooLarge(f"the headers are larger than {server.limits.header_bytes} bytes")
        if not named.get(b"content-type", b"").lower().startswith(b"application/json"):
            raise WrongContentType("the body must be JSON", hint="send 'Content-Type: application/json'")
        if named.get(b"content-encoding", b"identity") != b"identity":
            raise WrongContentType("the body must not be compressed", hint="send no 'Content-Encoding'")

    async def _decide_and_relay(
        self,
        wire: Wire,
        scope: Scope,
        named: Mapping[bytes, bytes],
        body: Body,
        arrived: float,
        send: Send,
    ) -> None:
        turn = turn_from_body(
            wire.format, body.readable, session=named_session(named, body), arrived_at=time.time()
        )
        if not turn.session:
            turn = msgspec.structs.replace(turn, session=fingerprint(turn))
        if answered := answer_command(turn, self.setup.command):
            status = await send_words(wire, body, turn, answered, [], send)
            self.metrics.count("requests", wire.format, _STATUS_CLASS[status // 100])
            return
        decision = await self.setup.runtime.decide(turn)
        self.metrics.decision(decision)
        speaking = self._speaking(wire.format, decision)
        request = Request(wire, body, decision, scope["headers"], named, scope["query_string"], self)
        spent = time.perf_counter() - arrived
        self.metrics.overhead.observe(spent)
        debug = named.get(b"x-pointsman-debug") == b"1"

        def own(target: Target | None) -> Headers:
            return _own_headers(decision, target, request.attempts, spent, named, turn if debug else None)

        if stopped := last_word(decision):
            status = await send_words(wire, body, turn, stopped, own(None), send)
        else:
            status = await relay(request, speaking, own, send)
        self.metrics.count("requests", wire.format, _STATUS_CLASS[status // 100])

    def _speaking(self, wire: WireFormat, decision: Decision) -> list[Target]:
        """Return the models of a decision's chain that understand the caller's format.

        Raises:
            MalformedRequest: none does.
        """
        chain = [self.targets[name] for name in decision.chain if name in self.targets]
        speaking = [target for target in chain if wire in target.model.formats]
        if not speaking:
            names = ", ".join(decision.chain) or "none"
            raise MalformedRequest(
                f"no model chosen for this request ({names}) speaks the format {wire}",
                hint=f'name a model whose upstream lists "{wire}" under formats',
                param="model",
            )
        return speaking

    async def _refuse(self, wire: Wire, error: CallerError, send: Send) -> None:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        fault = Fault(error.status, message, _code(error), error.param)
        sent: Headers = [(b"content-type", b"application/json")]
        if error.status == TooLarge.status:
            sent.append((b"connection", b"close"))  # the rest of the body is not read
        await send_body(send, error.status, sent, wire.error(fault))
        self.metrics.count("requests", wire.format, _STATUS_CLASS[error.status // 100])


class _Watch:
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
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        parts.append(message["body"])
        size += len(message["body"])
        if size > limit:
            raise TooLarge(f"the request body is larger than {limit} bytes")
    return b"".join(parts)


def _code(error: CallerError) -> str:
    """Return a stable code: the class name in snake case, and OpenAI's own where it has one."""
    name = type(error).__name__
    known = {"UnknownModel": "model_not_found", "Unauthorized": "invalid_api_key"}
    return known.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_")


def _own_headers(
    decision: Decision,
    target: Target | None,
    attempts: int,
    spent: float,
    named: Mapping[bytes, bytes],
    debug: Turn | None,
) -> Headers:
    tier = decision.tier
    own: Headers = [
        (b"x-pointsman-tier", tier.tier.encode() if tier else b"none"),
        (b"x-pointsman-decision-id", decision.id.encode()),
        (b"x-pointsman-overhead-ms", b"%.2f" % (spent * 1e3)),
        (b"x-pointsman-attempts", b"%d" % attempts),
    ]
    if target is not None:
        own.append((b"x-pointsman-model", headers.printable(target.model.name)))
    asked = named.get(b"x-request-id", b"")
    own.append((b"x-request-id", asked[:_REQUEST_ID] if asked.isascii() and asked else decision.id.encode()))
    if debug is not None:
        own += _debug_headers(decision, debug)
    return own


def _guided(decision: Decision) -> str:
    guidance = decision.guidance
    if guidance is None or guidance.firing is None:
        return ""
    return f"{guidance.firing.classifier}; {guidance.arm}; {guidance.firing.rung}"


def _debug_headers(decision: Decision, turn: Turn) -> Headers:
    tier = decision.tier
    shown = {
        "session": turn.session,
        "policy": decision.policy,
        "chain": " ".join(decision.chain),
        "decide-us": f"{decision.elapsed_us:.0f}",
        "domains": decision.domains.signature if decision.domains else "",
        "domains-rule": decision.domains.rule if decision.domains else "",
        "guidance": _guided(decision),
        "reasons": "; ".join(reason.code for reason in decision.reasons),
        "abstained": "; ".join(reason.code for reason in decision.abstained),
    }
    if tier:
        shown |= {
            "score": f"{tier.score:.4f}",
            "confidence": f"{tier.confidence:.4f}",
            "stage": tier.stage,
            "signals": "; ".join(tier.signals),
        }
    return [(f"x-pointsman-{name}".encode(), headers.printable(text)) for name, text in shown.items() if text]
