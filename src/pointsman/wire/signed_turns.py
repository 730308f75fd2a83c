"""Reasoning that only its provider can check, taken out of a translated answer and put back into a request.

The caller of another format has no place for a signature or for encrypted content. What it sends back of a
turn are the calls, by their ids, or the words: by these the reasoning finds its place again
(docs/decisions/0124).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.conversation import (
    Call,
    CallStart,
    Conversation,
    Event,
    Message,
    Part,
    SignatureDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
)
from pointsman.wire.tool_names import call_id

__all__ = ["Placed", "Recall", "SignedTurn", "TurnCollector", "signed_turn", "with_reasoning"]

#: How many calls of the turn stand before, and whether a text does since the last of them.
_Place: TypeAlias = tuple[int, bool]
#: Reasoning and its place.
Placed: TypeAlias = tuple[_Place, Thinking]
#: Returns the reasoning of the turn with a key, as its provider wrote it; nothing where none is kept.
Recall: TypeAlias = Callable[[str], Sequence[Placed]]


class SignedTurn(NamedTuple):
    """The reasoning of one turn of the assistant."""

    key: str  # by which the turn is known again
    reasoning: tuple[Placed, ...]

    @property
    def weight(self) -> int:
        """Characters it takes to keep."""
        held = sum(len(part.text) + len(part.signature) + len(part.encrypted) for _, part in self.reasoning)
        return len(self.key) + held


class TurnCollector:
    """Collects the reasoning of one streamed answer, event by event."""

    __slots__ = ("_author", "_calls", "_reasoning", "_said", "_texts", "_words")

    def __init__(self, author: WireFormat) -> None:
        self._author = author
        self._words: list[str] = []  # of reasoning that is not signed yet
        self._texts: list[str] = []
        self._calls: list[str] = []
        self._said = False
        self._reasoning: list[Placed] = []

    def add(self, event: Event) -> None:
        """Take in one event."""
        kind = type(event)
        if kind is TextDelta:
            self._texts.append(event.text)  # type: ignore[union-attr]
            self._said = True
        elif kind is ThinkingDelta:
            self._words.append(event.text)  # type: ignore[union-attr]
        elif kind is CallStart:
            self._calls.append(event.id)  # type: ignore[union-attr]
            self._said = False
        elif isinstance(event, SignatureDelta):
            self._sign(event)

    def _sign(self, event: SignatureDelta) -> None:
        text = "".join(self._words)
        self._words.clear()
        if event.encrypted and self._author is WireFormat.MESSAGES:
            text = ""  # redacted thinking has no words
        part = Thinking(text, event.signature, event.encrypted, event.id, self._author)
        self._reasoning.append(((len(self._calls), self._said), part))

    def turn(self) -> SignedTurn | None:
        """Return the reasoning, once the answer is whole; None when none was signed."""
        if not self._reasoning:
            return None
        return SignedTurn(_key(self._calls, self._texts), tuple(self._reasoning))


def signed_turn(parts: Iterable[Part]) -> SignedTurn | None:
    """Return the reasoning of a whole answer; None when none was signed."""
    calls, texts, found, said = list[str](), list[str](), list[Placed](), False
    for part in parts:
        if isinstance(part, Call):
            calls.append(part.id)
            said = False
        elif isinstance(part, Thinking):
            if part.author is not None:
                found.append(((len(calls), said), part))
        else:
            said = True
            if isinstance(part, Text):
                texts.append(part.text)
    return SignedTurn(_key(calls, texts), tuple(found)) if found else None


def with_reasoning(conversation: Conversation, recall: Recall) -> Conversation:
    """Return a request in which each turn whose reasoning is kept has it back, in its place."""
    messages = tuple(
        _restored(message, recall) if message.role is Role.ASSISTANT else message
        for message in conversation.messages
    )
    return msgspec.structs.replace(conversation, messages=messages)


def _restored(message: Message, recall: Recall) -> Message:
    calls = [part.id for part in message.parts if isinstance(part, Call)]
    texts = () if calls else [part.text for part in message.parts if isinstance(part, Text)]
    reasoning = recall(_key(calls, texts))
    if not reasoning:
        return message
    # What the caller holds of it are the words alone.
    others = [part for part in message.parts if not isinstance(part, Thinking)]
    return Message(message.role, tuple(_placed(others, reasoning)))


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


def _key(calls: Sequence[str], texts: Iterable[str]) -> str:
    """The ids of a turn's calls, as every format may hold them; without calls a digest of its words."""
    if calls:
        return "\x00".join(map(call_id, calls))
    words = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=16).hexdigest()
