"""Conversations stored by an upstream: the session of a ``previous_response_id``, and its content.

Stored in this process alone: it holds the user's words, which are not written to disk by default
(docs/notebook/0071).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.gateway._bounded import Bounded
from pointsman.gateway.upstream import Target
from pointsman.text import extract
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body
from pointsman.wire.request import of_caller
from pointsman.wire.responses.stored_conversation import (
    StoredConversation,
    answered,
    continues,
    conversation_id,
    is_stored,
    stored_conversation,
)

__all__ = ["Continuation", "Conversations", "with_conversation"]

#: Bytes kept over all conversations. One takes the words of a few messages, 2 to 10 kB: some thousands fit.
_SIZE: Final = 16 << 20
#: Bytes of keeping a conversation, beside its items.
_OVERHEAD: Final = 1_000


class Continuation(msgspec.Struct, frozen=True):
    """What is known of the response or conversation that a request continues."""

    session: str
    model: str = ""  # that answered: its upstream keeps the conversation
    at: float = 0.0  # seconds since the epoch
    earlier: StoredConversation | None = None  # None: nothing is known

    @property
    def weight(self) -> int:
        """Bytes of keeping it."""
        return _OVERHEAD + (self.earlier.weight if self.earlier else 0)


class Conversations:
    """The latest responses that could be continued; the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Store up to ``size`` bytes."""
        self._entries: Bounded[str, Continuation] = Bounded(size)

    def __len__(self) -> int:
        return len(self._entries)

    def continued(self, body: Body, now: float, caller: str = "") -> Continuation | None:
        """Return the known facts of the response a request continues; None if the request holds everything.

        Args:
            body: A request in the Responses format.
            now: Seconds since the epoch.
            caller: Of the request; objects of other callers are unknown.
        """
        name = continues(body.member)
        if not name:
            return None
        name = of_caller(caller, name)
        if entry := self._entries.find(name, now):
            return entry
        # Its tools and instructions are those of everybody with the same agent: they name no session.
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12)
        return Continuation(of_caller(caller, "r-" + digest.hexdigest()))

    def knows(self, caller: str, name: str) -> bool:
        """Whether a caller has made a response or conversation that is stored."""
        return self._entries.peek(of_caller(caller, name)) is not None

    def keep(
        self, request: AgentRequest, body: Body, target: Target, answer: Sequence[bytes]
    ) -> tuple[str, ...]:
        """Remember a turn and its answer, unless the caller asked the upstream not to store it.

        Args:
            request: The request that was decided.
            body: Its request.
            target: The model that answered.
            answer: The whole body, or the last events of a stream.

        Returns:
            The names by which a request can continue it.
        """
        if not is_stored(body.member):
            return ()
        found = answered(answer)
        if found is None:
            return ()
        response, items = found
        entry = Continuation(
            request.session,
            target.model.name,
            request.arrived_at,
            stored_conversation(request, items, extract(request).index),
        )
        ids = filter(None, (response, conversation_id(body.member)))
        names = tuple(of_caller(request.caller, each) for each in ids)
        for name in names:
            self._entries.put(name, entry)
        return names


def with_conversation(chosen: list[Target], kept: Target | None) -> list[Target]:
    """Return those of the chosen models at the upstream that stores the conversation; else the last one used.

    Any other upstream has never seen it, and would refuse the request.
    """
    if kept is None:
        return chosen
    return [target for target in chosen if target.upstream is kept.upstream] or [kept]
