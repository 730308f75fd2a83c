"""Conversations that an upstream keeps: to which session ``previous_response_id`` belongs, and what it holds.

Kept in this process alone: it holds a person's words, and those reach no disk unasked (docs/decisions/0071).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.gateway.upstream import Target
from pointsman.text import extract
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body
from pointsman.wire.responses.answer import answered
from pointsman.wire.stored_conversation import StoredConversation, stored_conversation

__all__ = ["Chains", "Link", "where_it_is"]

#: Bytes kept over all conversations. One takes the words of a few messages, 2 to 10 kB: some thousands fit.
_SIZE: Final = 16 << 20
#: Bytes of keeping a conversation, beside its items.
_OVERHEAD: Final = 1_000
#: Seconds: the time to live of a session.
_TTL: Final = 86_400.0


class Link(msgspec.Struct, frozen=True):
    """What is known where a request goes on from a response or a conversation."""

    session: str
    model: str = ""  # that answered: its upstream keeps the conversation
    at: float = 0.0  # seconds since the epoch
    earlier: StoredConversation | None = None  # None: nothing is known


class _Conversation(msgspec.Struct, gc=False):
    id: str = ""


_decode_id: Final = msgspec.json.Decoder(_Conversation | str | None).decode


class Chains:
    """The latest responses that could be continued; the one unused longest makes room."""

    def __init__(self, size: int = _SIZE) -> None:
        """Keep up to ``size`` bytes."""
        self._links: OrderedDict[str, Link] = OrderedDict()
        self._left = size

    def __len__(self) -> int:
        return len(self._links)

    def continued(self, body: Body, now: float) -> Link | None:
        """Return what is known of what a request goes on from; None when the request holds all there is.

        Args:
            body: A request in the Responses format.
            now: Seconds since the epoch.
        """
        name = _named(body, "previous_response_id") or _named(body, "conversation")
        if not name:
            return None
        link = self._links.get(name)
        if link is None or now - link.at > _TTL:
            # Its tools and instructions are those of everybody with the same agent: they name no session.
            digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12)
            return Link("r-" + digest.hexdigest())
        self._links.move_to_end(name)
        return link

    def keep(self, request: AgentRequest, body: Body, target: Target, answer: Sequence[bytes]) -> None:
        """Remember a turn and its answer, unless the caller asked the upstream not to store it.

        Args:
            request: The request that was decided.
            body: Its request.
            target: Who answered.
            answer: The whole body, or the last events of a stream.
        """
        if bytes(body.members.get("store", b"")) == b"false":
            return
        found = answered(answer)
        if found is None:
            return
        response, items = found
        link = Link(
            request.session,
            target.model.name,
            request.arrived_at,
            stored_conversation(request, items, extract(request).index),
        )
        self._put(response, link)
        if conversation := _named(body, "conversation"):
            self._put(conversation, link)

    def _put(self, name: str, link: Link) -> None:
        self._forget(name)
        self._links[name] = link
        self._left -= _weight(link)
        while self._left < 0:
            self._forget(next(iter(self._links)))

    def _forget(self, name: str) -> None:
        link = self._links.pop(name, None)
        if link is not None:
            self._left += _weight(link)


def where_it_is(chosen: list[Target], kept: Target | None) -> list[Target]:
    """Return those of the chosen models whose upstream keeps the conversation; else the one that had it last.

    No other upstream has ever seen it, and would refuse the request.
    """
    if kept is None:
        return chosen
    return [target for target in chosen if target.upstream is kept.upstream] or [kept]


def _named(body: Body, member: str) -> str:
    """Return the id of a response or a conversation that a request names; empty when it names none."""
    raw = body.members.get(member)
    if raw is None:
        return ""
    try:
        named = _decode_id(raw) or ""
    except UNREADABLE:
        return ""  # for the upstream to refuse
    return named if isinstance(named, str) else named.id


def _weight(link: Link) -> int:
    return _OVERHEAD + (link.earlier.weight if link.earlier else 0)
