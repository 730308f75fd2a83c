"""Telemetry of a finished request: the fields of its log line.

No field holds text of a prompt or of an answer, nor a credential. The message of a refusal is one that the
caller got.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.decoding import decoded_or
from pointsman.printable import printable
from pointsman.stores.ledger.port import NOT_ASKED, Attempt
from pointsman.stores.ledger.turns import answered, cost, usage
from pointsman.vocabulary import ModelSpec
from pointsman.wire.format import error_message
from pointsman.wire.project import traceparent_of

__all__ = ["Models", "RequestRecord", "ServedRequest", "Spent", "request_record", "spent"]

Models = Mapping[str, ModelSpec]

#: Characters of a refusal's message, and of a path, that are told.
_SHOWN: Final = 100
_GUIDANCE: Final = "guidance"
_REFUSED: Final = 400
_FAILED: Final = 500


class ServedRequest:
    """One request, filled while it is served."""

    __slots__ = ("attempts", "decision", "ended_at", "first_byte", "method", "path", "refusal", "status",
                 "total", "traceparent")  # fmt: skip

    def __init__(self, method: str, path: bytes) -> None:
        self.method = method  # of HTTP
        self.path = path  # as sent, without the query
        self.decision: Decision | None = None  # None if it was refused before, or passed on
        self.attempts: list[Attempt] = []  # in order
        self.status = 0  # as sent; 0: the caller left before one was sent
        self.refusal = b""  # the beginning of the body of an error
        self.ended_at = 0.0  # seconds since the epoch
        self.first_byte: float | None = None  # seconds from its arrival to the first byte sent
        self.total = 0.0  # seconds from its arrival to its end
        self.traceparent = ""  # the caller's span (``wire.project``)


class Spent(NamedTuple):
    """Usage of one request; None: unknown."""

    input: int | None = None
    cached: int | None = None  # of the input, read from the provider's cache
    output: int | None = None
    written: int | None = None  # of the input, to the provider's cache
    cost: float | None = None  # in US dollars


class RequestRecord(NamedTuple):
    """The fields of a line, in its order; None: unknown, or there is none."""

    ended_at: float  # seconds since the epoch
    level: int  # of ``logging``: refusals warn, failures of the gateway or an upstream are errors
    decision: str | None  # id
    session: str | None
    caller: str | None  # name of the key
    tier: str | None
    model: str  # that answered, or was tried last; "none", "pointsman", or the path where none was asked for
    upstream: str | None  # of that model
    status: int  # as sent; 0: the caller left before
    attempts: int  # tries of an upstream
    first_byte_ms: float | None  # from arrival to the first byte sent
    total_ms: float  # from arrival to the end
    spent: Spent
    added: tuple[str, ...]  # to the request: "guidance (error_streak)"
    refusal: str | None  # the message of an error
    method: str
    path: str
    trace: str | None  # id of the trace of the caller's span

    @property
    def level_name(self) -> str:
        """The level as logs write it: ``info``."""
        return logging.getLevelName(self.level).lower()

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a line in JSON, other than time, level, logger and message."""
        return {
            "decision_id": self.decision,
            "session": self.session,
            "caller": self.caller,
            "tier": self.tier,
            "model": self.model,
            "upstream": self.upstream,
            "status": self.status,
            "attempts": self.attempts,
            "first_byte_ms": _rounded(self.first_byte_ms),
            "total_ms": _rounded(self.total_ms),
            "input_tokens": self.spent.input,
            "cached_tokens": self.spent.cached,
            "output_tokens": self.spent.output,
            "written_tokens": self.spent.written,
            "cost": self.spent.cost,
            "added": list(self.added),
            "error": self.refusal,
            "method": self.method,
            "path": self.path,
            "trace_id": self.trace,
        }


def request_record(served: ServedRequest, models: Models) -> RequestRecord:
    """Return the fields of a request's line; ``models`` by name, for their prices."""
    decision = served.decision
    asked = decision.input if decision else None
    told = answered(served.attempts) or (served.attempts[-1] if served.attempts else None)
    parent = traceparent_of(served.traceparent)
    return RequestRecord(
        served.ended_at,
        _level(served.status),
        decision.id if decision else None,
        (asked.session or None) if asked else None,
        (asked.caller or None) if asked else None,
        str(decision.tier.tier) if decision and decision.tier else None,
        _model(served, told),
        told.upstream if told else None,
        served.status,
        sum(attempt.error not in NOT_ASKED for attempt in served.attempts),
        None if served.first_byte is None else served.first_byte * 1e3,
        served.total * 1e3,
        spent(served, models),
        tuple(_added(served)),
        (_refusal(served.refusal) or None) if served.status >= _REFUSED else None,
        printable(served.method[:_SHOWN]),
        printable(served.path.decode("latin-1")[:_SHOWN]),
        parent.trace_id if parent else None,
    )


def spent(served: ServedRequest, models: Models) -> Spent:
    """Usage of all attempts, also those with discarded answers."""
    used = [(attempt, found) for attempt in served.attempts if (found := usage(attempt)) is not None]
    if not used:
        return Spent()
    costs = [cost(models.get(attempt.model), found) for attempt, found in used]
    known = [each for each in costs if each is not None]
    read, cached, output, written, _ = map(sum, zip(*(found for _, found in used), strict=True))
    return Spent(read, cached, output, written, sum(known) if len(known) == len(costs) else None)


def _level(status: int) -> int:
    if status < _REFUSED:
        return logging.INFO
    return logging.WARNING if status < _FAILED else logging.ERROR


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)


def _model(served: ServedRequest, told: Attempt | None) -> str:
    if told is not None:
        return told.model
    decision = served.decision
    if decision is None:
        return printable(served.path.decode("latin-1").removeprefix("/v1")[:_SHOWN])
    return "none" if decision.refused or served.status >= _REFUSED else "pointsman"  # it answered by itself


def _added(served: ServedRequest) -> Iterator[str]:
    decision = served.decision
    if decision is None:
        return
    firing = decision.guidance.firing if decision.guidance else None
    for injection in decision.injections:
        is_hint = injection.source == _GUIDANCE and firing is not None
        yield injection.source + (f" ({firing.classifier})" if is_hint and firing else "")


def _refusal(body: bytes) -> str:
    """The message of an error, in whichever format the caller got it."""
    message = decoded_or("", error_message, body)
    return printable(" ".join(message.split())[:_SHOWN])
