"""A request, an answer and a stream as every format can express them: the form between readers and writers.

A reader of each format makes this form, a writer of each format reads it: three of each instead of six direct
maps, and a fourth format adds one of each. The form is thin. Values that are only passed on (schemas,
arguments, image data) stay JSON or base64 exactly as sent. No format is the form: a hub format loses the
constructs that it cannot express (docs/decisions/0120).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import msgspec

from pointsman.vocabulary import Role, ToolCall, ToolResult, WireFormat

__all__ = [
    "CUT",
    "SPEAKERS",
    "THOUGHTS",
    "ArgumentsDelta",
    "CallEnd",
    "CallStart",
    "Completion",
    "Conversation",
    "Event",
    "Failed",
    "Media",
    "Message",
    "Opaque",
    "Part",
    "Refusal",
    "Result",
    "Shape",
    "SignatureDelta",
    "Start",
    "Stop",
    "StopReason",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "Tool",
    "ToolChoice",
    "Usage",
    "UsageReport",
]


#: Stands for a member that a body does not have.
ABSENT: Final = msgspec.Raw()

#: Roles of Messages and Responses. Any other is a person's, or a tool's in a message of results alone.
SPEAKERS: Final = {"assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}

#: Types of the blocks of Messages that hold reasoning.
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


class StopReason(StrEnum):
    """Why an answer ended."""

    END = "end"  # the model had finished
    LENGTH = "length"  # the output limit or the context window
    SEQUENCE = "sequence"  # a stop sequence
    TOOLS = "tools"  # it calls tools
    REFUSAL = "refusal"  # a filter, or the model refused
    PAUSE = "pause"  # a server tool of Messages asks to be continued


#: An answer that ended so was cut off: a call that is not whole is then none to run.
CUT: Final = frozenset({StopReason.LENGTH, StopReason.REFUSAL})


class Text(msgspec.Struct, frozen=True, gc=False):
    """Words."""

    text: str
    cached: bool = False  # a cache breakpoint of Messages stands behind it


class Media(msgspec.Struct, frozen=True, gc=False):
    """An image, a document or a sound: one of ``data``, ``url`` and ``file_id`` is set."""

    kind: Literal["image", "document", "audio"]
    media_type: str = ""
    data: str = ""  # base64, as sent
    url: str = ""
    file_id: str = ""
    name: str = ""  # file name or title
    detail: str = ""  # resolution of an image, as chat and Responses name it


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """Reasoning. Only the provider that wrote it can check it, so no other provider is ever sent it."""

    text: str = ""
    signature: str = ""
    encrypted: str = ""  # redacted thinking of Messages, encrypted content of Responses
    id: str = ""  # of the item, in Responses
    author: WireFormat | None = None  # the format whose provider signed or encrypted it; None: nobody did


class Result(ToolResult, frozen=True, gc=False):
    """A tool result with the parts that one plain text cannot hold; ``text`` has their words."""

    parts: tuple[Text | Media, ...] = ()  # empty: ``text`` is all
    custom: bool = False
    local_shell: bool = False

    @classmethod
    def of(
        cls,
        call_id: str,
        parts: tuple[Text | Media, ...] = (),
        is_error: bool = False,
        *,
        custom: bool = False,
        local_shell: bool = False,
    ) -> Result:
        """Build a result from its parts."""
        text = "\n".join([part.text for part in parts if type(part) is Text])
        is_plain = not parts or (len(parts) == 1 and type(parts[0]) is Text and not parts[0].cached)
        return cls(call_id, text, is_error, () if is_plain else parts, custom, local_shell)

    @property
    def content(self) -> tuple[Text | Media, ...]:
        """Its parts; one for a plain text, none for an empty one."""
        return self.parts or ((Text(self.text),) if self.text else ())


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The model's words for why it does not answer."""

    text: str


class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A part of one format alone: a server tool's call or result, a stored item."""

    format: WireFormat
    kind: str  # its ``type``
    raw: msgspec.Raw = ABSENT


Part: TypeAlias = Text | Media | Thinking | ToolCall | Result | Refusal | Opaque


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. Results are parts of messages of role user or tool, calls of the assistant's."""

    role: Role
    parts: tuple[Part, ...]


class Tool(msgspec.Struct, frozen=True, gc=False):
    """A tool offered. ``kind`` is "function", "custom" (free text), or the type of a server tool."""

    name: str
    description: str = ""
    schema: msgspec.Raw = ABSENT  # JSON schema of its arguments, as sent
    strict: bool | None = None
    kind: str = "function"
    namespace: str = ""
    raw: msgspec.Raw = ABSENT  # the whole of a custom or server tool, as sent


class ToolChoice(msgspec.Struct, frozen=True, gc=False):
    """Whether tools may, must or must not be called; ``name`` with mode "named"."""

    mode: Literal["auto", "none", "required", "named"]
    name: str = ""


