"""Conversations stored by the provider: the part of their items that deciding the next request needs.

With ``previous_response_id`` an agent sends only new items. The rest is put back here as far as a decision
reads it: the beginning of the conversation, the person's latest words, and the calls that wait for a result.
A placeholder item replaces each of the others, so that every position is the same as in a history sent whole
(docs/notebook/0071).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, decode_items, decode_members, decode_typed, decoded, decoded_or
from pointsman.vocabulary import LARGE, AgentRequest, Message, Role
from pointsman.wire import sse
from pointsman.wire.body import MAX_VALUES, Body, Edit
from pointsman.wire.format import Member
from pointsman.wire.names import count_values
from pointsman.wire.reasoning import MAX_PARTS
from pointsman.wire.responses import PASSED, decode_item, read_item, said

__all__ = [
    "StoredConversation",
    "answered",
    "continues",
    "conversation_id",
    "is_stored",
    "previous_response",
    "stored_conversation",
]


# References to items of earlier answers, in a Responses request.
_REFERENCE: Final = b'"item_reference"'
#: Returns the item with an id as JSON; empty for reasoning, which is left out; None for an unknown one.
Find = Callable[[str], bytes | None]


def referable(items: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the id of each item of an answer, and the item that a reference to it replaces."""
    for raw in items:
        try:
            item = decode_item(raw)
        except UNREADABLE:
            continue
        if item.id:
            yield item.id, b"" if item.type == "reasoning" else raw


def with_items(body: bytes, find: Find) -> bytes:
    """Return a body with the items in place of references to them; the body itself if none is known.

    Each item is put in once: a conversation holds it once, and a small body must not become a large one.
    """
    if _REFERENCE not in body:
        return body
    named: set[str] = set()
    return _replaced(body, lambda raw: _found(raw, find, named))


def with_summaries(body: bytes) -> bytes:
    """Return a body with a message in place of each compaction of the gateway's; the body itself without."""
    return _replaced(body, _summary)


def _replaced(body: bytes, other: Callable[[msgspec.Raw], bytes | None]) -> bytes:
    """Return a body with other items in ``input``: None leaves an item unchanged, an empty one removes it."""
    try:
        members = decode_members(body)
        found = [(raw, other(raw)) for raw in decode_items(members["input"])]
    except (KeyError, *UNREADABLE):
        return body
    if all(item is None for _, item in found):
        return body
    items = [bytes(raw) if item is None else item for raw, item in found if item != b""]
    members["input"] = msgspec.Raw(b"[" + b",".join(items) + b"]")
    return msgspec.json.encode(members)


def _summary(raw: msgspec.Raw) -> bytes | None:
    return said(decode_item(raw).encrypted_content or "") if b'"compaction"' in bytes(raw) else None


def _found(raw: msgspec.Raw, find: Find, named: set[str]) -> bytes | None:
    """The item that a reference names; None if an item is no reference, is unknown, or is named again."""
    if _REFERENCE not in bytes(raw):
        return None
    item = decode_item(raw)
    if item.type != "item_reference" or not item.id or item.id in named:
        return None
    named.add(item.id)
    return find(item.id)


# A Responses request that goes on from an earlier answer, as one that holds the whole conversation.
def whole_request(body: Body, earlier: Sequence[bytes]) -> bytes:
    """Return a request with the items of earlier turns before those of ``body``, and no previous response.

    Args:
        body: The request; its ``previous_response_id`` is set.
        earlier: Items as JSON, separated by commas, of each turn.
    """
    own, span = _own(body), body.span("input")
    items = b"[%s]" % b",".join(part for part in (*earlier, own) if part)
    named = body.span("previous_response_id")
    edits: list[Edit] = [(named, b"null")] if named else []
    if span is None:
        start = body.raw.index(b"{") + 1
        edits.append(((start, start), b'"input":' + items + b","))
    else:
        edits.append((span, items))
    return body.edited(edits)


def own_items(body: Body, answer: Sequence[bytes]) -> bytes:
    """Return the items of a request and of its answer, as JSON separated by commas.

    Reasoning in a translated answer is the translation's: it is left out.
    """
    return b",".join(part for part in (_own(body), *(item for item in answer if _is_kept(item))) if part)


def _own(body: Body) -> bytes:
    span = body.span("input")
    value = body.readable[slice(*span)].strip() if span else b"null"
    if value.startswith(b'"'):
        return b'{"type":"message","role":"user","content":%s}' % value
    return value[1:-1].strip() if value.startswith(b"[") else b""


def _is_kept(item: bytes) -> bool:
    found = decoded_or(None, decode_typed, item)
    return found is not None and found.type != "reasoning"


#: Characters kept of a result that has been counted already. Only strings matter that come again in the next
#: call's arguments, and those are looked for in its beginning (``trajectory.arguments.MAX_SOURCE``).
_RESULT: Final = 20_000


