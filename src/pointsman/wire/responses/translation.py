"""The codec of Responses: see ``pointsman.wire.translate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pointsman.decoding import decode_typed, decoded
from pointsman.vocabulary import ToolCall
from pointsman.wire import sse
from pointsman.wire._openai import error_type, status_named
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Conversation,
    Event,
    Failed,
    Refusal,
    SignatureDelta,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    UsageReport,
)
from pointsman.wire.format import AnswerWriters, Codec
from pointsman.wire.responses import compaction_item, read_usage
from pointsman.wire.responses._translation_answer import (
    NOTHING_ASKED,
    Error,
    Response,
    bare_id,
    parts_of,
    read_answer,
    repeated,
    snapshot,
    stop_of,
    write_answer,
    write_usage,
)
from pointsman.wire.responses._translation_request import read_request
from pointsman.wire.responses._translation_stream_writer import StreamWriter
from pointsman.wire.responses._translation_write import write_request

__all__ = ["CODEC", "CompactionWriter", "write_compaction"]


def write_compaction(completion: Completion, asked: Mapping[str, Any] = NOTHING_ASKED) -> bytes:
    """Return a whole answer that is one compaction."""
    bare = bare_id(completion.id)
    summary = "".join(part.text for part in completion.parts if isinstance(part, Text))
    return msgspec.json.encode(
        snapshot(
            id=f"resp_{bare}",
            model=completion.model,
            created=completion.created,
            status="completed",
            output=[compaction_item(f"{bare}_0", summary)],
            usage=write_usage(completion.usage),
            asked=asked,
        )
    )


class CompactionWriter(StreamWriter):
    """Writes one stream with the compaction as the only item, at its end."""

    def __init__(self, model: str, asked: Mapping[str, Any] = NOTHING_ASKED) -> None:
        super().__init__(model, asked)
        self._summary: list[str] = []

    def _text(self, event: TextDelta) -> Iterator[bytes]:
        self._summary.append(event.text)
        return iter(())

    def _other(self, event: Event) -> Iterator[bytes]:
        if isinstance(event, Stop):
            yield from self._compacted()
        if isinstance(event, Stop | UsageReport):
            yield from super()._other(event)

    def _compacted(self) -> Iterator[bytes]:
        item = compaction_item(self._suffix(), "".join(self._summary))
        self._output.append(item)
        for kind in ("added", "done"):
            yield self._event(f"response.output_item.{kind}", output_index=0, item=item)


# A stream of the Responses format, read as events.
_TEXTS: Final = {
    "response.output_text.delta": "text",
    "response.output_text.done": "text",
    "response.refusal.delta": "refusal",
    "response.refusal.done": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_summary_text.done": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_text.done": "reasoning",
}
_ARGUMENTS: Final = {
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
}
_ITEMS: Final = {"response.output_item.added", "response.output_item.done"}
_RESPONSES: Final = {
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.completed",
    "response.incomplete",
    "response.failed",
}
_KNOWN: Final = _TEXTS.keys() | _ARGUMENTS | _ITEMS | _RESPONSES | {"error"}


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int = 0
    summary_index: int = 0
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: msgspec.Raw = msgspec.Raw()
    response: Response | None = None
    message: str | None = None
    code: str | int | None = None
    error: Error | str | None = None


_decode: Final = msgspec.json.Decoder(_Event).decode

_Key = int | str


class _Item:
    """The deltas of one item so far."""

    __slots__ = ("call", "ended", "has_summary", "said", "seen")

    def __init__(self) -> None:
        self.call: int | None = None  # index of the call
        self.seen: dict[tuple[str, int], int] = {}  # characters of each part that were passed on
        self.said: list[str] = []  # arguments passed on
        self.ended = self.has_summary = False


class StreamReader:
    """Reads one stream; what only a ``done`` event or the final snapshot holds is read from there."""

    def __init__(self) -> None:
        self._started = False
        self._over = False
        self._calls: set[str] = set()  # ids
        self._count = 0  # of calls
        self._has_said = False  # some text, or a refusal
        self._items: dict[_Key, _Item] = {}

    def feed(self, block: bytes) -> list[Event]:
        """Return the events of a block of whole server-sent events. Raises ``UNREADABLE``."""
        found: list[Event] = []
        for single in sse.events(block):
            payload = sse.data(single).strip()
            if payload and payload != b"[DONE]" and not self._over:
                event = _read(payload)
                if event is not None:
                    found.extend(self._events(event))
        return found

    def _events(self, event: _Event) -> Iterator[Event]:
        if part := _TEXTS.get(event.type):
            yield from self._text(event, part)
        elif event.type in _ARGUMENTS:
            yield from self._arguments(event)
        elif event.type in _ITEMS:
            if bytes(event.item):
                ended = event.type == "response.output_item.done"
                item = self._at(event) if ended else self._new(event)
                yield from self._item(item, event.item, ended=ended)
        elif event.type == "error":
            self._over = True
            yield _failed(event.error if event.error is not None else Error(event.message, event.code))
        elif event.response is not None:
            yield from self._response(event.type, event.response)

    def _at(self, event: _Event) -> _Item:
        """By position rather than by id: there are servers that write another id into every event."""
        return self._items.setdefault(_key(event), _Item())

    def _new(self, event: _Event) -> _Item:
        """Another item at its position, whatever was there: there are servers to which all is at 0."""
        item = self._items[_key(event)] = _Item()
        return item

    def _text(self, event: _Event, part: str) -> Iterator[Event]:
        item = self._at(event)
        at = (part, event.summary_index if part == "summary" else event.content_index)
        if event.delta is not None:
            new = event.delta
            item.seen[at] = item.seen.get(at, 0) + len(new)
        else:
            whole = event.text or event.refusal or ""
            new = whole[item.seen.get(at, 0) :]
            item.seen[at] = max(len(whole), item.seen.get(at, 0))
        item.has_summary = item.has_summary or part == "summary"
        if part == "reasoning" and item.has_summary:
            return  # its summary has been passed on
        if new:
            self._has_said = self._has_said or part in {"text", "refusal"}
            first = at[1] > 0 and item.seen[at] == len(new) and part in {"summary", "reasoning"}
            yield _said(part, f"\n\n{new}" if first else new)

    def _arguments(self, event: _Event) -> Iterator[Event]:
        item = self._at(event)
        if item.call is None:  # its item was never announced
            return
        if event.delta is not None:
            if event.delta:
                item.said.append(event.delta)
                yield ArgumentsDelta(item.call, event.delta)
        else:
            yield from _rest(item, event.arguments or event.input or "")

    def _item(self, item: _Item, raw: msgspec.Raw, *, ended: bool) -> Iterator[Event]:
        for part in parts_of(raw) if not item.ended else ():
            if isinstance(part, ToolCall):
                if item.call is None:
                    item.call = self._count
                    self._count += 1
                    self._calls.add(part.id)
                    begun = ToolCall(part.id, part.name, "", part.custom, part.namespace)
                    yield CallStart(item.call, begun)
                if ended:
                    yield from _rest(item, part.arguments)
                    yield CallEnd(item.call, part.is_cut)
            elif ended:
                yield from _unsaid(item, part)
        item.ended = item.ended or ended

    def _response(self, kind: str, response: Response) -> Iterator[Event]:
        if kind == "response.failed":
            self._over = True
            error = response.error
            yield _failed(error or Error())
            return
        if not self._started:
            self._started = True
            yield Start(response.id, response.model, created=response.created)
        if kind not in {"response.completed", "response.incomplete"}:
            return
        for at, raw in enumerate(response.output or ()):
            item = self._items.get(at)
            if item is not None or self._is_new(raw):
                yield from self._item(item or _Item(), raw, ended=True)
        yield from self._end(response, kind)

    def _is_new(self, raw: msgspec.Raw) -> bool:
        """Whether an item of the final snapshot at a position without events was not streamed elsewhere."""
        for part in parts_of(raw):
            if isinstance(part, ToolCall):
                return part.id not in self._calls
            if isinstance(part, Text | Refusal):
                return not self._has_said
        return not self._items

    def _end(self, response: Response, kind: str) -> Iterator[Event]:
        self._over = True
        for item in self._items.values():
            if item.call is not None and not item.ended:
                yield CallEnd(item.call, is_cut=kind == "response.incomplete")
        usage = read_usage(response.usage)
        if usage is not None:
            yield UsageReport(usage)
        response.status = kind.removeprefix("response.")
        stop = stop_of(response)
        yield Stop(StopReason.TOOLS if self._calls and stop is StopReason.END else stop)


def _read(payload: bytes) -> _Event | None:
    """Read one event; None for a kind that is not known, whatever it holds."""
    try:
        return decoded(_decode, payload)
    except msgspec.ValidationError:
        if decode_typed(payload).type in _KNOWN:
            raise
        return None


def _key(event: _Event) -> _Key:
    return event.item_id or "" if event.output_index is None else event.output_index


def _said(part: str, text: str) -> Event:
    if part in {"summary", "reasoning"}:
        return ThinkingDelta(text)
    return TextDelta(text, refusal=part == "refusal")


def _rest(item: _Item, whole: str) -> Iterator[Event]:
    """The arguments that came in no fragment."""
    said = "".join(item.said)
    if item.call is not None and len(whole) > len(said) and whole.startswith(said):
        yield ArgumentsDelta(item.call, whole[len(said) :])
        item.said = [whole]


def _unsaid(item: _Item, part: object) -> Iterator[Event]:
    """The part of a whole item beyond the deltas before it."""
    kinds = {kind for kind, _ in item.seen}
    match part:
        case Text() if "text" not in kinds and part.text:
            yield TextDelta(part.text)
        case Refusal() if "refusal" not in kinds and part.text:
            yield TextDelta(part.text, refusal=True)
        case Thinking():
            if part.text and not kinds:
                yield ThinkingDelta(part.text)
            if part.encrypted:
                yield SignatureDelta(encrypted=part.encrypted, id=part.id)


def _failed(error: Error | str) -> Failed:
    if isinstance(error, str):
        return Failed(error)
    status = status_named(error.code, error.type)
    kind = error_type(status) if status < 500 else "api_error"
    return Failed(error.message or "the upstream reported an error", kind, status)


def _for_request(request: Conversation) -> AnswerWriters:
    asked = repeated(request)
    if request.compacts:
        return AnswerWriters(partial(write_compaction, asked=asked), partial(CompactionWriter, asked=asked))
    return AnswerWriters(partial(write_answer, asked=asked), partial(StreamWriter, asked=asked))


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    stream_reader=StreamReader,
    for_request=_for_request,
)
