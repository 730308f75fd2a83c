"""Reasoning by upstream in a session: the part stored for its provider, and withheld from all others.

Stored in this process alone: it is part of a conversation, which is not written to disk by default
(docs/decisions/0124).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from pointsman.gateway._bounded import Bounded
from pointsman.upstreams.port import UpstreamSpec
from pointsman.wire.body import Body
from pointsman.wire.reasoning import Origin, OwnReasoning, Placed, Recall, SignedTurn, Thought

__all__ = ["KeptReasoning", "Watch"]

#: Bytes kept over all sessions. The reasoning of a turn takes 2 to 20 kB: some thousands fit.
_SIZE: Final = 32 << 20
#: Of that, what one session may take; its earliest turns make room for the next.
_OF_SESSION: Final = 1 / 8
#: Bytes of keeping a session, a turn (beside its words), and who wrote one piece of reasoning.
_SESSION, _TURN, _AUTHOR = 1_000, 500, 150
#: Providers that sign all reasoning.
_SIGNERS: Final = ("//api.anthropic.com", "//api.openai.com")

#: Reads what an upstream answers in the caller's own format, block by block, and returns it as it is.
Watch = Callable[[bytes], bytes]


class _Session:
    """State of one session."""

    __slots__ = ("at", "authors", "home", "is_clean", "thinking", "turns", "upstreams", "weight")

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str], SignedTurn] = {}  # by upstream and key
        self.authors: dict[bytes, str] = {}  # upstreams by the digest of a mark
        self.upstreams: set[str] = set()  # that have answered
        self.thinking: set[str] = set()  # those whose translated answers held reasoning
        self.home = ""  # the first of them: what is not known was there before this process
        self.is_clean: bool | None = None  # no translated reasoning came with its first request; None: unread
        self.weight = _SESSION
        self.at = 0.0  # seconds since the epoch, of the latest answer

    def reasoning(self, upstream: str, key: str) -> tuple[Placed, ...] | None:
        turn = self.turns.get((upstream, key))
        return turn.reasoning if turn else None

    def answered(self, upstream: str, at: float) -> None:
        self.home = self.home or upstream
        self.upstreams.add(upstream)
        self.at = at

    def put(self, upstream: str, turn: SignedTurn) -> None:
        self._drop((upstream, turn.key))
        if turn.reasoning or upstream in self.thinking:
            self.thinking.add(upstream)
            self.turns[upstream, turn.key] = turn
            self.weight += turn.weight + _TURN
        self.sign(upstream, turn.marks)

    def sign(self, upstream: str, marks: Iterable[str]) -> None:
        """Note an upstream as the author of marked parts."""
        before = len(self.authors)
        self.authors.update((_digest(mark), upstream) for mark in marks)
        self.weight += (len(self.authors) - before) * _AUTHOR

    def shrink(self, size: float) -> None:
        """Forget the earliest turns, and then the authors, until it is of this size."""
        while self.weight > size and self.turns:
            self._drop(next(iter(self.turns)))
        while self.weight > size and self.authors:
            del self.authors[next(iter(self.authors))]
            self.weight -= _AUTHOR

    def _drop(self, place: tuple[str, str]) -> None:
        turn = self.turns.pop(place, None)
        if turn is not None:
            self.weight -= turn.weight + _TURN


class _Seen(NamedTuple):
    """A session as one upstream sees it (``wire.own_reasoning.Origin``)."""

    session: _Session
    upstream: str
    signs: bool  # the upstream is known to sign its reasoning

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        """Whether another upstream wrote it."""
        author = self._author(thought.mark)
        if author:
            return author != self.upstream
        return not thought.is_signed and (among_signed or self.signs)

    def is_foreign_call(self, identifier: str) -> bool:
        """Whether another upstream made the call with this id."""
        author = self._author(identifier)
        return bool(author) and author != self.upstream

    def _author(self, mark: str) -> str:
        """The upstream that wrote something: if unknown, the session's first upstream if it is another."""
        known = self.session.authors.get(_digest(mark))
        return known or (self.session.home if self.session.home != self.upstream else "")


class KeptReasoning:
    """The latest sessions; the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Store up to ``size`` bytes."""
        self._sessions: Bounded[str, _Session] = Bounded(size)
        self._signing: set[str] = set()  # upstreams that have signed something

    @property
    def held(self) -> int:
        """Bytes stored."""
        return self._sessions.held

    def recall(self, session: str, upstream: str, now: float) -> Recall | None:
        """Return a lookup of the reasoning an upstream wrote in a session; None if nothing is stored.

        Args:
            session: Its name.
            upstream: Name of the upstream.
            now: Seconds since the epoch.
        """
        found = self._sessions.find(session, now)
        return partial(found.reasoning, upstream) if found and found.turns else None

    def keep(self, session: str, upstream: str, turn: SignedTurn, now: float) -> None:
        """Store a translated turn that an upstream wrote."""
        found = self._take(session)
        found.answered(upstream, now)
        found.put(upstream, turn)
        if turn.reasoning:
            self._signing.add(upstream)
        self._put_back(session, found)

    def watch(self, format_: OwnReasoning, session: str, upstream: str, now: float) -> Watch:
        """Return what takes note of the reasoning in an answer that is relayed as it is."""
        found = self._take(session)
        found.answered(upstream, now)
        self._put_back(session, found)

        read = format_.marks

        def watch(block: bytes) -> bytes:
            if marks := read(block):
                self._signing.add(upstream)
                session_ = self._take(session)
                session_.sign(upstream, marks)
                self._put_back(session, session_)
            return block

        return watch

    def origin(
        self, format_: OwnReasoning, session: str, upstream: UpstreamSpec, body: Body, now: float
    ) -> Origin | None:
        """Return the authors in a session; None if an upstream may be sent its request as it is."""
        found = self._sessions.find(session, now)
        if found is None:
            found = _Session()
            found.at = now
            self._put_back(session, found)
        if found.is_clean is None:
            found.is_clean = not format_.translated(body.raw)
        name = upstream.name
        if found.is_clean and found.upstreams <= {name}:
            return None
        signs = name in self._signing or any(host in upstream.base_url for host in _SIGNERS)
        return _Seen(found, name, signs)

    def _take(self, session: str) -> _Session:
        return self._sessions.take(session) or _Session()

    def _put_back(self, session: str, found: _Session) -> None:
        found.shrink(self._sessions.size * _OF_SESSION)
        self._sessions.put(session, found)


def _digest(mark: str) -> bytes:
    return hashlib.blake2b(mark.encode("utf-8", "surrogatepass"), digest_size=16).digest()
