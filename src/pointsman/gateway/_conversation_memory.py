"""The memory of conversations: responses, items and reasoning, by session.

Stored in this process alone: these are a person's and a model's words, which are not written to disk by
default (docs/decisions/0124, docs/notebook/0071, docs/notebook/0128).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.gateway.upstream import Target
from pointsman.stores.sessions import Bounded
from pointsman.text import extract
from pointsman.upstreams.port import UpstreamSpec
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body
from pointsman.wire.reasoning import MAX_PARTS, Origin, OwnReasoning, Placed, Recall, SignedTurn, Thought
from pointsman.wire.request import of_caller
from pointsman.wire.responses.stored_conversation import (
    Find,
    StoredConversation,
    answered,
    continues,
    conversation_id,
    is_stored,
    own_items,
    previous_response,
    referable,
    stored_conversation,
    whole_request,
    with_items,
    with_summaries,
)

__all__ = ["Continuation", "ConversationMemory", "KeptConversation", "Watch"]

#: Bytes kept over all sessions. The conversation of an agent takes 100 kB to 1 MB, the reasoning of a turn
#: 2 to 20 kB, the items of an answer 1 to 10 kB, and the facts of a stored response 2 to 10 kB.
_SIZE: Final = 128 << 20
#: Of that, what one session may take, and one conversation of it.
_OF_SESSION, _OF_CONVERSATION = 1 / 4, 1 / 8
#: Bytes of keeping a session, a response, a conversation, an answer's name, an item, a turn's reasoning, and
#: who wrote one piece of reasoning, beside the words of each.
_SESSION, _RESPONSE, _CONVERSATION, _NAME, _ITEM, _TURN, _AUTHOR = 1_000, 1_000, 1_000, 300, 300, 500, 150
#: Providers that sign all reasoning.
_SIGNERS: Final = ("//api.anthropic.com", "//api.openai.com")

#: Reads what an upstream answers in the caller's own format, block by block.
Watch = Callable[[bytes], None]


class Continuation(msgspec.Struct, frozen=True):
    """The known facts of the response or conversation that a request continues, stored by an upstream."""

    session: str
    model: str = ""  # that answered: its upstream keeps the conversation
    at: float = 0.0  # seconds since the epoch
    earlier: StoredConversation | None = None  # None: nothing is known


class _Conversation:
    """A conversation that no provider stores, whole."""

    __slots__ = ("chunks", "names", "session", "weight")

    def __init__(self, session: str, chunks: Sequence[bytes] = ()) -> None:
        self.session = session
        self.chunks = list(chunks)  # of items as JSON, one for each turn with its answer
        self.names: list[str] = []
        self.weight = _CONVERSATION + sum(map(len, chunks))

    def add(self, chunk: bytes, name: str) -> None:
        self.chunks.append(chunk)
        self.names.append(name)
        self.weight += len(chunk) + len(name) + _NAME


class KeptConversation(NamedTuple):
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


class _Session:
    """State of one session."""

    __slots__ = ("at", "authors", "compacted", "conversations", "home", "is_clean", "items", "responses",
                 "stored", "thinking", "turns", "upstreams", "weight")  # fmt: skip

    def __init__(self, at: float) -> None:
        self.at = at  # seconds since the epoch, of the latest answer
        self.weight = _SESSION
        self.responses: dict[str, Continuation] = {}  # stored by an upstream, by name
        self.conversations: dict[_Conversation, None] = {}  # the one used last is the last
        self.items: dict[str, bytes] = {}  # of translated answers, by id; empty: reasoning
        self.stored: dict[str, bytes] = {}  # of answers that an upstream stores
        self.compacted = False  # a translated answer was a compaction, which no upstream can read
        self.turns: dict[tuple[str, str], SignedTurn] = {}  # reasoning by upstream and key
        self.authors: dict[bytes, str] = {}  # upstreams by the digest of a mark
        self.upstreams: set[str] = set()  # that have answered
        self.thinking: set[str] = set()  # those whose translated answers held reasoning
        self.home = ""  # the first of them: what is not known was there before this process
        self.is_clean: bool | None = None  # no translated reasoning came with its first request; None: unread

    def put(self, part: dict[Any, Any], key: object, value: object) -> None:
        """Store a value as the latest of a part."""
        self.drop(part, key)
        part[key] = value
        self.weight += _weight(key, value)

    def drop(self, part: dict[Any, Any], key: object) -> None:
        """Forget a value of a part."""
        if (value := part.pop(key, None)) is not None:
            self.weight -= _weight(key, value)

    def oldest(self, part: dict[Any, Any], size: float) -> list[Any]:
        """Return the keys to drop from a part, the oldest first, until the session is no larger."""
        keys, over = [], self.weight - size
        for key, value in part.items():  # to look for the first one each time would take quadratic time
            if over <= 0:
                break
            keys.append(key)
            over -= _weight(key, value)
        return keys

    def sign(self, upstream: str, marks: Iterable[str]) -> None:
        """Note an upstream as the author of marked parts."""
        for mark in marks:
            self.put(self.authors, _digest(mark), upstream)

    def answered(self, upstream: str) -> None:
        """Note an upstream that has answered."""
        self.home = self.home or upstream
        self.upstreams.add(upstream)

    def reasoning(self, upstream: str, key: str) -> tuple[Placed, ...] | None:
        """Return the reasoning of a turn that an upstream wrote."""
        return turn.reasoning if (turn := self.turns.get((upstream, key))) else None


def _weight(key: Any, value: object) -> int:
    """Return the bytes of a value of a session."""
    match value:
        case bytes():
            return len(value) + len(key) + _ITEM
        case SignedTurn():
            return value.weight + _TURN
        case Continuation():  # named by a caller or an upstream, at any length
            return _RESPONSE + len(key) + (value.earlier.weight if value.earlier else 0)
        case _:
            return _AUTHOR


class _Seen(NamedTuple):
    """A session as one upstream sees it (``wire.reasoning.Origin``)."""

    session: _Session
    upstream: str
    signs: bool  # the upstream is known to sign its reasoning

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        """Whether another upstream wrote it."""
        if author := self._author(thought.mark):
            return author != self.upstream
        return not thought.is_signed and (among_signed or self.signs)

    def is_foreign_call(self, identifier: str) -> bool:
        """Whether another upstream made the call with this id."""
        return self._author(identifier) not in {"", self.upstream}

    def _author(self, mark: str) -> str:
        """The upstream that wrote something: if unknown, the session's first upstream if it is another."""
        known = self.session.authors.get(_digest(mark))
        return known or (self.session.home if self.session.home != self.upstream else "")


