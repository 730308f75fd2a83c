"""The interface of a wire format: names and functions, one ``Format`` per format.

A format is one folder. Its translation (``Codec``) and its handling of reasoning are imported on first use:
most gateways translate between two formats at most, many between none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from pointsman.decoding import UNREADABLE, decoded, without_halves
from pointsman.vocabulary import History, Message, Prompt, Role, ToolCall, WireFormat
from pointsman.wire import sse
from pointsman.wire.conversation import (
    ABSENT,
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Conversation,
    Event,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Usage,
)

if TYPE_CHECKING:
    from pointsman.wire.constructs import Report

__all__ = [
    "ABSENT",
    "AnswerWriters",
    "Codec",
    "End",
    "Ending",
    "Fault",
    "Format",
    "Insertion",
    "Item",
    "Items",
    "Member",
    "Members",
    "ModelCall",
    "Reply",
    "StreamReader",
    "StreamWriter",
    "TokenCount",
    "count",
    "error_message",
]


class CompletionSummary(msgspec.Struct, frozen=True, gc=False):
    """The summary of a completion, without its text."""

    finish: str = ""  # why it ended, in its format's terms; empty: it did not say
    tools: tuple[str, ...] = ()  # names of the tools it calls, in order


class WithUsage(msgspec.Struct, gc=False):
    """An answer as far as its usage is looked for."""

    usage: msgspec.Raw = msgspec.Raw()


_decode_answer: Final = msgspec.json.Decoder(WithUsage).decode
decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


def objects(answer: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield a whole answer, or each event of a stream; values other than JSON objects are skipped."""
    if answer.lstrip()[:1] != b"{":
        yield from sse.decoded(answer, decode_object)
        return
    with suppress(*UNREADABLE):
        yield decode_object(answer)


_WORD: Final = re.compile(r"\S+\s*|\s+")


#: One message of a request, as JSON.
Item: TypeAlias = msgspec.Raw | bytes

#: A conversation: its items, or the one text that Responses takes instead.
Items: TypeAlias = Sequence[msgspec.Raw] | str | None

#: Returns a member of a request body as JSON; None when the body has none of that name.
Member: TypeAlias = Callable[[str], msgspec.Raw | None]


#: The most tokens that a report is believed with; the ledger and JSON readers take no larger integer.
_MOST_TOKENS: Final = 1 << 53
#: A number of tokens in an upstream's report. A report with a negative number counts as none.
TokenCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MOST_TOKENS)]


def count(value: object) -> int | None:
    """A number of tokens that not every server reports; one of another shape, or negative, is left out."""
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


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


class _Error(msgspec.Struct, frozen=True):
    message: str = ""


class _ErrorBody(msgspec.Struct, gc=False):
    error: _Error = _Error()


_decode_error: Final = msgspec.json.Decoder(_ErrorBody).decode


def error_message(body: bytes) -> str:
    """Return the message of an error, in any of the formats; empty if it has none. Raises ``UNREADABLE``."""
    return decoded(_decode_error, body).error.message


class Reply(msgspec.Struct, frozen=True):
    """An answer the gateway itself gives: of the demo upstream, or to a command."""

    id: str  # hexadecimal; each format has its own prefix
    model: str
    text: str = ""
    tool: str = ""  # name of the tool to call; empty: none
    arguments: Mapping[str, Any] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    created: int = 0  # seconds since the epoch
    wants_usage: bool = False  # chat streams report usage only when asked
    asked: Mapping[str, msgspec.Raw] = {}  # members of the request, some of which Responses repeats

    @property
    def usage(self) -> Usage:
        """Its tokens."""
        return Usage(self.input_tokens, None, self.output_tokens)

    @property
    def stop(self) -> StopReason:
        """Why it ends."""
        return StopReason.TOOLS if self.tool else StopReason.END

    def completion(self, answer: str, call: str) -> Completion:
        """The whole answer; ``answer`` and ``call`` are the prefixes of ids."""
        part = ToolCall(call + self.id, self.tool, self._json) if self.tool else Text(self.text)
        return Completion(
            id=answer + self.id,
            model=self.model,
            parts=(part,),
            stop=self.stop,
            usage=self.usage,
            created=self.created,
        )

    def events(self, answer: str, call: str) -> Iterator[Event]:
        """Yield the same as a stream, word by word, as a model writes it."""
        yield Start(answer + self.id, self.model, self.usage, self.created)
        for found in _WORD.finditer(self.text):
            yield TextDelta(found[0])
        if self.tool:
            yield CallStart(0, ToolCall(call + self.id, self.tool, ""))
            yield ArgumentsDelta(0, self._json)
            yield CallEnd(0)
        yield Stop(self.stop)

    @property
    def _json(self) -> str:
        return msgspec.json.encode(self.arguments).decode()


class Members(NamedTuple):
    """Decoders of a request body."""

    known: Callable[[bytes], Any]  # all its members; refuses one with a member that is not known
    checked: Callable[[bytes], Any]  # conversation and model of any body; says what is wrong with them
    names: frozenset[str]

    @classmethod
    def of(cls, items: str, shape: Any, names: str, *, is_required: bool = True) -> Members:
        """Decoders of a body with its conversation in ``items``; ``names``: its other members, by spaces."""
        conversation = (items, shape) if is_required else (items, shape, None)
        others = [(name, msgspec.Raw, ABSENT) for name in ("model", *names.split())]
        known = msgspec.defstruct(
            "Request", [conversation, *others], gc=False, forbid_unknown_fields=True, omit_defaults=True
        )
        checked = msgspec.defstruct("Request", [conversation, ("model", str, "auto")], gc=False)
        decode, check = msgspec.json.Decoder(known).decode, msgspec.json.Decoder(checked).decode
        return cls(decode, check, frozenset(known.__struct_fields__))


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
    """How a question of Pointsman's is written."""

    headers: tuple[tuple[bytes, bytes], ...]
    write: Callable[[str, Prompt], Mapping[str, object]]  # model id and prompt to body
    write_plain: Callable[[str, Prompt], Mapping[str, object]]  # without what some reasoning models refuse


