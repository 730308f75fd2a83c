"""Reasoning of translated answers, kept until their session is at the same upstream again.

Kept in this process alone: it is part of a conversation, and that reaches no disk unasked
(docs/decisions/0124).
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Final

from pointsman.wire.signed_turns import Placed, Recall, SignedTurn

__all__ = ["KeptReasoning"]

#: Bytes kept over all sessions. The reasoning of a turn takes 2 to 20 kB: some thousands fit.
_SIZE: Final = 32 << 20
#: Of that, what one session may take; its earliest turns make room for the next.
_OF_SESSION: Final = 1 / 8
#: Bytes of keeping a turn, beside its words.
_OVERHEAD: Final = 500
#: Seconds: the time to live of a session.
_TTL: Final = 86_400.0


class _Session:
    """What is kept of one session."""

    __slots__ = ("at", "turns", "weight")

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str], SignedTurn] = {}  # by upstream and key
        self.weight = 0
        self.at = 0.0  # seconds since the epoch, of the latest turn

    def reasoning(self, upstream: str, key: str) -> tuple[Placed, ...]:
        turn = self.turns.get((upstream, key))
        return turn.reasoning if turn else ()

    def put(self, upstream: str, turn: SignedTurn) -> None:
        self.drop((upstream, turn.key))
        self.turns[upstream, turn.key] = turn
        self.weight += turn.weight + _OVERHEAD

    def drop(self, place: tuple[str, str]) -> None:
        turn = self.turns.pop(place, None)
        if turn is not None:
            self.weight -= turn.weight + _OVERHEAD


class KeptReasoning:
    """The reasoning of the latest sessions; the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Keep up to ``size`` bytes."""
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._size = self._left = size

    @property
    def held(self) -> int:
        """Bytes kept."""
        return self._size - self._left

    def recall(self, session: str, upstream: str, now: float) -> Recall | None:
        """Return what finds the reasoning that an upstream wrote in a session; None when nothing is kept.

        Args:
            session: Its name.
            upstream: Name of the upstream.
            now: Seconds since the epoch.
        """
        found = self._sessions.get(session)
        if found is None:
            return None
        if now - found.at > _TTL:
            self._forget(session)
            return None
        self._sessions.move_to_end(session)
        return partial(found.reasoning, upstream)

    def keep(self, session: str, upstream: str, turn: SignedTurn, now: float) -> None:
        """Keep the reasoning of a turn that an upstream wrote."""
        found = self._sessions.pop(session, None) or _Session()
        self._left += found.weight
        found.put(upstream, turn)
        found.at = now
        while found.weight > self._size * _OF_SESSION:
            found.drop(next(iter(found.turns)))
        self._sessions[session] = found
        self._left -= found.weight
        while self._left < 0:
            self._forget(next(iter(self._sessions)))

    def _forget(self, session: str) -> None:
        self._left += self._sessions.pop(session).weight
