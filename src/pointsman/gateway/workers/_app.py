"""One worker as an ASGI application: the gateway; requests for another worker are passed on to it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import Metric

from pointsman.errors import Overloaded, TooLarge, Unauthorized
from pointsman.gateway._console import CONSOLE_PATH
from pointsman.gateway._idempotency import HEADER as IDEMPOTENCY_KEY
from pointsman.gateway._inbound import Receive, Scope, Send, authorise, read_bytes, too_large
from pointsman.gateway._live_state import Family, Published, open_circuits
from pointsman.gateway._local_replies import send_refusal
from pointsman.gateway._routes import Readiness
from pointsman.gateway.app import Gateway
from pointsman.gateway.workers._figures import added_up, families_of, lasting, read
from pointsman.gateway.workers._forward import FORWARDED, Head, WorkerGone
from pointsman.gateway.workers._peers import WorkerPeers, memories_of, socket_of
from pointsman.stores.ledger import Ledger, QueuedLedger
from pointsman.wire import guess_wire

__all__ = ["CONSOLE", "WorkerApp"]

#: The worker that serves the console: browsers sign in there, and replays run there.
CONSOLE: Final = 1
#: Seconds between two looks at what a worker counts: so much a killed one loses of it.
_PUBLISHED_EVERY: Final = 1.0

_App = Callable[[Scope, Receive, Send], Awaitable[None]]


class WorkerApp:
    """Serves as the gateway does, as one of several processes.

    Args:
        gateway: What serves.
        app: The gateway, or its wrapper.
        peers: The other workers.
    """

    def __init__(self, gateway: Gateway, app: _App, peers: WorkerPeers) -> None:
        self._gateway: Final = gateway
        self._app: Final = app
        self._peers: Final = peers
        before = read(peers.worker.folder, peers.worker.number)
        self._before: Final[Sequence[Family]] = lasting(before.metrics) if before else ()
        gateway.share(peers, self._all_metrics)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a caller's request. No coroutine itself: every event of a stream would go through it."""
        _drop_forwarded(scope)
        number = self._place_of(scope)
        if number and number != self._peers.worker.number:
            return self._pass_on(number, scope, receive, send)
        return self._app(scope, receive, send)

    @property
    def socket(self) -> Path:
        """Where the other workers reach this one."""
        return socket_of(self._peers.worker.folder, self._peers.worker.number)

    def is_watched(self) -> bool:
        """Whether a load balancer has lately asked another worker for readiness."""
        return any(Readiness.is_recent(told.asked_at) for told in self._peers.others())

    def serving(self) -> None:
        """Tell the supervisor that requests are served."""
        self.publish()
        self._peers.link.serving()

    def closing(self) -> None:
        """Tell the supervisor that no more connections are accepted."""
        self._peers.link.closing()

    def close(self) -> None:
        """Publish the final counts, and release the shared resources."""
        self.publish()
        self._peers.close()

    async def publish_for_ever(self) -> None:
        """Tell of this worker every second."""
        while True:
            self.publish()
            await asyncio.sleep(_PUBLISHED_EVERY)

    def publish(self) -> None:
        """Tell of this worker now."""
        gateway = self._gateway
        state = gateway.state
        self._peers.publish(
            Published(
                metrics=added_up_families(self._before, families_of(gateway.metrics.families())),
                active=gateway.in_progress,
                open_circuits=tuple(open_circuits(state)),
                faults=dict(state.runtime.faults),
                overhead=tuple(gateway.metrics.overhead.counts),
                asked_at=gateway.readiness.asked_at,
            )
        )

    def _place_of(self, scope: Scope) -> int:
        """Return the number of a request's worker, 0 for any."""
        if scope["raw_path"].startswith(CONSOLE_PATH) and self._gateway.serves_console(scope["raw_path"]):
            return CONSOLE
        headers = dict(scope["headers"])
        key = headers.get(IDEMPOTENCY_KEY)
        if not key or scope["method"] != "POST" or self._is_refused(headers):
            return 0
        return hashlib.blake2b(key, digest_size=8).digest()[0] % self._peers.worker.of + 1

    def _is_refused(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request is refused before its body is read, which then could not be passed on."""
        state = self._gateway.state
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > state.server.limits.body_bytes:
            return True
        try:
            authorise(headers, state.server, state.callers)
        except Unauthorized:
            return True
        return False

    async def _pass_on(self, number: int, scope: Scope, receive: Receive, send: Send) -> None:
        limited = _limited(receive, self._gateway.state.server.limits.body_bytes)
        error: TooLarge | Overloaded | None = None
        try:
            await self._peers.pass_on(number, Head.of(scope), limited, send)
        except TooLarge as too_large:
            error = too_large
        except WorkerGone:
            error = Overloaded("the process that serves this is being replaced", hint="send it again")
        if error is not None:
            headers = dict(scope["headers"])
            await send_refusal(guess_wire(headers), error, headers, send, scope)

    async def of_worker(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that another worker forwards or makes (ASGI)."""
        found = b""
        match scope["raw_path"]:
            case b"/-/flush":
                await asyncio.to_thread(_flush, self._gateway.state.runtime.ledger)
            case b"/-/session":
                state = self._gateway.state
                found = memories_of(state, await read_bytes(receive, {}, state.server.limits.body_bytes))
            case b"/-/publish":
                self.publish()
            case _:
                await self._app(scope, receive, send)
                return
        await send({"type": "http.response.start", "status": 200 if found else 204, "headers": []})
        await send({"type": "http.response.body", "body": found})

    async def _all_metrics(self) -> Sequence[Metric]:
        """Return the metrics of all workers as those of one gateway."""
        await asyncio.to_thread(self._peers.ask_all, "/-/publish")
        self.publish()
        told = self._peers.published()
        return added_up([each.metrics for each in told.values()], self._gateway.metrics.families())


def _drop_forwarded(scope: Scope) -> None:
    """Remove a forwarding mark that a caller has set: workers use separate sockets."""
    if any(name == FORWARDED for name, _ in scope["headers"]):
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != FORWARDED]


def _limited(receive: Receive, limit: int) -> Receive:
    """Return ``receive``; it raises ``TooLarge`` once the parts of a body exceed a limit of bytes."""
    size = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal size
        message: MutableMapping[str, Any] = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise too_large(limit)
        return message

    return counted


def _flush(ledger: Ledger) -> None:
    """Write what waits here; a ledger that asks the others to has a way that does not."""
    (ledger.flush_own if isinstance(ledger, QueuedLedger) else ledger.flush)()


def added_up_families(before: Sequence[Family], now: Sequence[Family]) -> list[Family]:
    """Return the counts of a worker and its predecessors, added up."""
    return families_of(added_up([now, before])) if before else list(now)
