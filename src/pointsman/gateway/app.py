"""The gateway as an ASGI application: routes each request and handles its errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from prometheus_client.core import Metric

from pointsman.errors import CallerError, MethodNotAllowed, Overloaded, TooLarge
from pointsman.gateway._admission import RequestShares
from pointsman.gateway._agent_endpoint import AgentEndpoint, AnsweredElsewhere
from pointsman.gateway._console import ConsoleMount
from pointsman.gateway._decide import DECISION_PATHS, DecisionEndpoint
from pointsman.gateway._inbound import (
    BodyBudget,
    BodyReservation,
    CallerLeft,
    DisconnectWatch,
    DisconnectWatches,
    InboundRequest,
    Receive,
    Scope,
    Send,
    authorise,
    read_body,
)
from pointsman.gateway._live_state import LiveState, Peers
from pointsman.gateway._local_replies import send_fault, send_refusal, send_shutting_down
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._passing import is_passed
from pointsman.gateway._passthrough import Inbound, Passthrough
from pointsman.gateway._routes import OPEN_PATHS, Readiness, build_routes
from pointsman.gateway._streaming import DirectSend
from pointsman.gateway._tokens import count_tokens
from pointsman.stores.ledger import Ledger, QueuedLedger
from pointsman.vocabulary import ModelSpec
from pointsman.wire import ENDPOINTS, FORMATS, Fault, Format, guess_wire

__all__ = ["Gateway"]

log = logging.getLogger(__name__)

#: The endpoints that count tokens, in both spellings too.
_TOKEN_ENDPOINTS: Final[Mapping[bytes, Format]] = {
    prefix + wire.token_path: wire for wire in FORMATS.values() if wire.token_path for prefix in (b"", b"/v1")
}

#: Answers a request with the state it began with, and returns the status sent.
_Handler = Callable[[LiveState, InboundRequest, Send], Awaitable[int]]


class Gateway:
    """Serves one ``LiveState`` at a time. What outlives a reload is held here."""

    def __init__(self, state: LiveState) -> None:
        self.state = state
        self.metrics = Metrics()
        self.metrics.price(_models(state))
        self.active = 0  # requests in progress, with those that other processes answer
        self.bodies = BodyBudget()
        self.readiness = Readiness()
        self.routes = build_routes(self.metrics, self.readiness)
        self._shares = RequestShares()
        self._watches = DisconnectWatches()
        self._agents = AgentEndpoint(self.metrics)
        self._count_tokens = partial(count_tokens, self.metrics)
        self._decisions = DecisionEndpoint(self._agents, self.metrics)
        self._passthrough = Passthrough(self.metrics)
        self._console = ConsoleMount(lambda: self.state, lambda: self.in_progress, self.metrics)
        _add_gauges(self)

    def replace(self, state: LiveState) -> None:
        """Put another state in effect for the requests that arrive from now on."""
        previous, self.state = self.state, state
        self.metrics.price(_models(state))
        previous.retire(state)

    def share(self, peers: Peers, metrics: Callable[[], Awaitable[Sequence[Metric]]]) -> None:
        """Serve as one of several processes.

        Args:
            peers: The others, which answer requests that need state of another process.
            metrics: Returns the metrics of all.
        """
        self._agents.peers = self._console.peers = peers
        self.metrics.of_all = metrics

    @property
    def in_progress(self) -> int:
        """Requests that this process answers; one that another process answers counts there."""
        peers = self._agents.peers
        return self.active - (peers.answering if peers is not None else 0)

    def serves_console(self, path: bytes) -> bool:
        """Whether a path is the console's."""
        return self._console.serves(path)

    def stop(self) -> None:
        """Cancel what no caller waits for."""
        if self.state.shadow_model is not None:
            self.state.shadow_model.stop()
        self._console.close()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        """Serve one request (ASGI). No coroutine itself: every event of a stream would go through it."""
        if scope.get("method") == "POST" and (wire := ENDPOINTS.get(scope["raw_path"])) is not None:
            return self._serve(self._agents.answer, wire, self.state, scope, receive, send)
        return self._serve_other(scope, receive, send)

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve any request but those of agents."""
        if scope["type"] != "http":
            return
        state, path = self.state, scope["raw_path"]
        if scope["method"] == "POST" and (other := self._beside_agents(path, scope)) is not None:
            await self._serve(*other, state, scope, receive, send)
            return
        headers, wire = dict(scope["headers"]), ENDPOINTS.get(path) or _TOKEN_ENDPOINTS.get(path)
        caller, is_page = "", self._console.serves(path)
        try:
            is_open = path in OPEN_PATHS or is_page  # of a page, the console asks who looks at it
            if not is_open or not state.server.keys:  # without keys only web pages are kept out
                caller = authorise(headers, state.server, state.callers, is_open=is_open)
                if state.access is not None:
                    state.access.admit(caller)
            if wire is not None or path in DECISION_PATHS:
                raise MethodNotAllowed(scope["method"], allowed="POST")
        except CallerError as error:
            wire = wire or guess_wire(headers)
            self._count(wire, await send_refusal(wire, error, headers, send, scope))
            return
        if is_page:
            await self._console(scope, receive, send)
            return
        if is_passed(path):
            wire = guess_wire(headers, path.decode("ascii"))
            await self._serve(None, wire, state, scope, receive, send, caller)
            return
        scope["path"] = path.decode("ascii")  # what was authorised is what is looked up
        scope["state"] = {"live": state, "caller": caller}
        await self.routes(scope, receive, send)

    def _beside_agents(self, path: bytes, scope: Scope) -> tuple[_Handler, Format] | None:
        """Return what answers a request in an agent's shape without serving it, and the caller's format."""
        if (wire := _TOKEN_ENDPOINTS.get(path)) is not None:
            return self._count_tokens, wire
        if path not in DECISION_PATHS:
            return None
        return partial(self._decisions.answer, path), guess_wire(name for name, _ in scope["headers"])

    async def _serve(
        self,
        handler: _Handler | None,
        wire: Format,
        state: LiveState,
        scope: Scope,
        receive: Receive,
        send: Send,
        passed_caller: str = "",
    ) -> None:
        """Read a request and answer it, for as long as the caller is there. Every failure ends here.

        Without a handler it is passed on to another upstream, body unread, for the key ``passed_caller``.
        """
        arrived, headers = time.perf_counter(), dict(scope["headers"])
        reservation = BodyReservation(self.bodies, state.body_bytes)
        watch: DisconnectWatch | None = None
        self.active += 1
        try:
            caller = self._admit(state, reservation, None if handler is None else headers, passed_caller)
            if handler is None:
                watch = DisconnectWatch(receive)
                ended = partial(self._watches.begin, watch)
                inbound = Inbound(wire, scope, headers, receive, reservation, ended, arrived, passed_caller)
                self._count(wire, await self._passthrough.answer(state, inbound, send))
                return
            take = send.take_body if isinstance(send, DirectSend) else None
            body = await read_body(wire, headers, receive, state.server, reservation, take)
            watch = DisconnectWatch(receive)
            self._watches.begin(watch)
            request = InboundRequest(
                wire,
                headers,
                scope["headers"],
                scope["query_string"],
                body,
                arrived,
                state.server.keys,
                reservation,
                state.server.limits.body_bytes,
                caller,
            )
            status = await handler(state, request, send)
            self.metrics.responses[wire.format, status] += 1
        except (CallerError, Overloaded, RecursionError) as error:
            self._count(wire, await send_refusal(wire, _refusal(error), headers, send, scope))
        except (CallerLeft, AnsweredElsewhere) as gone:  # the other process counts what it answers
            self.metrics.count("disconnects", by=isinstance(gone, CallerLeft))
        except asyncio.CancelledError:
            if watch is not None and watch.caller_left:
                self.metrics.count("disconnects")
            elif status := await send_shutting_down(wire, send):
                self._count(wire, status)
        except Exception:
            # Ours alone. Once an answer has begun, the server cuts the connection: it must not look whole.
            log.exception("a request failed inside the gateway")
            self.metrics.count("internal_errors")
            with suppress(RuntimeError):
                fault = Fault(500, "the gateway failed", "internal_error")
                self._count(wire, await send_fault(wire, fault, [], send))
        finally:
            self.active -= 1
            if state.has_several_callers:
                self._shares.leave(reservation)
            reservation.release()
            if watch is not None:
                self._watches.end(watch)

    def _admit(
        self, state: LiveState, request: BodyReservation, headers: Mapping[bytes, bytes] | None, name: str
    ) -> str:
        """Return the name of the caller, by headers if it is not known; refuse what there is no room for."""
        if self.active > state.server.limits.requests:
            raise Overloaded("too many requests are in progress", hint="send the request again later")
        if headers is not None:
            name = authorise(headers, state.server, state.callers)
            if state.access is not None:
                state.access.admit(name)
        if state.has_several_callers:
            self._shares.enter(request, name, state.server.limits.requests)
        return name

    def _count(self, wire: Format, status: int) -> None:
        self.metrics.responses[wire.format, status] += 1


def _refusal(error: CallerError | Overloaded | RecursionError) -> CallerError | Overloaded:
    """Return why a request is refused; some readers go a few levels less deep than the first."""
    return TooLarge("the request body is nested too deep") if isinstance(error, RecursionError) else error


def _models(state: LiveState) -> dict[str, ModelSpec]:
    return {name: target.model for name, target in state.targets.items()}


def _settlements_lost(state: LiveState) -> float:
    return state.access.budgets.lost if state.access is not None else 0.0


def _spilled(ledger: Ledger) -> float:
    return ledger.spilled if isinstance(ledger, QueuedLedger) else 0.0


def _add_gauges(gateway: Gateway) -> None:
    """Add the metrics read from the gateway and its live state at each scrape."""
    watch = gateway.metrics.watch
    watch("workers", lambda: 1.0)
    watch("policy_info", lambda: {gateway.state.runtime.engine.version: 1.0})
    watch("requests_in_progress", lambda: gateway.in_progress)
    watch("body_bytes_held", lambda: gateway.bodies.held)
    watch("ledger_lost", lambda: gateway.state.runtime.ledger.lost)
    watch("ledger_spilled", lambda: _spilled(gateway.state.runtime.ledger))
    watch("ledger_waiting", lambda: gateway.state.runtime.ledger.waiting)
    watch("session_failures", lambda: gateway.state.runtime.failures)
    watch("budget_settlements_lost", lambda: _settlements_lost(gateway.state))
    watch("stores_failing", lambda: len(gateway.state.faults))

    def open_circuits() -> Mapping[str, float]:
        upstreams = gateway.state.upstreams
        return {name: float(upstream.breaker.is_open) for name, upstream in upstreams.items()}

    def shadow_decisions() -> Mapping[str, float]:
        shadow = gateway.state.shadow_policy
        return shadow.counts if shadow else {}

    def ledger_removed() -> Mapping[str, float]:
        return {reason: float(count) for reason, count in gateway.state.runtime.ledger.removed.items()}

    watch("ledger_removed", ledger_removed)
    watch("circuit_open", open_circuits)
    watch("shadow_decisions", shadow_decisions)