class Shape(msgspec.Struct, frozen=True, gc=False):
    """A demanded shape of the answer: JSON at all, or JSON of a schema."""

    schema: msgspec.Raw = ABSENT  # absent: any JSON object
    name: str = ""
    strict: bool | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    model: str
    system: tuple[Text, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice | None = None
    parallel: bool | None = None  # whether several tools may be called at once
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    stream_usage: bool = True  # whether the caller reads the usage of a stream; chat alone has to be asked
    shape: Shape | None = None
    effort: str = ""  # "none", "minimal", "low", "medium", "high", "xhigh", "max"
    thinking_budget: int | None = None  # tokens; 0: thinking is switched off
    user: str = ""  # the end user, for abuse detection
    compacts: bool = False  # Codex: the answer is to be the conversation, compacted
    is_own_turn: bool = (
        False  # the upstream itself wrote the assistant's latest message, and nothing is missing
    )
    options: dict[str, msgspec.Raw] = {}  # every other member, by the name its own format gives it


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as an upstream reported them; None: it did not. ``input`` includes the cache, in any format."""

    input: int | None = None
    cached: int | None = None  # of the input: read from the provider's cache
    output: int | None = None
    written: int | None = None  # of the input: written to the cache
    reasoning: int | None = None  # of the output
    written_1h: int | None = None  # of those written: kept for an hour

    @property
    def priced(self) -> tuple[int, int, int, int, int]:
        """The arguments of ``Prices.cost``, with 0 for tokens that were not reported."""
        written, written_1h = self.written or 0, self.written_1h or 0
        return self.input or 0, self.cached or 0, self.output or 0, written, written_1h

    @property
    def whole(self) -> int:
        """Input tokens; no fewer than the cache has."""
        return max(self.input or 0, (self.cached or 0) + (self.written or 0))

    @property
    def uncached(self) -> int:
        """Input tokens that were neither read from the cache nor written to it, as Messages counts them."""
        return self.whole - (self.cached or 0) - (self.written or 0)


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer."""

    id: str
    model: str
    parts: tuple[Part, ...] = ()
    stop: StopReason = StopReason.END
    sequence: str = ""  # the stop sequence met
    usage: Usage | None = None
    created: int = 0  # seconds since the epoch; 0 where the format has none


class Start(msgspec.Struct, frozen=True, gc=False):
    """A stream begins."""

    id: str
    model: str
    usage: Usage | None = None
    created: int = 0  # seconds since the epoch; 0 where the format has none


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """More reasoning."""

    text: str


class SignatureDelta(msgspec.Struct, frozen=True, gc=False):
    """The signature, or the encrypted content, of the reasoning before it."""

    signature: str = ""
    encrypted: str = ""
    id: str = ""  # of the item, in Responses


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More words; ``refusal``: of a refusal."""

    text: str
    refusal: bool = False


class CallStart(msgspec.Struct, frozen=True, gc=False):
    """A call begins. ``index`` identifies the call among interleaved fragments; it is never reused."""

    index: int
    call: ToolCall  # without its arguments, which follow


class ArgumentsDelta(msgspec.Struct, frozen=True, gc=False):
    """More of a call's arguments."""

    index: int
    text: str


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """A call has ended."""

    index: int
    is_cut: bool = False  # by the output limit or a filter: none to run


class UsageReport(msgspec.Struct, frozen=True, gc=False):
    """The usage so far: each report replaces the one before."""

    usage: Usage


class Stop(msgspec.Struct, frozen=True, gc=False):
    """The answer ended by itself. A stream without this event was cut off."""

    reason: StopReason
    sequence: str = ""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The upstream reported an error inside the stream."""

    message: str
    kind: str = "api_error"
    status: int = 502


Event: TypeAlias = (
    Start
    | ThinkingDelta
    | SignatureDelta
    | TextDelta
    | CallStart
    | ArgumentsDelta
    | CallEnd
    | UsageReport
    | Stop
    | Failed
)


def collected(events: Iterable[Event]) -> Completion | None:
    """Return the words and calls of a streamed answer; None if it was cut off or has failed.

    Reasoning and usage are left out. An answer with words of a refusal has ended by it.
    """
    started, stop = Start("", ""), None
    words, refused = list[str](), list[str]()
    calls: dict[int, tuple[ToolCall, list[str]]] = {}
    cut: set[int] = set()
    for event in events:
        match event:
            case Start():
                started = event
            case Stop():
                stop = event
            case TextDelta():
                (refused if event.refusal else words).append(event.text)
            case CallStart():
                calls[event.index] = event.call, []
            case ArgumentsDelta() if event.index in calls:
                calls[event.index][1].append(event.text)
            case CallEnd(is_cut=True):
                cut.add(event.index)
            case Failed():
                return None
            case _:
                pass
    if stop is None:
        return None
    said = ((Text, words), (Refusal, refused))
    parts: list[Part] = [kind("".join(pieces)) for kind, pieces in said if pieces]
    parts += [
        msgspec.structs.replace(call, arguments="".join(pieces), is_cut=at in cut)
        for at, (call, pieces) in calls.items()
    ]
    reason = StopReason.REFUSAL if refused else stop.reason
    return Completion(
        id=started.id, model=started.model, parts=tuple(parts), stop=reason, sequence=stop.sequence
    )