class _Stored(msgspec.Struct, gc=False):
    id: str
    output: list[msgspec.Raw]


class _StoredEvent(msgspec.Struct, gc=False):
    response: _Stored


class _Conversation(msgspec.Struct, gc=False):
    id: str = ""


#: Values of an answer: the 20 likeliest words in place of each of 12,000 are as many.
_MOST_VALUES: Final = 8 * MAX_VALUES
_decode_stored: Final = msgspec.json.Decoder(_Stored).decode
_decode_stored_event: Final = msgspec.json.Decoder(_StoredEvent).decode
_decode_id: Final = msgspec.json.Decoder(_Conversation | str | None).decode


class StoredConversation(msgspec.Struct, frozen=True):
    """The known items before those of a request."""

    count: int  # how many there are
    kept: tuple[tuple[int, bytes], ...]  # position and item, of those that matter
    size: int  # bytes of the whole conversation, as it was sent
    features: frozenset[str]  # what it needs of a model

    def items(self) -> list[bytes]:
        """Return an item for every position."""
        items = [PASSED] * self.count
        for position, item in self.kept:
            items[position] = item
        return items

    @property
    def weight(self) -> int:
        """Size in bytes."""
        return sum(len(item) for _, item in self.kept)


def stored_conversation(
    request: AgentRequest, answered: Sequence[bytes], words_at: int
) -> StoredConversation:
    """Return the stored conversation after a turn that was answered with these items.

    Args:
        request: A request in the Responses format; its history may begin with items that were put back.
        answered: The items of the answer, as JSON.
        words_at: Position of the item with the person's latest words; -1 for none.
    """
    history, count = request.history, len(request.history)
    positions = [*_opening(request), words_at, count - 1]
    kept = {at: _shortened(history[at]) for at in positions if at >= 0}
    kept |= {count + at: item for at, item in enumerate(answered) if _is_call(item)}
    return StoredConversation(
        count=count + len(answered),
        kept=tuple(sorted(kept.items())),
        size=request.size + sum(map(len, answered)),
        features=request.features & {"vision"},  # the others go by what a request asks for itself
    )


def _opening(request: AgentRequest) -> list[int]:
    """Positions before the model's first item: by these words a conversation is known again."""
    positions = []
    for position in range(len(request.history)):
        if request.history.role(position) is Role.ASSISTANT:
            break
        positions.append(position)
    return positions


def _shortened(message: Message) -> bytes:
    """Return an item that is read as this message is, apart from images and the end of long results."""
    item: dict[str, Any]
    if message.results:
        result = message.results[0]
        item = {
            "type": "function_call_output",
            "call_id": result.call_id,
            "output": result.text[:_RESULT],
        }
    elif message.calls:
        call = message.calls[0]
        item = {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
    else:
        blocks = [{"type": "input_text", "text": text} for text in message.texts]
        item = {"role": message.role, "content": blocks}
    return msgspec.json.encode(item)


def _is_call(item: bytes) -> bool:
    read = decoded_or(None, msgspec.json.decode, item)
    return isinstance(read, dict) and bool(read_item(read).calls)


def continues(member: Member) -> str:
    """Return the id of the response or conversation that a request continues; empty when it holds all."""
    return _named(member, "previous_response_id") or _named(member, "conversation")


def previous_response(member: Member) -> str:
    """Return the id of the response that a request continues; empty when it names none."""
    return _named(member, "previous_response_id")


def conversation_id(member: Member) -> str:
    """Return the id of the conversation that a request belongs to; empty when it names none."""
    return _named(member, "conversation")


def is_stored(member: Member) -> bool:
    """Whether the provider stores the answer, so that a request can continue it."""
    return bytes(member("store") or b"") != b"false"


def _named(member: Member, name: str) -> str:
    raw = member(name)
    if raw is None:
        return ""
    named = decoded_or("", _decode_id, raw) or ""  # what cannot be read is for the upstream to refuse
    return named if isinstance(named, str) else named.id


def answered(parts: Sequence[bytes]) -> tuple[str, list[bytes]] | None:
    """Return the id and the items of a whole body, or of the last events of a stream; None without such.

    Nor are there any in one of more items or values than any answer has.
    """
    whole = b"".join(parts)
    if len(whole) > LARGE and count_values(whole, _MOST_VALUES) > _MOST_VALUES:
        return None
    streamed = not whole.lstrip().startswith(b"{")
    for payload in reversed([sse.data(event) for event in sse.events(whole)]) if streamed else (whole,):
        try:
            if streamed:
                found = decoded(_decode_stored_event, payload).response
            else:
                found = decoded(_decode_stored, payload)
        except UNREADABLE:
            continue  # a comment, or half an event
        return (found.id, [bytes(item) for item in found.output]) if len(found.output) <= MAX_PARTS else None
    return None
