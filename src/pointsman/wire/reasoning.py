"""Reasoning that only its provider can check, in translated and in relayed requests.

Translated: the caller of another format has no place for a signature or for encrypted content. The reasoning
is taken out of the answer and put back into a later request, found by the ids of the turn's calls or by its
words. Ids of calls are unique; words are not, so a turn without calls is recognised by the whole conversation
up to it, or another conversation's reasoning could follow the same short answer.

Relayed: the bytes of a request in the upstream's own format do not change. Only a conversation that was at
another upstream as well may hold reasoning that has to be removed: no provider takes that of another one
(docs/decisions/0124).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from pointsman.vocabulary import ASSISTANT, ToolCall, WireFormat
from pointsman.wire.body import Body, Edit, Span
from pointsman.wire.conversation import (
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
from pointsman.wire.format import Format
from pointsman.wire.tools import call_id

__all__ = [
    "MAX_PARTS",
    "Cleaned",
    "Origin",
    "OwnReasoning",
    "Placed",
    "Recall",
    "SignedTurn",
    "Thought",
    "TurnCollector",
    "head",
    "own_reasoning",
    "said_before",
    "signed_turn",
    "with_reasoning",
]


#: Parts of an answer; calls of a stream. Three bytes may be a call, which takes a thousand in another format.
MAX_PARTS: Final = 2_000
#: Characters of reasoning by which it is known again where nobody signed it.
_HEAD: Final = 100

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
        """Size in characters."""
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
        """Begin an answer in the format ``author``; ``before``: digest of its history (``said_before``)."""
        self._author = author
        self._before = before
        self._words: list[str] = []  # of reasoning that is not signed yet
        self._texts: list[str] = []
        self._calls: list[str] = []
        self._said = self._is_thinking = False
        self._reasoning: list[Placed] = []
        self._heads: list[list[str]] = []  # words of reasoning as the caller gets it, in one piece each

    def add(self, event: Event) -> None:
        """Take in one event.

        Raises:
            msgspec.ValidationError: there are more calls than any answer has.
        """
        kind = type(event)
        if kind is TextDelta:
            self._texts.append(event.text)  # type: ignore[union-attr]
            self._said, self._is_thinking = True, False
        elif kind is ThinkingDelta:
            self._think(event.text)  # type: ignore[union-attr]
        elif kind is CallStart:
            if len(self._calls) == MAX_PARTS:
                raise msgspec.ValidationError(f"more than {MAX_PARTS} calls")
            self._calls.append(event.call.id)  # type: ignore[union-attr]
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
    """Return the key of unsigned reasoning: its beginning."""
    return f"words {words[:_HEAD]}"


def signed_turn(parts: Iterable[Part], before: bytes) -> SignedTurn:
    """Return the turn of a whole answer; ``before``: digest of the history before it (``said_before``)."""
    calls, texts, found, said = list[str](), list[str](), list[Placed](), False
    heads = list[str]()
    for part in parts:
        if isinstance(part, ToolCall):
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
    """Return a digest of the content of messages: their texts, and the ids of calls and results.

    A tool's result is not read: the call's id is enough.
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
            words.append("".join(text.split()) if message.role is ASSISTANT else text)
        elif kind is Result:
            words.append(part.call_id)  # type: ignore[union-attr]
        elif kind is ToolCall:
            words.append(part.id)  # type: ignore[union-attr]
    words.append("\x01")
    return "\x00".join(words).encode("utf-8", "surrogatepass")


def with_reasoning(conversation: Conversation, recall: Recall) -> Conversation:
    """Return a request with the stored reasoning of each turn put back in its place."""
    messages, said, is_own = [], hashlib.blake2b(digest_size=16), False
    for message in conversation.messages:
        found = message
        if message.role is ASSISTANT:
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
    calls = [part.id for part in message.parts if isinstance(part, ToolCall)]
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
        calls, said = (calls + 1, False) if isinstance(part, ToolCall) else (calls, True)
    return placed + [part for _, part in reasoning[at:]]


def _key(before: bytes, calls: Sequence[str], texts: Iterable[str]) -> str:
    """The ids of a turn's calls, as every format may hold them; or a digest of its words and its history."""
    if calls:
        return "\x00".join(map(call_id, calls))
    words = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(before + words, digest_size=16).hexdigest()


# Where the values of a JSON list stand in its bytes, and edits that take some of them out.
def spans(data: bytes, values: Iterable[msgspec.Raw], start: int) -> list[Span]:
    """Return the spans of values that follow one another in ``data`` from ``start`` on."""
    found, at = [], start
    for value in values:
        whole = bytes(value)
        begin = data.index(whole, at)  # a few bytes on: only a comma and white space stand between
        at = begin + len(whole)
        found.append((begin, at))
    return found


def removals(places: Sequence[Span], removed: Sequence[int]) -> Iterator[Edit]:
    """Yield edits that take values out of a list with the commas they leave behind.

    Args:
        places: Span of each value of the list.
        removed: Positions of those to take out, ascending.
    """
    for _, group in groupby(enumerate(removed), key=lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        first, last = run[0], run[-1]
        if last + 1 < len(places):
            yield (places[first][0], places[last + 1][0]), b""
        else:
            yield (places[first - 1][1] if first else places[first][0], places[last][1]), b""


class Thought(NamedTuple):
    """One piece of reasoning in a request."""

    mark: str  # its signature or encrypted content, its id, or how its words begin
    is_signed: bool  # or known by its id


class Origin(Protocol):
    """Knows the author of each part of a conversation."""

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        """Whether another upstream wrote it. ``among_signed``: the conversation holds signed reasoning."""

    def is_foreign_call(self, identifier: str) -> bool:
        """Whether another upstream made the call with this id."""


class Cleaned(NamedTuple):
    """Edits that leave an upstream's own reasoning alone in a request."""

    edits: list[Edit]
    changed: tuple[str, ...]  # ids of constructs


class OwnReasoning(NamedTuple):
    """How one format holds reasoning."""

    translated: Callable[[bytes], bool]  # whether a body seems to hold what our translation wrote
    clean: Callable[[Body, Origin], Cleaned]  # raises ``UNREADABLE``
    marks: Callable[[bytes], Sequence[str]]  # of an answer or of events: by what their author is known again
    asked: str = ""  # the member without which no answer holds any; empty: one may hold it all the same


def own_reasoning(wire: Format) -> OwnReasoning | None:
    """Return the handling of reasoning of a format; None for one without reasoning."""
    return _imported(wire.own_reasoning, wire.folder) if wire.own_reasoning else None


@cache
def _imported(module: str, folder: str) -> OwnReasoning:
    own: OwnReasoning = import_module(module, folder).OWN_REASONING
    return own
