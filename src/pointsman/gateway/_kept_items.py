"""Items of answers in the Responses format, stored for requests that name them by their ids.

Stored in this process alone: they are the model's words, which are not written to disk by default
(docs/notebook/0128).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pointsman.gateway._bounded import Bounded
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body
from pointsman.wire.responses.stored_conversation import (
    Find,
    answered,
    is_stored,
    referable,
    with_items,
    with_summaries,
)

__all__ = ["KeptItems"]

#: Bytes kept over all sessions. An answer takes 1 to 10 kB: some thousands fit.
_SIZE: Final = 16 << 20
#: Of that, what one session may take.
_OF_ONE: Final = 1 / 4
#: Bytes of keeping a session, and an item beside its words.
_SESSION: Final = 1_000
_ITEM: Final = 300
_COMPACTION: Final = b'"compaction"'


class _Session:
    __slots__ = ("at", "compacted", "items", "stored", "weight")

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}  # of translated answers, by id; empty: reasoning
        self.stored: dict[str, bytes] = {}  # of answers that an upstream stores
        self.compacted = False  # a translated answer was a compaction, which no upstream can read
        self.weight = _SESSION
        self.at = 0.0  # seconds since the epoch, of the latest answer


class KeptItems:
    """The items of the latest sessions; the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Store up to ``size`` bytes."""
        self._sessions: Bounded[str, _Session] = Bounded(size)

    @property
    def held(self) -> int:
        """Bytes stored."""
        return self._sessions.held

    def put_back(self, request: AgentRequest, body: Body) -> Body:
        """Return a request with the items that it names; the same body if it names no stored item."""
        session = self._sessions.find(request.session, request.arrived_at)
        if session is None:
            return body
        raw = with_items(body.raw, session.items.get)
        if session.compacted:
            raw = with_summaries(raw)
        return body if raw is body.raw else Body(body.wire, raw)

    def weight(self, session: str) -> int:
        """Bytes stored of a session, at most."""
        found = self._sessions.peek(session)
        return found.weight if found else 0

    def stored(self, request: AgentRequest) -> Find | None:
        """Return what finds the items that upstreams store in a session: another one has to be sent them."""
        session = self._sessions.peek(request.session)
        return session.stored.get if session is not None and session.stored else None

    def keep(self, request: AgentRequest, body: Body, answer: Sequence[bytes], *, translated: bool) -> None:
        """Store the items of an answer, unless the caller asked for it not to be stored.

        Args:
            request: The request that was answered.
            body: Its body.
            answer: The whole answer, or the last events of a stream.
            translated: No provider stores it.
        """
        compacted = translated and any(_COMPACTION in part for part in answer)
        found = answered(answer) if compacted or is_stored(body.member) else None
        if found is None:
            return
        session = self._sessions.take(request.session) or _Session()
        session.at = request.arrived_at
        session.compacted = session.compacted or compacted
        for name, item in referable(found[1]):
            (session.items if translated else session.stored)[name] = item
            session.weight += len(item) + len(name) + _ITEM
        if session.weight > self._sessions.size * _OF_ONE:
            return  # more than one session may take
        self._sessions.put(request.session, session)
