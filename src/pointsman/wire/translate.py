"""From one wire format to another: requests, answers and streams, through the form of ``conversation``.

Equal formats never come here: their bytes are relayed unchanged. Source: docs/decisions/0120.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decoded, decoded_or, why_unreadable
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import LARGE, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire._restored import RestoringStream, restored
from pointsman.wire.body import MAX_VALUES
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Failed,
    Part,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.format import AnswerWriters, Fault, StreamReader, StreamWriter
from pointsman.wire.names import count_values
from pointsman.wire.reasoning import (
    MAX_PARTS,
    Recall,
    SignedTurn,
    TurnCollector,
    said_before,
    signed_turn,
    with_reasoning,
)
from pointsman.wire.sse import masked_text
from pointsman.wire.tools import Offered, renamed_tools

__all__ = [
    "StreamTranslation",
    "Translated",
    "TranslatedAnswer",
    "translate_answer",
    "translate_error",
    "translate_request",
    "translated_formats",
    "upstream_format",
]


# Stop sequences that an upstream cannot be given: the gateway cuts the answer where one begins.
class _Scanner:
    """Looks for the sequences in a text that comes in pieces."""

    __slots__ = ("_held", "_longest", "_sequences", "found")

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._sequences = sequences
        self._longest = max(map(len, sequences))
        self._held = ""  # may be the beginning of a sequence
        self.found = ""  # the sequence, once it was met

    def feed(self, piece: str) -> str:
        """Return what may be passed on: nothing behind a sequence, and no beginning of one."""
        text = self._held + piece
        hits = [(at, -len(each), each) for each in self._sequences if (at := text.find(each)) >= 0]
        if hits:
            at, _, self.found = min(hits)
            self._held = ""
            return text[:at]
        kept = self._beginning(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def _beginning(self, text: str) -> int:
        """Characters at the end of a text with which a sequence begins."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[-size:]
            if any(each.startswith(end) for each in self._sequences):
                return size
        return 0

    def flush(self) -> str:
        """Return the text held back: no more follows."""
        held, self._held = self._held, ""
        return held


def cut(answer: Completion, sequences: tuple[str, ...]) -> Completion:
    """Return a whole answer as far as the first of the sequences."""
    scanner, kept = _Scanner(sequences), list[Part]()
    for part in answer.parts:
        if not isinstance(part, Text):
            kept.append(part)
            continue
        text = scanner.feed(part.text) + scanner.flush()
        if text:
            kept.append(replace(part, text=text))
        if scanner.found:
            return replace(answer, parts=tuple(kept), stop=StopReason.SEQUENCE, sequence=scanner.found)
    return answer


class CutStream:
    """Passes on the events of one stream as far as the first of the stop sequences."""

    __slots__ = ("_calls", "_scanner")

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._scanner: Final = _Scanner(sequences)
        self._calls: set[int] = set()  # begun before a sequence was met

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events for the caller."""
        return [told for event in events for told in self._event(event)]

    def _event(self, event: Event) -> Iterator[Event]:
        scanner = self._scanner
        if scanner.found:
            yield from self._behind(event)
        elif isinstance(event, TextDelta) and not event.refusal:
            if text := scanner.feed(event.text):
                yield TextDelta(text)
        else:
            if not isinstance(event, UsageReport | Failed) and (held := scanner.flush()):
                yield TextDelta(held)
            if isinstance(event, CallStart):
                self._calls.add(event.index)
            yield event

    def _behind(self, event: Event) -> Iterator[Event]:
        """What still counts behind a sequence: calls begun before it, usage, errors and the stop."""
        if isinstance(event, Stop):
            yield Stop(StopReason.SEQUENCE, self._scanner.found)
        elif isinstance(event, UsageReport | Failed) or (
            isinstance(event, ArgumentsDelta | CallEnd) and event.index in self._calls
        ):
            yield event


def translated_formats(spoken: Iterable[WireFormat]) -> frozenset[WireFormat]:
    """Return the formats with requests that can be translated for an upstream that speaks some formats."""
    native = frozenset(spoken)
    return frozenset(FORMATS) - native if native & FORMATS.keys() else frozenset()


def upstream_format(caller: WireFormat, spoken: frozenset[WireFormat]) -> WireFormat:
    """Return the format in which a request goes to an upstream: the caller's if the upstream speaks it."""
    return caller if caller in spoken else next(wire for wire in FORMATS if wire in spoken)


