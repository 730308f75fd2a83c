"""Conversations that no provider stores: whole, for requests that continue a translated answer.

Stored in this process alone: they are a person's words, which are not written to disk by default
(docs/decisions/0124).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pointsman.gateway._bounded import Bounded
from pointsman.stores.sessions import owner_of
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body
from pointsman.wire.request import of_caller
from pointsman.wire.responses.stored_conversation import (
    answered,
    is_stored,
    own_items,
    previous_response,
    whole_request,
)

__all__ = ["Kept", "KeptConversations"]

#: Bytes kept over all conversations. That of an agent takes 100 kB to 1 MB.
_SIZE: Final = 64 << 20
#: Of that, what one conversation may take.
_OF_ONE: Final = 1 / 4
#: Bytes of keeping a conversation, and an answer by whose id it can be continued.
_OVERHEAD: Final = 1_000
_NAME: Final = 300


class _Conversation:
    __slots__ = ("at", "chunks", "names", "session", "weight")

    def __init__(self, session: str, chunks: Sequence[bytes] = ()) -> None:
        self.session = session
        self.chunks = list(chunks)  # of items as JSON, one for each turn with its answer
        self.names: list[str] = []
        self.weight = _OVERHEAD + sum(map(len, chunks))
        self.at = 0.0  # seconds since the epoch, of the latest answer

    def add(self, chunk: bytes, name: str, at: float) -> None:
        self.chunks.append(chunk)
        self.names.append(name)
        self.weight += len(chunk) + len(name) + _NAME
        self.at = at


class Kept(NamedTuple):
    """A conversation up to the turn that a request continues."""

    conversation: _Conversation
    turns: int

    @property
    def session(self) -> str:
        """The session it belongs to."""
        return self.conversation.session

    @property
    def size(self) -> int:
        """Bytes of its items."""
        return sum(map(len, self.conversation.chunks[: self.turns]))

    def whole(self, body: Body) -> Body:
        """Return a request that holds the conversation it continues."""
        return Body(body.wire, whole_request(body, self.conversation.chunks[: self.turns]))


class KeptConversations:
    """The latest conversations; of the caller with the most, the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Store up to ``size`` bytes."""
        self._conversations: Bounded[int, _Conversation] = Bounded(
            size, lambda _, conversation: owner_of(conversation.session)
        )  # by identity
        self._names: dict[str, Kept | None] = {}  # None: two answers have the same id

    @property
    def held(self) -> int:
        """Bytes stored."""
        return self._conversations.held

    def continued(self, body: Body, now: float, caller: str = "") -> Kept | None:
        """Return the conversation a request continues; None if it is unknown, or the request holds it all.

        Args:
            body: A request in the Responses format.
            now: Seconds since the epoch.
            caller: Of the request; conversations of other callers are unknown.
        """
        name = previous_response(body.member)
        kept = self._names.get(of_caller(caller, name)) if name else None
        if kept is None:
            return None
        if self._conversations.find(id(kept.conversation), now) is None:
            self._forget(kept.conversation)
            return None
        return kept

    def keep(self, request: AgentRequest, body: Body, earlier: Kept | None, answer: Sequence[bytes]) -> str:
        """Store a translated turn and its answer, unless the caller asked for it not to be stored.

        Args:
            request: The request that was answered.
            body: Its body, as the caller sent it.
            earlier: The conversation it continues.
            answer: The whole answer, or the last events of a stream.

        Returns:
            The name by which a request can continue it; empty if none can.
        """
        found = answered(answer) if is_stored(body.member) else None
        if found is None:
            return ""
        name, output = of_caller(request.caller, found[0]), found[1]
        if name in self._names:  # of a server that numbers its answers: nobody may be given another's
            self._names[name] = None
            return ""
        conversation = self._grown(request.session, earlier)
        conversation.add(own_items(body, output), name, request.arrived_at)
        self._put(conversation)
        is_kept = self._conversations.peek(id(conversation)) is conversation  # else it made room itself
        if is_kept and conversation.weight <= self._conversations.size * _OF_ONE:
            self._names[name] = Kept(conversation, len(conversation.chunks))
            return name
        self._forget(conversation)
        return ""

    def _grown(self, session: str, earlier: Kept | None) -> _Conversation:
        """The conversation to add a turn to: the one before, or a copy if that was continued already."""
        if earlier is None:
            return _Conversation(session)
        before, turns = earlier
        if len(before.chunks) == turns and self._conversations.take(id(before)):
            return before
        return _Conversation(session, before.chunks[:turns])

    def _put(self, conversation: _Conversation) -> None:
        self._limit(conversation)
        for gone in self._conversations.put(id(conversation), conversation):
            self._forget(gone)

    def _limit(self, latest: _Conversation) -> None:
        """Limit the conversations of one session, which may be copies, to the share of one."""
        own = [each for each in self._conversations.values() if each.session == latest.session]
        weight = latest.weight + sum(each.weight for each in own)
        for each in own:  # the one used last stays
            if weight <= self._conversations.size * _OF_ONE:
                return
            weight -= each.weight
            self._forget(each)

    def _forget(self, conversation: _Conversation) -> None:
        self._conversations.take(id(conversation))
        for name in conversation.names:
            self._names.pop(name, None)
