"""The interface of a wire format: names and functions, one ``Wire`` per format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from pointsman.vocabulary import History, Message, Prompt, Role, WireFormat
from pointsman.wire.completion import CompletionSummary

__all__ = [
    "ABSENT",
    "End",
    "Ending",
    "Fault",
    "Insertion",
    "Item",
    "Items",
    "Member",
    "Members",
    "ModelCall",
    "Reply",
    "Usage",
    "Wire",
]

_WORD: Final = re.compile(r"\S+\s*|\s+")

#: Stands for a member that a body does not have.
ABSENT: Final = msgspec.Raw()

#: One message of a request, as JSON.
Item: TypeAlias = msgspec.Raw | bytes

#: A conversation: its items, or the one text that Responses takes instead.
Items: TypeAlias = Sequence[msgspec.Raw] | str | None

#: Returns a member of a request body as JSON; None when the body has none of that name.
Member: TypeAlias = Callable[[str], msgspec.Raw | None]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the upstream reported them. Cached input is part of input, in every format."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None


class Ending(Enum):
    """How a stream ended."""

    COMPLETE = "complete"  # it said so itself
    SAID = "said"  # the answer is whole, the closing mark is missing: fine if the connection ended well
    REFUSED = "refused"  # the upstream sent an error event of its own
    CUT = "cut"  # neither: whoever reads it must not take it for whole


class End(msgspec.Struct, frozen=True):
    """The end of a stream."""

    ending: Ending
    usage: Usage = Usage()


class Fault(msgspec.Struct, frozen=True):
    """An error, independent of the wire format."""

    status: int
    message: str  # for a person; never a key or a body
    code: str = ""  # stable: "model_not_found", "upstream_timeout"
    param: str | None = None  # the field at fault


class Reply(msgspec.Struct, frozen=True):
    """An answer the gateway itself gives: of the demo upstream, or to a command."""

    id: str  # hexadecimal; each format puts its own prefix before it
    model: str
    text: str = ""
    tool: str = ""  # name of the tool to call; empty: none
    arguments: Mapping[str, Any] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    created: int = 0  # seconds since the epoch
    wants_usage: bool = False  # chat streams report usage only when asked
    asked: Mapping[str, msgspec.Raw] = {}  # members of the request, some of which Responses repeats

    def pieces(self) -> Iterator[str]:
        """Yield the text word by word, as a model writes it."""
        return (found[0] for found in _WORD.finditer(self.text))


class Members(NamedTuple):
    """Decoders of a request body."""

    known: Callable[[bytes], Any]  # all its members; refuses one with a member that is not known
    checked: Callable[[bytes], Any]  # conversation and model of any body; says what is wrong with them
    names: frozenset[str]

    @classmethod
    def of(cls, struct: type[msgspec.Struct], items: str) -> Members:
        """Decoders of a struct of all members, which forbids unknown ones; ``items`` is the conversation."""
        field = next(field for field in msgspec.structs.fields(struct) if field.name == items)
        default = () if field.required else (field.default,)
        fields = [(items, field.type, *default), ("model", str, "auto")]
        checked = msgspec.defstruct("Request", fields, gc=False)
        known = msgspec.json.Decoder(struct)
        return cls(known.decode, msgspec.json.Decoder(checked).decode, frozenset(struct.__struct_fields__))


class Insertion(NamedTuple):
    """Bytes to put at one place, and perhaps before it at another."""

    at: int  # offset
    data: bytes
    opened_at: int = 0  # offset of ``opening``
    opening: bytes = b""  # empty: there is none

    def applied(self, text: bytes) -> bytes:
        """Return the text with the bytes in it."""
        start, end = self.opened_at, self.at
        return text[:start] + self.opening + text[start:end] + self.data + text[end:]


class ModelCall(NamedTuple):
    """How a question of our own is written, and its reply read.

    ``read`` raises ``msgspec.MsgspecError`` for what is not a reply.
    """

    headers: tuple[tuple[bytes, bytes], ...]
    write: Callable[[str, Prompt], Mapping[str, object]]  # model id and prompt to body
    write_plain: Callable[[str, Prompt], Mapping[str, object]]  # without what some reasoning models refuse
    read: Callable[[bytes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One request format. Every function is pure; bytes are JSON or, for streams, blocks of events."""

    format: WireFormat
    path: bytes  # of its endpoint, below an upstream's ``base_url``
    token_path: bytes = b""  # of the endpoint that counts tokens; empty: none
    auth: Literal["bearer", "x-api-key"] = "bearer"  # how its providers take the key, unless configured
    header: bytes = b""  # a request header that only clients of this format send
    is_stateful: bool = False  # a provider may keep the conversation, and only what is new is sent

    # The request.
    items: str  # name of the member that holds the conversation
    members: Members
    required: tuple[str, ...] = ()  # members, beside model and conversation, that providers insist on
    old_tools: str = ""  # the member that held tools before ``tools``; empty: none
    shapes: tuple[str, ...]  # members that may demand an answer of a given JSON shape
    system: Callable[[Member, History], str]  # the system text
    body: Callable[[Sequence[Any], str], dict[str, Any]]  # items and a system text as a body
    read_item: Callable[[Mapping[str, Any]], Message]  # one item, decoded from JSON
    read_role: Callable[[Item], Role]  # of an item, undecoded; raises ``UNREADABLE``
    #: Where a text goes at the end of the conversation, given as JSON with its last item where that is known;
    #: None where it has no place. Raises ``UNREADABLE``.
    place: Callable[[bytes, Item | None, str], Insertion | None]

    # The answer.
    usage: Callable[[bytes], Usage]  # of a whole answer; raises ``UNREADABLE``
    completion: Callable[[bytes], tuple[CompletionSummary, str]]  # of a whole answer or stream, and its words
    answer: Callable[[Reply], bytes]
    is_error: Callable[[bytes], bool]
    error: Callable[[Fault], bytes]  # the body of an error answer

    # The stream.
    end: Callable[[Sequence[bytes]], End]  # from its first block of events and its last few
    refusal: Callable[[bytes], int | None]  # the status a first block amounts to when it is an error
    answer_events: Callable[[Reply], Iterator[bytes]]
    error_event: Callable[[Fault, Sequence[bytes]], bytes]  # ends a stream that began and ended with these

    keep_alive: bytes = b": keep-alive\n\n"  # what clients ignore in a silent stream

    model_call: ModelCall | None = None  # None: we ask no model in this format
