"""Reports every request when it has ended: its decision, its attempts, and the status sent.

Nothing is loaded or called if no log asks for it. Lines are formatted and written off the event loop
(``request_feed``, ``telemetry``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from pointsman.decision.decision import Decision
from pointsman.gateway._inbound import Receive, Scope, Send
from pointsman.gateway._passing import is_passed
from pointsman.gateway.app import Gateway
from pointsman.stores.ledger.port import Attempt
from pointsman.telemetry import ServedRequest
from pointsman.wire.project import read_traceparent

__all__ = ["RequestLog", "ServedRequest", "current_request"]

_FAILED: Final = 400
#: Bytes of a refusal that are kept: its message is a sentence.
_KEPT: Final = 4 << 10
#: What monitors and browsers ask all the time, and no agent does.
_NOT_TOLD: Final = (b"/console", b"/health", b"/metrics")
#: Agents count the tokens of each request beforehand.
_COUNTS: Final = (b"/count_tokens", b"/input_tokens")


_current: Final[ContextVar[ServedRequest | None]] = ContextVar("served_request", default=None)


class RequestLog:
    """An ASGI application around a gateway.

    ``tell`` is called on the event loop: it must neither block nor raise.
    """

    def __init__(self, gateway: Gateway, tell: Callable[[ServedRequest], object]) -> None:
        self._gateway = gateway
        self._tell = tell
        gateway.metrics.listener = _note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        served = ServedRequest(scope["method"], scope["raw_path"])
        started = time.perf_counter()

        async def noting(message: Any) -> None:
            if message["type"] == "http.response.start":
                served.status = message["status"]
                served.first_byte = time.perf_counter() - started
            elif served.status >= _FAILED and len(served.refusal) < _KEPT:
                served.refusal += message.get("body", b"")[:_KEPT]
            await send(message)

        before = _current.set(served)
        try:
            await self._gateway(scope, receive, noting)
        finally:
            _current.reset(before)
            if _is_told(served):
                served.ended_at, served.total = time.time(), time.perf_counter() - started
                served.traceparent = _traceparent(served.decision, scope)
                self._tell(served)


def _is_told(served: ServedRequest) -> bool:
    """Whether a person wants to hear of a request: it was decided or passed on, or it failed."""
    if served.path.startswith(_NOT_TOLD):
        return False
    if served.decision is not None or served.status >= _FAILED:
        return True
    return is_passed(served.path) and not served.path.endswith(_COUNTS)


def current_request() -> ServedRequest | None:
    """Return the request that this task serves; None outside of a ``RequestLog``."""
    return _current.get()


def _traceparent(decision: Decision | None, scope: Scope) -> str:
    if decision is not None:
        return decision.input.traceparent
    sent = (value for name, value in scope["headers"] if name == b"traceparent")
    return read_traceparent(next(sent, b""))


def _note(entry: Decision | Attempt) -> None:
    """Note a decision or an attempt for the request in progress."""
    served = _current.get()
    if served is None:
        return
    if isinstance(entry, Attempt):
        served.attempts.append(entry)
    else:
        served.decision = entry