class ConversationMemory:
    """The latest sessions; of the caller with the most, the one unused longest makes room.

    Within a session the earliest reasoning, responses and items make room for the next.
    """

    def __init__(self, size: int = _SIZE) -> None:
        """Store up to ``size`` bytes."""
        self._sessions = Bounded[_Session](size, gone=self._forget)
        self._responses: dict[str, Continuation] = {}
        self._conversations: dict[str, KeptConversation | None] = {}  # None: two answers have the same id
        self._signing: set[str] = set()  # upstreams that have signed something

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def held(self) -> int:
        """Bytes stored."""
        return self._sessions.held

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
        found = self._responses.get(name := of_caller(caller, name))
        if found is not None and self._sessions.find(found.session, now) is not None:
            return found
        # Its tools and instructions are those of everybody with the same agent: they name no session.
        return Continuation(of_caller(caller, "r-" + _digest(name, 12).hex()))

    def knows(self, caller: str, name: str) -> bool:
        """Whether a caller has made a response or conversation that an upstream stores."""
        return of_caller(caller, name) in self._responses

    def keep_response(
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
        found = answered(answer) if is_stored(body.member) else None
        if found is None:
            return ()
        response, items = found
        earlier = stored_conversation(request, items, extract(request).index)
        entry = Continuation(request.session, target.model.name, request.arrived_at, earlier)
        ids = filter(None, (response, conversation_id(body.member)))
        names = tuple(of_caller(request.caller, each) for each in ids)
        session = self._take(request.session, request.arrived_at)
        for name in names:
            session.put(session.responses, name, entry)
            self._responses[name] = entry
        self._put_back(request.session, session)
        return names

    def continued_whole(self, body: Body, now: float, caller: str = "") -> KeptConversation | None:
        """Return the conversation a request continues; None if it is unknown, or the request holds it all.

        The arguments are those of ``continued``.
        """
        name = previous_response(body.member)
        kept = self._conversations.get(of_caller(caller, name)) if name else None
        session = self._sessions.find(kept.session, now) if kept else None
        if kept is None or session is None:
            return None
        session.conversations[kept.conversation] = session.conversations.pop(kept.conversation)
        return kept

    def keep_whole(
        self, request: AgentRequest, body: Body, earlier: KeptConversation | None, answer: Sequence[bytes]
    ) -> str:
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
        name = of_caller(request.caller, found[0])
        if name in self._conversations:  # of a server that numbers its answers: nobody may be given another's
            self._conversations[name] = None
            return ""
        home = earlier.session if earlier else request.session
        session = self._take(home, request.arrived_at)
        conversation = _grown(session, home, earlier)
        conversation.add(own_items(body, found[1]), name)
        session.conversations[conversation] = None
        session.weight += conversation.weight
        self._conversations[name] = KeptConversation(conversation, len(conversation.chunks))
        if conversation.weight > self._sessions.size * _OF_CONVERSATION:
            self._drop(session, conversation)
        self._put_back(home, session)
        return name if name in self._conversations else ""

    def put_back(self, request: AgentRequest, body: Body) -> Body:
        """Return a request with the items that it names; the same body if it names no stored item."""
        session = self._sessions.peek(request.session)
        if session is None:
            return body
        raw = with_items(body.raw, session.items.get)
        if session.compacted:
            raw = with_summaries(raw)
        return body if raw is body.raw else Body(body.wire, raw)

    def items_weight(self, request: AgentRequest) -> int:
        """Return the bytes of a session that may hold items a request names, at most; notes its use."""
        found = self._sessions.find(request.session, request.arrived_at)
        return found.weight if found and (found.items or found.stored or found.compacted) else 0

    def stored_items(self, request: AgentRequest) -> Find | None:
        """Return what finds the items that upstreams store in a session: another one has to be sent them."""
        session = self._sessions.peek(request.session)
        return session.stored.get if session is not None and session.stored else None

    def keep_items(
        self, request: AgentRequest, body: Body, answer: Sequence[bytes], *, translated: bool
    ) -> None:
        """Store the items of an answer, unless the caller asked for it not to be stored.

        The arguments are those of ``keep_response``; ``translated``: no provider stores the answer.
        """
        compacted = translated and any(b'"compaction"' in part for part in answer)
        if (found := answered(answer) if compacted or is_stored(body.member) else None) is None:
            return
        session = self._take(request.session, request.arrived_at)
        session.compacted = session.compacted or compacted
        for name, item in referable(found[1]):
            session.put(session.items if translated else session.stored, name, item)
        self._put_back(request.session, session)

    def recall(self, session: str, upstream: str, now: float) -> Recall | None:
        """Return a lookup of the reasoning an upstream wrote in a session; None if nothing is stored."""
        found = self._sessions.find(session, now)
        return partial(found.reasoning, upstream) if found and found.turns else None

    def keep_turn(self, session: str, upstream: str, turn: SignedTurn, now: float) -> None:
        """Store a translated turn that an upstream wrote."""
        found = self._take(session, now)
        found.answered(upstream)
        found.drop(found.turns, (upstream, turn.key))
        if turn.reasoning or upstream in found.thinking:
            found.thinking.add(upstream)
            found.put(found.turns, (upstream, turn.key), turn)
        found.sign(upstream, turn.marks)
        if turn.reasoning:
            self._signing.add(upstream)
        self._put_back(session, found)

    def watch(self, format_: OwnReasoning, session: str, upstream: str, now: float) -> Watch:
        """Return what takes note of the reasoning in an answer that is relayed as it is."""
        found = self._take(session, now)
        found.answered(upstream)
        self._put_back(session, found)
        read = format_.marks

        def watch(block: bytes) -> None:
            if marks := read(block):
                self._signing.add(upstream)
                session_ = self._take(session, now)
                session_.sign(upstream, marks[:MAX_PARTS])
                self._put_back(session, session_)

        return watch

    def origin(
        self, format_: OwnReasoning, session: str, upstream: UpstreamSpec, body: Body, now: float
    ) -> Origin | None:
        """Return the authors in a session; None if an upstream may be sent its request as it is."""
        if (found := self._sessions.find(session, now)) is None:
            found = _Session(now)
            self._put_back(session, found)
        if found.is_clean is None:
            found.is_clean = not format_.translated(body.raw)
        name = upstream.name
        if found.is_clean and found.upstreams <= {name}:
            return None
        signs = name in self._signing or any(host in upstream.base_url for host in _SIGNERS)
        return _Seen(found, name, signs)

    def _take(self, name: str, now: float) -> _Session:
        """Take out a session, to be changed and put back."""
        session = self._sessions.take(name) or _Session(now)
        session.at = max(session.at, now)
        return session

    def _put_back(self, session_name: str, session: _Session) -> None:
        if session.weight > (size := self._sessions.size * _OF_SESSION):
            while session.weight > size and len(session.conversations) > 1:
                self._drop(session, next(iter(session.conversations)))
            for part in (session.turns, session.authors, session.items, session.stored):
                for key in session.oldest(part, size):
                    session.drop(part, key)
            self._forget_responses(session, size)
        self._sessions.put(session_name, session)

    def _drop(self, session: _Session, conversation: _Conversation) -> None:
        """Forget a conversation of a session."""
        del session.conversations[conversation]
        session.weight -= conversation.weight
        for name in conversation.names:
            self._conversations.pop(name, None)

    def _forget(self, session: _Session) -> None:
        """Forget the names of a session that is gone."""
        for each in list(session.conversations):
            self._drop(session, each)
        self._forget_responses(session, 0)

    def _forget_responses(self, session: _Session, size: float) -> None:
        """Forget the oldest responses of a session until it is no larger."""
        for name in session.oldest(session.responses, size):
            if self._responses.get(name) is session.responses[name]:  # no other session has the name since
                del self._responses[name]
            session.drop(session.responses, name)


def _grown(session: _Session, name: str, earlier: KeptConversation | None) -> _Conversation:
    """Return the conversation to add a turn to: the one before, or a copy if that was continued already."""
    if earlier is None:
        return _Conversation(name)
    before, turns = earlier
    if len(before.chunks) == turns and before in session.conversations:
        del session.conversations[before]
        session.weight -= before.weight
        return before
    return _Conversation(name, before.chunks[:turns])


def _digest(text: str, size: int = 16) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