class Translated(NamedTuple):
    """A request in another format, and what its answer needs to go back."""

    body: bytes
    caller: WireFormat
    upstream: WireFormat
    model: str  # id at the upstream
    changed: tuple[str, ...]  # ids of constructs
    writing: AnswerWriters
    tools: Mapping[str, Offered]  # the caller's tools that the upstream knows by another name or kind
    created: int  # seconds since the epoch, for an answer whose format does not say when it was made
    messages: int  # of the conversation; 0 before its first answer
    unique: str = ""  # part of the answer's id where a caller may go on from it: no two answers share it
    stops: tuple[str, ...] = ()  # sequences at which the answer is cut, as the upstream does not know them
    said: bytes = b""  # digest of what was said so far; empty where nothing will be signed

    def own_id(self, answer: str) -> str:
        """Return the id of an answer as the caller sees it: no two of a conversation are the same.

        Some servers number their answers, or give each the same id. Claude Code and the Vercel AI SDK take
        two answers, or two items, with one id for one.
        """
        if self.unique:
            return f"{answer}_{self.unique}"
        return f"{answer}_{self.messages}" if answer and self.messages else answer

    def __str__(self) -> str:
        """Return the formats and the changes, as ``chat->messages; changed=seed``."""
        ways = f"{self.caller}->{self.upstream}"
        return f"{ways}; changed={','.join(self.changed)}" if self.changed else ways


def translate_request(
    caller: WireFormat,
    upstream: WireFormat,
    body: bytes,
    recall: Recall | None = None,
    created: int = 0,
    budget: int | None = None,
    strict: str = "",
) -> Translated:
    """Translate a request from the caller's format into the upstream's.

    Args:
        caller: The format of the body.
        upstream: The format it is translated into.
        body: The request.
        recall: Returns the reasoning that the upstream wrote in a turn; None if it has written none.
        created: When its answer is made, in seconds since the epoch, for formats that do not say it.
        budget: A thinking budget in tokens that the caller's format has no member for.
        strict: Name of an upstream that is sent no request with an unknown member; else such are left out.

    Raises:
        MalformedRequest: it is not of the caller's format.
        Untranslatable: the upstream's format cannot express something of it.
    """
    own = FORMATS[caller].codec
    conversation = own.read_request(body)
    if recall is not None:
        conversation = with_reasoning(conversation, recall)
    if budget is not None and conversation.thinking_budget is None:
        conversation = msgspec.structs.replace(conversation, thinking_budget=budget)
    # Nobody signs in the format chat.
    thinks = upstream is not WireFormat.CHAT and bool(conversation.effort or conversation.thinking_budget)
    report = Report(caller, upstream, strict=strict)
    if conversation.compacts:
        report.meet("compaction_trigger")
    try:
        written = FORMATS[upstream].codec.write_request(conversation, report)
    except UNREADABLE as error:  # of a tool or a setting that the caller's format does not look into
        raise MalformedRequest(f"the request body cannot be read: {why_unreadable(error)}") from error
    return Translated(
        written,
        caller,
        upstream,
        conversation.model,
        tuple(report.changed),
        own.for_request(conversation),
        renamed_tools(conversation.tools),
        created,
        len(conversation.messages) if len(conversation.messages) > 1 else 0,
        stops=report.stops,
        said=said_before(conversation.messages) if thinks else b"",
    )


class TranslatedAnswer(NamedTuple):
    """A whole answer in the caller's format."""

    body: bytes
    turn: SignedTurn  # with its reasoning, as only the upstream can check it
    usage: Usage


