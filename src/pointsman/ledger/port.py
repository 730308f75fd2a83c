"""The Ledger port: where decisions, attempts and outcomes are appended, off the request path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from pointsman.decision import Decision

__all__ = ["Attempt", "Ledger", "Outcome"]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One try of one model for one decision."""

    decision: str  # id
    number: int  # from 1
    model: str  # configured name
    upstream: str
    status: int  # HTTP status; 0 when none arrived
    error: str = ""  # class of failure: "timeout", "connect", "cut", "status", ""; never a body or a key
    started_at: float  # seconds since the epoch
    first_byte_ms: float | None = None
    total_ms: float
    input_tokens: int | None = None  # as the upstream reported them
    cached_tokens: int | None = None
    output_tokens: int | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of a decision, said by a person or derived."""

    decision: str  # id
    score: float | None = None  # 0 bad … 1 good
    label: str = ""
    source: str = "api"  # "api", "import", "implicit:…"
    comment: str = ""
    at: float = 0.0  # seconds since the epoch


class Ledger(Protocol):
    """Append never blocks and never raises: what cannot be kept is counted in ``lost``."""

    lost: int

    def append(self, entry: Decision | Attempt | Outcome, /) -> None:
        """Queue one entry."""
        ...

    def get(self, decision_id: str, /) -> Decision | None:
        """Return a decision by id."""
        ...

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""
        ...

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""
        ...

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by time of arrival; of one session when named; all when ``limit`` is None."""
        ...

    def flush(self) -> None:
        """Write everything queued; for shutdown and tests."""
        ...

    def close(self) -> None:
        """Flush and release the store."""
        ...
