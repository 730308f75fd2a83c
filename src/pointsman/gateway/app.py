"""The gateway as an ASGI application: what agents call is handled here, everything else by ``pages``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from pointsman.decision import Decision
from pointsman.errors import CallerError, MalformedRequest, Overloaded, TooLarge, Unauthorized
from pointsman.gateway.auth import authorise
from pointsman.gateway.budget import Budget
from pointsman.gateway.caller import CallerLeft, Receive, Scope, Watch, Watches, read_body
from pointsman.gateway.chains import Chains, where_it_is
from pointsman.gateway.metrics import Metrics
from pointsman.gateway.ourselves import answer_command, last_word, send_words
from pointsman.gateway.own_headers import asked_id, own_headers
from pointsman.gateway.pages import OPEN_PATHS, Pages
from pointsman.gateway.reading import read_turn
from pointsman.gateway.relay import Headers, Send, relay, send_body
from pointsman.gateway.request import Request
from pointsman.gateway.second import SecondModel
from pointsman.gateway.setup import Setup
from pointsman.gateway.tokens import TOKEN_PATHS, count_tokens
from pointsman.gateway.upstream import Target, targets
from pointsman.gateway.wire import WIRES, Body, Fault, Wire
from pointsman.ledger.port import Attempt, ShadowAnswer
from pointsman.types import WireFormat

__all__ = ["Gateway"]

log = logging.getLogger(__name__)

#: Both spellings of each endpoint: some clients add the version to their base URL, some to their path.
_ENDPOINTS: Final[Mapping[bytes, Wire]] = {
    prefix + wire.path: wire for wire in WIRES.values() for prefix in (b"", b"/v1")
}
#: Seconds that a caller who takes nothing may hold up the end: on any network, time for one packet.
_LAST_WORD: Final = 1.0
_STATUS_CLASS: Final = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")


class Gateway:
    """Serves one ``Setup`` at a time; after ``replace``, requests under way finish with the one they had."""

    def __init__(self, setup: Setup) -> None:
        self.metrics = Metrics()
        self.setup = setup
        self.targets: Mapping[str, Target] = targets(setup.models, setup.upstreams, setup.connections, {})
        setup.begin()
        self.chains = Chains()
        self.active = 0  # requests under way
        self.budget = Budget()
        self._watches = Watches()
        self._speakers: dict[tuple[WireFormat, tuple[str, ...]], list[Target]] = {}
        self.metrics.gauge("requests_in_progress", "Requests under way.", lambda: self.active)
        self.metrics.gauge(
            "body_bytes_held", "Bytes of the bodies of requests under way.", lambda: self.budget.held
        )
        self.metrics.gauge(
            "ledger_lost", "Rows the ledger could not keep.", lambda: self.setup.runtime.ledger.lost
        )
        self.metrics.gauge(
            "session_failures",
            "Times the memory of a session could not be read, kept or written down.",
            lambda: self.setup.runtime.failures,
        )
        self.metrics.gauge(
            "stores_failing", "Stores that fail just now.", lambda: len(self.setup.runtime.faults)
        )
        self.metrics.results("shadow_decisions", "Turns decided under the shadow policy too.", self._shadowed)
        self.second = self._second()
        self._pages = Pages(self).app

    def replace(self, setup: Setup) -> None:
        """Serve another setup from the next request on."""
        known = {target.upstream.spec.name: target.upstream for target in self.targets.values()}
        found = targets(setup.models, setup.upstreams, setup.connections, known)
        setup.begin()
        self.targets, self._speakers = found, {}
        before, self.setup = self.setup, setup
        if before.connections is not setup.connections:
            before.connections.close()
        setup.connections.keep_only(setup.upstreams.values())
        self.second = self._second(self.second)

    def end(self) -> None:
        """Break off whatever no caller waits for."""
        if self.second is not None:
            self.second.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            path = scope["raw_path"]
            if (wire := _ENDPOINTS.get(path)) is not None:
                await self._agent(wire, scope, receive, send)
                return
            if path in TOKEN_PATHS:
                await self._count(scope, receive, send)
                return
        named = dict(scope["headers"])
        try:
            if scope["raw_path"] not in OPEN_PATHS:
                authorise(named, self.setup.server.keys)
        except CallerError as error:
            guess = WIRES[WireFormat.MESSAGES if b"anthropic-version" in named else WireFormat.CHAT]
            await self._refuse(guess, error, named, send)
            return
        scope["path"] = scope["raw_path"].decode("ascii")  # what was authorised is what is looked up
        await self._pages(scope, receive, send)

    def record(self, attempt: Attempt) -> None:
        """Write an attempt down (``request.Context``)."""
        self.setup.runtime.ledger.append(attempt)
        self.metrics.seen(attempt)

    async def _agent(self, wire: Wire, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one of the three endpoints, for as long as the caller is there."""
        self.active += 1
        watch: Watch | None = None
        share = self.budget.share(self.setup.server.limits.total)
        try:
            arrived = time.perf_counter()
            named = dict(scope["headers"])
            body = await read_body(named, receive, self.setup.server, share)
            watch = self._watches.begin(receive)
            await self._decide_and_relay(wire, scope, named, body, arrived, send)
        except (CallerError, Overloaded) as error:
            await self._refuse(wire, error, dict(scope["headers"]), send)
        except CallerLeft:
            self.metrics.count("disconnects")
        except asyncio.CancelledError:
            if watch is not None and watch.caller_left:
                self.metrics.count("disconnects")
            else:
                await self._break_off(wire, send)
        except Exception:
            # Ours alone. Once an answer has begun, the server cuts the connection: it must not look whole.
            log.exception("a request failed inside the gateway")
            with suppress(RuntimeError):
                await self._say(wire, Fault(500, "the gateway failed", "internal_error"), [], send)
        finally:
            self.active -= 1
            share.release()
            if watch is not None:
                self._watches.end(watch)

    async def _break_off(self, wire: Wire, send: Send) -> None:
        """Say that the server ends where no answer has begun; one that has is cut: it must not look whole."""
        log.warning("a request was broken off: the gateway ends")
        fault = Fault(503, "the gateway is going down", "going_down")
        sent: Headers = [(b"connection", b"close"), (b"retry-after", b"1")]
        with suppress(RuntimeError, TimeoutError):
            async with asyncio.timeout(_LAST_WORD):
                await self._say(wire, fault, sent, send)

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the tokens of a request: no model writes anything, so nothing is decided."""
        wire = WIRES[WireFormat.MESSAGES]
        share = self.budget.share(self.setup.server.limits.total)
        try:
            body = await read_body(dict(scope["headers"]), receive, self.setup.server, share)
            status = await count_tokens(self.targets, body, scope, send)
            self.metrics.count("requests", wire.format, _STATUS_CLASS[status // 100])
        except (CallerError, Overloaded) as error:
            await self._refuse(wire, error, dict(scope["headers"]), send)
        except CallerLeft:
            self.metrics.count("disconnects")
        finally:
            share.release()

    async def _decide_and_relay(
        self,
        wire: Wire,
        scope: Scope,
        named: Mapping[bytes, bytes],
        body: Body,
        arrived: float,
        send: Send,
    ) -> None:
        turn, link = await read_turn(wire.format, named, body, self.chains)
        if answered := answer_command(turn, self.setup.command):
            status = await send_words(wire, body, turn, answered, [], send)
            self.metrics.count("requests", wire.format, _STATUS_CLASS[status // 100])
            return
        if link is not None:
            self.metrics.count("continued", "known" if link.earlier else "unknown")
        models, speakers = self.targets, self._speakers  # another setup may serve when it is decided
        decision = await self.setup.runtime.decide(turn)
        self.metrics.seen(decision)
        speaking = speakers.get((wire.format, decision.chain))
        if speaking is None:
            speaking = speakers[wire.format, decision.chain] = _speaking(wire.format, decision, models)
        request = Request(wire, body, decision, scope["headers"], named, scope["query_string"], self)
        if wire.format is WireFormat.RESPONSES:
            request.on_answer = partial(self.chains.keep, turn, body)
            if link is not None and decision.tier is not None:  # else the caller named the model
                speaking = where_it_is(speaking, models.get(link.model))
        spent = time.perf_counter() - arrived
        self.metrics.overhead.observe(spent)
        debug = named.get(b"x-pointsman-debug") == b"1"

        def own(target: Target | None) -> Headers:
            return own_headers(decision, target, request.attempts, spent, named, turn if debug else None)

        if stopped := last_word(decision):
            status = await send_words(wire, body, turn, stopped, own(None), send)
        else:
            to = send if self.second is None else self.second.listening(request, send)
            status = await relay(request, speaking, own, to)
        self.metrics.count("requests", wire.format, _STATUS_CLASS[status // 100])

    def _second(self, before: SecondModel | None = None) -> SecondModel | None:
        """Return what sends a share of the requests to another model too, where one is configured."""
        spec = self.setup.second
        if spec.model is None:
            if before is not None:
                before.end()
            return None
        target = self.targets[spec.model]
        if before is not None:
            before.change(spec, target)
            return before
        return SecondModel(spec, target, self._keep, self.metrics)

    def _keep(self, answer: ShadowAnswer) -> None:
        self.setup.runtime.ledger.append(answer)

    def _shadowed(self) -> Mapping[str, float]:
        return self.setup.shadow.counts if self.setup.shadow else {}

    async def _refuse(
        self, wire: Wire, error: CallerError | Overloaded, named: Mapping[bytes, bytes], send: Send
    ) -> None:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        param = error.param if isinstance(error, CallerError) else None
        fault = Fault(error.status, message, _code(error), param)
        sent: Headers = []
        if asked := asked_id(named):
            sent.append((b"x-request-id", asked))
        if error.status == Unauthorized.status:
            sent.append((b"www-authenticate", b"Bearer"))
        if isinstance(error, Overloaded):
            sent.append((b"retry-after", b"1"))
        if isinstance(error, TooLarge | Overloaded) or b"expect" in named:
            sent.append((b"connection", b"close"))  # the rest of the body is not read
        await self._say(wire, fault, sent, send)

    async def _say(self, wire: Wire, fault: Fault, sent: Headers, send: Send) -> None:
        sent.append((b"content-type", b"application/json"))
        await send_body(send, fault.status, sent, wire.error(fault))
        self.metrics.count("requests", wire.format, _STATUS_CLASS[fault.status // 100])


def _code(error: CallerError | Overloaded) -> str:
    """Return a stable code: the class name in snake case, and OpenAI's own where it has one."""
    name = type(error).__name__
    known = {"UnknownModel": "model_not_found", "Unauthorized": "invalid_api_key"}
    return known.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_")


def _speaking(wire: WireFormat, decision: Decision, models: Mapping[str, Target]) -> list[Target]:
    """Return the models of a decision's chain that understand the caller's format.

    Raises:
        MalformedRequest: none does.
    """
    chain = [models[name] for name in decision.chain if name in models]
    speaking = [target for target in chain if wire in target.model.formats]
    if not speaking:
        names = ", ".join(decision.chain) or "no tier has one"
        raise MalformedRequest(
            f"no model chosen for this request ({names}) speaks the format {wire}",
            hint=f'name a model whose upstream lists "{wire}" under formats',
            param="model",
        )
    return speaking