def translate_answer(request: Translated, body: bytes) -> TranslatedAnswer:
    """Translate a whole answer back into the caller's format.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it is no answer of the upstream's format, or of
            more parts than any.
    """
    if len(body) > LARGE:
        _check_values(body)
    answer = FORMATS[request.upstream].codec.read_answer(body)
    if len(answer.parts) > MAX_PARTS:
        raise msgspec.ValidationError(f"more than {MAX_PARTS} texts, calls and thoughts")
    if request.stops:
        answer = cut(answer, request.stops)
    told = replace(answer, id=request.own_id(answer.id), created=answer.created or request.created)
    if request.tools:
        told = restored(told, request.tools)
    turn = signed_turn(answer.parts, request.said)
    return TranslatedAnswer(request.writing.write_answer(told), turn, answer.usage or Usage())


def _check_values(json: bytes) -> None:
    """Refuse JSON of more values than a request may have: a decoder would make each of them an object."""
    if count_values(json, MAX_VALUES) > MAX_VALUES:
        raise msgspec.ValidationError(f"more than {MAX_VALUES} values")


class _Error(msgspec.Struct, gc=False):
    message: str | None = None
    code: str | int | None = None
    param: str | None = None


class _Refusal(msgspec.Struct, gc=False):
    error: _Error | str | None = None
    message: str | None = None  # vLLM, Mistral, proxies
    detail: str | None = None  # FastAPI


_decode_refusal: Final = msgspec.json.Decoder(_Refusal | list[_Refusal]).decode


def translate_error(caller: WireFormat, status: int, body: bytes) -> bytes:
    """Write an upstream's error in the caller's format; empty when it names no error.

    Its type follows from the status, as it does with every provider.
    """
    found = decoded_or(_Refusal(), decoded, _decode_refusal, body)
    if isinstance(found, list):  # Gemini
        found = found[0] if found else _Refusal()
    error = found.error
    if not isinstance(error, _Error):
        error = _Error(error or found.message or found.detail)
    if not error.message:
        return b""
    code = error.code if isinstance(error.code, str) else ""
    return FORMATS[caller].error(Fault(status, error.message, code, error.param))


class StreamTranslation:
    """Translates one stream back into the caller's format, block by block."""

    __slots__ = (
        "_collector",
        "_cutting",
        "_reader",
        "_request",
        "_restoring",
        "_secrets",
        "_started",
        "_writer",
        "has_failed",
        "is_whole",
    )

    def __init__(self, request: Translated, secrets: Sequence[bytes] = ()) -> None:
        """``secrets`` are taken out of an error's words."""
        self._secrets = secrets
        self._reader: StreamReader = FORMATS[request.upstream].codec.stream_reader()
        self._writer: StreamWriter = request.writing.stream_writer(request.model)
        self._collector = TurnCollector(request.upstream, request.said)
        self._cutting = CutStream(request.stops) if request.stops else None
        self._restoring = RestoringStream(request.tools) if request.tools else None
        self._request = request
        self._started = False
        self.is_whole = False  # the closing marks have been written
        self.has_failed = False  # the upstream reported an error

    def feed(self, block: bytes) -> bytes:
        """Return the translation of a block of whole events; may be empty.

        An empty block means that the upstream ended the stream well: events held for late ones are then
        returned.

        Raises:
            msgspec.MsgspecError, UnicodeError, RecursionError: an event cannot be read, or has more
                values than a request may have.
        """
        if block[LARGE:]:  # as the length says, without a call for each event
            _check_values(block)
        return self._write(self._reader.feed(block))

    def turn(self) -> SignedTurn | None:
        """Return the turn, with its reasoning as only the upstream can check it; None until it is whole."""
        return self._collector.turn() if self.is_whole else None

    def _write(self, events: list[Event]) -> bytes:
        if not events:
            return b""
        first = events[0]
        if not self._started and isinstance(first, Start):  # nothing comes before it
            own = self._request.own_id(first.id)
            events[0] = replace(first, id=own, created=first.created or self._request.created)
            self._started = True
        if self._cutting:
            events = self._cutting.events(events)
        if self._restoring:
            events = self._restoring.events(events)
        collect = self._collector.add
        for event in events:
            collect(event)
            kind = type(event)
            if kind is Stop:
                self.is_whole = True
            elif kind is Failed:
                self.has_failed = True
        if self.has_failed:
            events = [self._masked(event) for event in events]
        return self._writer.write(events)

    def _masked(self, event: Event) -> Event:
        if not isinstance(event, Failed):
            return event
        return replace(event, message=masked_text(event.message, self._secrets))