class StreamReader(Protocol):
    """Reads the blocks of one stream. Holds what of an event has not arrived whole."""

    def feed(self, block: bytes) -> list[Event]:
        """Return the events of a block of whole server-sent events.

        An empty block reports that the connection ended well: what waited for more is then returned.
        """


class StreamWriter(Protocol):
    """Writes one stream."""

    def write(self, events: Iterable[Event]) -> bytes:
        """Return the server-sent events for these; a ``Stop`` writes the closing marks of the format.

        Nothing closes a stream that had no ``Stop``: the caller must not take it for whole. ``Failed`` writes
        an error event of the format, and no closing mark.
        """


class AnswerWriters(NamedTuple):
    """Writes the answer to one request, whole or streamed."""

    write_answer: Callable[[Completion], bytes]
    stream_writer: Callable[[str], StreamWriter]  # given the model's name as the caller is to see it


class Codec(NamedTuple):
    """Reads and writes one format. Requests and answers are JSON; every function is pure."""

    read_request: Callable[[bytes], Conversation]  # raises MalformedRequest
    write_request: Callable[[Conversation, Report], bytes]  # raises Untranslatable
    read_answer: Callable[[bytes], Completion]  # raises ``decoding.UNREADABLE``
    stream_reader: Callable[[], StreamReader]
    #: The writers that know the request they answer, where the format needs it: Responses gives custom tools
    #: and namespaces back as the caller offered them.
    for_request: Callable[[Conversation], AnswerWriters]


@dataclass(frozen=True, kw_only=True)
class Format:
    """One request format. Every function is pure; bytes are JSON or, for streams, blocks of events."""

    format: WireFormat
    folder: str  # the package of its modules
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
    output_limits: tuple[str, ...]  # members that limit the length of the answer
    shapes: tuple[str, ...]  # members that may demand an answer of a given JSON shape
    system: Callable[[Member, History], str]  # the system text
    body: Callable[[Sequence[Any], str], dict[str, Any]]  # items and a system text as a body
    read_item: Callable[[Mapping[str, Any]], Message]  # one item, decoded from JSON
    #: An item as plain as most are, read at a third of the price; None for any other. Raises ``UNREADABLE``.
    read_plain: Callable[[Item], Message | None]
    read_role: Callable[[Item], Role]  # of an item, undecoded; raises ``UNREADABLE``
    #: Where a text goes at the end of the conversation, given as JSON with its last item where that is known;
    #: None where it has no place. Raises ``UNREADABLE``.
    place: Callable[[bytes, Item | None, str], Insertion | None]

    # The answer.
    read_usage: Callable[[msgspec.Raw], Usage | None]  # of a member ``usage``; None without one that is known
    completion: Callable[[bytes], tuple[CompletionSummary, str]]  # of a whole answer or stream, and its words
    ids: tuple[str, str]  # how those of our own answers begin, and of the calls in them
    is_error: Callable[[bytes], bool]
    error: Callable[[Fault], bytes]  # the body of an error answer

    # The stream.
    end: Callable[[Sequence[bytes]], End]  # from its first block of events and its last few
    refusal: Callable[[bytes], int | None]  # the status a first block amounts to when it is an error
    error_event: Callable[[Fault, Sequence[bytes]], bytes]  # ends a stream that began and ended with these

    keep_alive: bytes = b": keep-alive\n\n"  # what clients ignore in a silent stream

    model_call: ModelCall | None = None  # None: we ask no model in this format

    #: The module with its handling of reasoning (``wire.reasoning``), where its providers sign or encrypt
    #: reasoning, and take none of another one.
    own_reasoning: str = ""

    def usage(self, answer: bytes) -> Usage:
        """Read the usage of a whole answer. Raises ``UNREADABLE`` when it is not JSON."""
        try:
            return self.read_usage(_decode_answer(answer).usage) or Usage()
        except UNREADABLE:
            return self.read_usage(_decode_answer(without_halves(answer)).usage) or Usage()

    def answer(self, reply: Reply) -> bytes:
        """Return a local reply, whole."""
        return self._writers(reply).write_answer(reply.completion(*self.ids))

    def answer_events(self, reply: Reply) -> Iterator[bytes]:
        """Yield a local reply as events of a stream."""
        writer = self._writers(reply).stream_writer(reply.model)
        for event in reply.events(*self.ids):
            yield from (each + b"\n\n" for each in sse.events(writer.write((event,))))

    def _writers(self, reply: Reply) -> AnswerWriters:
        asked = dict(reply.asked)
        return self.codec.for_request(
            Conversation(model=reply.model, stream_usage=reply.wants_usage, options=asked)
        )

    @cached_property
    def asked_names(self) -> tuple[str, ...]:
        """The members of a request that say what it asks of a model: tools, choice, shapes, old tools."""
        return "tools", "tool_choice", *self.shapes, *filter(None, (self.old_tools,))

    @cached_property
    def asked(self) -> Callable[[Any], tuple[msgspec.Raw, ...]]:
        """Return these members of a body that ``members.known`` has decoded."""
        return attrgetter(*self.asked_names)

    @cached_property
    def codec(self) -> Codec:
        """What reads and writes it for translation."""
        codec: Codec = import_module(".translation", self.folder).CODEC
        return codec
