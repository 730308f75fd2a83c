"""Reasoning that only its provider can check, taken out of a translated answer and put back into a request.

The caller of another format has no place for a signature or for encrypted content. What it sends back of a
turn are the calls, by their ids, or the words: by these the reasoning finds its place again. Ids of calls are
unique; words are not, so a turn without calls is known by all that was said up to it, or somebody else's
reasoning could stand behind the same short answer (docs/decisions/0124).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.conversation import (
    Call,
    CallStart,
    Conversation,
    Event,
    Message,
    Part,
    Result,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
)
from pointsman.wire.tool_names import call_id

__all__ = [
    "Placed",
    "Recall",
    "SignedTurn",
    "TurnCollector",
    "head",
    "said_before",
    "signed_turn",
    "with_reasoning",
]

#: Characters of reasoning by which it is known again where nobody signed it.
_HEAD: Final = 100
_ASSISTANT: Final = (
    Role.ASSISTANT
)  # by plain name: Python 3.11 finds a member of an enum through a descriptor

#: How many calls of the turn stand before, and whether a text does since the last of them.
_Place: TypeAlias = tuple[int, bool]
#: Reasoning and its place.
Placed: TypeAlias = tuple[_Place, Thinking]
#: Returns the reasoning of the turn with a key, as its provider wrote it; None where no such turn is known.
Recall: TypeAlias = Callable[[str], Sequence[Placed] | None]


class SignedTurn(NamedTuple):
    """One translated turn of the assistant: its reasoning, and by what its author is known again."""

    key: str  # by which the turn is known again
    reasoning: tuple[Placed, ...]  # what is signed of it
    marks: tuple[str, ...] = ()  # ids of its calls and beginnings of its reasoning, as the caller holds them

    @property
    def weight(self) -> int:
        """Characters it takes to keep."""
        held = sum(len(part.text) + len(part.signature) + len(part.encrypted) for _, part in self.reasoning)
        return len(self.key) + held


class TurnCollector:
    """Collects the reasoning of one streamed answer, event by event."""

    __slots__ = (
        "_author",
        "_before",
        "_calls",
        "_heads",
        "_is_thinking",
        "_reasoning",
        "_said",
        "_texts",
        "_words",
    )

    def __init__(self, author: WireFormat, before: bytes) -> None:
        """Begin an answer in the format ``author``; ``before``: what was said up to it (``said_before``)."""
        self._author = author
        self._before = before
        self._words: list[str] = []  # of reasoning that is not signed yet
        self._texts: list[str] = []
        self._calls: list[str] = []
        self._said = self._is_thinking = False
        self._reasoning: list[Placed] = []
        self._heads: list[list[str]] = []  # words of reasoning as the caller gets it, in one piece each

    def add(self, event: Event) -> None:
        """Take in one event."""
        kind = type(event)
        if kind is TextDelta:
            self._texts.append(event.text)  # type: ignore[union-attr]
            self._said, self._is_thinking = True, False
        elif kind is ThinkingDelta:
            self._think(event.text)  # type: ignore[union-attr]
        elif kind is CallStart:
            self._calls.append(event.id)  # type: ignore[union-attr]
            self._said = self._is_thinking = False
        elif isinstance(event, SignatureDelta):
            self._sign(event)

    def _think(self, text: str) -> None:
        if not self._is_thinking:
            self._is_thinking = True
            self._heads.append([])
        if len(self._heads[-1]) < _HEAD:
            self._heads[-1].append(text)
        self._words.append(text)

    def _sign(self, event: SignatureDelta) -> None:
        text = "".join(self._words)
        self._words.clear()
        if event.signature:
            self._is_thinking = False
        if event.encrypted and self._author is WireFormat.MESSAGES:
            text = ""  # redacted thinking has no words
        part = Thinking(text, event.signature, event.encrypted, event.id, self._author)
        self._reasoning.append(((len(self._calls), self._said), part))

    def turn(self) -> SignedTurn:
        """Return the turn, once the answer is whole."""
        heads = ("".join(words) for words in self._heads)
        return _turn(self._before, self._calls, self._texts, self._reasoning, heads)


def head(words: str) -> str:
    """Return what reasoning that nobody signed is known by: how it begins."""
    return f"words {words[:_HEAD]}"


def signed_turn(parts: Iterable[Part], before: bytes) -> SignedTurn:
    """Return the turn that a whole answer is; ``before``: what was said up to it (``said_before``)."""
    calls, texts, found, said = list[str](), list[str](), list[Placed](), False
    heads = list[str]()
    for part in parts:
        if isinstance(part, Call):
            calls.append(part.id)
            said = False
        elif isinstance(part, Thinking):
            heads.append(part.text)
            if part.author is not None:
                found.append(((len(calls), said), part))
        else:
            said = True
            if isinstance(part, Text):
                texts.append(part.text)
    return _turn(before, calls, texts, found, heads)


def _turn(
    before: bytes,
    calls: Sequence[str],
    texts: Iterable[str],
    reasoning: Iterable[Placed],
    heads: Iterable[str],
) -> SignedTurn:
    marks = [call_id(call) for call in calls] + [head(words) for words in heads if words]
    return SignedTurn(_key(before, calls, texts), tuple(reasoning), tuple(marks))


def said_before(messages: Iterable[Message]) -> bytes:
    """Return a digest of what was said in messages: their texts, and the ids of calls and results.

    What a tool returned is not read: its call has an id of its own.
    """
    said = hashlib.blake2b(digest_size=16)
    for message in messages:
        said.update(_words(message))
    return said.digest()


def _words(message: Message) -> bytes:
    """What of a message is read for a digest; white space in the model's words may get lost on their way."""
    words: list[str] = [message.role.value]
    for part in message.parts:
        kind = type(part)
        if kind is Text:
            text: str = part.text  # type: ignore[union-attr]
            words.append("".join(text.split()) if message.role is _ASSISTANT else text)
        elif kind is Result:
            words.append(part.call_id)  # type: ignore[union-attr]
        elif kind is Call:
            words.append(part.id)  # type: ignore[union-attr]
    words.append("\x01")
    return "\x00".join(words).encode("utf-8", "surrogatepass")


def with_reasoning(conversation: Conversation, recall: Recall) -> Conversation:
    """Return a request in which each turn whose reasoning is kept has it back, in its place."""
    messages, said, is_own = [], hashlib.blake2b(digest_size=16), False
    for message in conversation.messages:
        found = message
        if message.role is _ASSISTANT:
            reasoning = recall(_key_of(message, said))
            is_own = reasoning is not None
            if reasoning:
                # What the caller holds of it are the words alone.
                others = [part for part in message.parts if not isinstance(part, Thinking)]
                found = Message(message.role, tuple(_placed(others, reasoning)))
        said.update(_words(message))
        messages.append(found)
    return msgspec.structs.replace(conversation, messages=tuple(messages), is_own_turn=is_own)


def _key_of(message: Message, said: hashlib.blake2b) -> str:
    calls = [part.id for part in message.parts if isinstance(part, Call)]
    if calls:
        return _key(b"", calls, ())
    return _key(said.digest(), (), [part.text for part in message.parts if isinstance(part, Text)])


def _placed(parts: Iterable[Part], reasoning: Sequence[Placed]) -> list[Part]:
    placed: list[Part] = []
    at, calls, said = 0, 0, False
    for part in parts:
        while at < len(reasoning) and reasoning[at][0] <= (calls, said):
            placed.append(reasoning[at][1])
            at += 1
        placed.append(part)
        calls, said = (calls + 1, False) if isinstance(part, Call) else (calls, True)
    return placed + [part for _, part in reasoning[at:]]


def _key(before: bytes, calls: Sequence[str], texts: Iterable[str]) -> str:
    """The ids of a turn's calls, as every format may hold them; or a digest of all that was said with it."""
    if calls:
        return "\x00".join(map(call_id, calls))
    words = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(before + words, digest_size=16).hexdigest()
