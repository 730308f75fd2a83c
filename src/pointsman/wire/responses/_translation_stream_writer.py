"""Events as a stream of the Responses format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.json import encode as _encode
from msgspec.structs import replace

from pointsman.vocabulary import ToolCall
from pointsman.wire import sse
from pointsman.wire._openai import error_object
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Failed,
    Start,
    Stop,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.format import Fault
from pointsman.wire.responses._translation_answer import (
    NOTHING_ASKED,
    bare_id,
    call_item,
    message_item,
    reasoning_item,
    refusal_part,
    snapshot,
    status_of,
    summary_part,
    write_part,
    write_usage,
)


class _Kind(NamedTuple):
    """Events of one kind of part, and their content."""

    part: Callable[[str], dict[str, Any]]
    place: str  # name of its position
    member: str  # that holds its whole text in the end
    beside: Mapping[str, Any]  # members beside a text
    delta: str
    done: str
    part_added: str
    part_done: str


_TEXT: Final = _Kind(
    part=write_part,
    place="content_index",
    member="text",
    beside={"logprobs": []},
    delta="response.output_text.delta",
    done="response.output_text.done",
    part_added="response.content_part.added",
    part_done="response.content_part.done",
)
_REFUSAL: Final = _TEXT._replace(
    part=refusal_part,
    member="refusal",
    beside={},
    delta="response.refusal.delta",
    done="response.refusal.done",
)
_SUMMARY: Final = _Kind(
    part=summary_part,
    place="summary_index",
    member="text",
    beside={},
    delta="response.reasoning_summary_text.delta",
    done="response.reasoning_summary_text.done",
    part_added="response.reasoning_summary_part.added",
    part_done="response.reasoning_summary_part.done",
)


# Items of a streamed Responses answer while they are being written.
class OpenItem:
    """An item that is being written."""

    def __init__(self, index: int, item: dict[str, Any]) -> None:
        self.index = index
        self.item = item
        self.kind: _Kind | None = None  # of the open part
        self.pieces: list[str] = []  # of the open part, or of a call's arguments
        self.content: list[dict[str, Any]] = []  # the parts that are whole
        self.place = {"item_id": item["id"], "output_index": index}


class OpenCall(OpenItem):
    """A call that is being written."""

    def __init__(self, index: int, suffix: str, call: ToolCall) -> None:
        super().__init__(index, call_item(suffix, call, "in_progress"))
        self.suffix = suffix
        self.call = call


_CODES: Final = {400: "invalid_prompt", 429: "rate_limit_exceeded"}


class StreamWriter:
    """Writes one stream. Text and reasoning come one item after the other, calls may overlap."""

    def __init__(self, model: str, asked: Mapping[str, Any] = NOTHING_ASKED) -> None:
        self._model = model
        self._asked = asked
        self._number = 0
        self._bare = ""
        self._created = 0
        self._started = False
        self._over = False
        self._usage: Usage | None = None
        self._output: list[dict[str, Any]] = []  # by output index
        self._open: OpenItem | None = None  # a message or reasoning
        self._calls: dict[int, OpenCall] = {}

    def write(self, events: Iterable[Event]) -> bytes:
        """Return the server-sent events for these; a ``Stop`` writes the final snapshot."""
        blocks: list[bytes] = []
        for event in events:
            opened = self._open
            kind = opened.kind if opened else None
            if opened and kind and isinstance(event, TextDelta) and event.text and kind is _of(event):
                blocks.append(self._more(opened, kind, event.text))  # as almost every event does
            else:
                blocks.extend(self._write(event))
        return b"".join(blocks)

    def _write(self, event: Event) -> Iterator[bytes]:
        if self._over:
            return
        if isinstance(event, Failed):
            yield from self._failed(event)
            return
        if not self._started:
            yield from self._start(event)
        if isinstance(event, TextDelta):
            yield from self._text(event)
        else:
            yield from self._other(event)

    def _other(self, event: Event) -> Iterator[bytes]:
        match event:
            case ArgumentsDelta():
                yield from self._arguments(event)
            case ThinkingDelta():
                yield from self._said(_SUMMARY, event.text)
            case CallStart():
                yield from self._begin(event)
            case CallEnd():
                yield from self._end_call(event.index, "incomplete" if event.is_cut else "completed")
            case UsageReport():
                self._usage = event.usage
            case Stop():
                yield from self._stop(event)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number = self._number
        self._number += 1
        return sse.event(_encode({"type": kind, "sequence_number": number, **fields}), kind)

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return snapshot(
            id=f"resp_{self._bare}",
            model=self._model,
            created=self._created,
            status=status,
            output=self._output,
            asked=self._asked,
            **fields,
        )

    def _start(self, event: Event) -> Iterator[bytes]:
        self._started = True
        if isinstance(event, Start):
            self._bare, self._created, self._usage = bare_id(event.id), event.created, event.usage
            self._model = self._model or event.model
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress", usage=None))

    # Items.

    def _suffix(self) -> str:
        return f"{self._bare}_{len(self._output)}"

    def _added(self, opened: OpenItem) -> bytes:
        self._output.append(opened.item)
        return self._event("response.output_item.added", output_index=opened.index, item=opened.item)

    def _done(self, opened: OpenItem, item: dict[str, Any]) -> bytes:
        self._output[opened.index] = item
        return self._event("response.output_item.done", output_index=opened.index, item=item)

    def _switch(self, kind: str) -> Iterator[bytes]:
        """Close the open item unless it is of this kind, and open one."""
        if self._open is not None and self._open.item["type"] == kind:
            return
        yield from self._close()
        suffix = self._suffix()
        item = message_item(f"msg_{suffix}", [], "in_progress")
        if kind == "reasoning":
            item = reasoning_item(suffix, "")
        self._open = OpenItem(len(self._output), item)
        yield self._added(self._open)

    def _close(self) -> Iterator[bytes]:
        opened, self._open = self._open, None
        if opened is None:
            return
        yield from self._close_part(opened)
        if opened.item["type"] == "reasoning":
            yield self._done(opened, {**opened.item, "summary": opened.content})
        else:
            yield self._done(opened, {**opened.item, "content": opened.content, "status": "completed"})

    # Text and reasoning.

    def _text(self, event: TextDelta) -> Iterator[bytes]:
        return self._said(_of(event), event.text)

    def _said(self, kind: _Kind, text: str) -> Iterator[bytes]:
        if not text:
            return
        yield from self._switch("reasoning" if kind is _SUMMARY else "message")
        opened = self._open
        assert opened is not None  # noqa: S101 - _switch has opened it
        if opened.kind is not kind:
            yield from self._close_part(opened)
            opened.kind = kind
            yield self._event(kind.part_added, **opened.place, **_at(opened, kind), part=kind.part(""))
        yield self._more(opened, kind, text)

    def _more(self, opened: OpenItem, kind: _Kind, text: str) -> bytes:
        opened.pieces.append(text)
        return self._event(kind.delta, **opened.place, **_at(opened, kind), delta=text, **kind.beside)

    def _close_part(self, opened: OpenItem) -> Iterator[bytes]:
        kind, text = opened.kind, "".join(opened.pieces)
        if kind is None:
            return
        opened.kind = None
        opened.pieces.clear()
        part, place = kind.part(text), {**opened.place, **_at(opened, kind)}
        yield self._event(kind.done, **place, **{kind.member: text}, **kind.beside)
        yield self._event(kind.part_done, **place, part=part)
        opened.content.append(part)

    # Calls.

    def _begin(self, event: CallStart) -> Iterator[bytes]:
        yield from self._close()
        opened = OpenCall(len(self._output), self._suffix(), event.call)
        self._calls[event.index] = opened
        yield self._added(opened)

    def _arguments(self, event: ArgumentsDelta) -> Iterator[bytes]:
        opened = self._calls.get(event.index)
        if opened is None or not event.text:
            return
        opened.pieces.append(event.text)
        if not opened.call.built_in:  # whose calls come whole
            yield self._fragment(opened, event.text)

    def _fragment(self, opened: OpenCall, text: str) -> bytes:
        kind = "custom_tool_call_input" if opened.call.custom else "function_call_arguments"
        return self._event(f"response.{kind}.delta", **opened.place, delta=text)

    def _end_call(self, index: int, status: str = "completed") -> Iterator[bytes]:
        opened = self._calls.pop(index, None)
        if opened is None:
            return
        call = replace(opened.call, arguments="".join(opened.pieces))
        if not call.built_in:
            if not (call.arguments or call.custom) and status == "completed":
                call = replace(call, arguments="{}")
                yield self._fragment(opened, "{}")
            yield self._arguments_done(opened, call)
        yield self._done(opened, call_item(opened.suffix, call, status))

    def _arguments_done(self, opened: OpenCall, call: ToolCall) -> bytes:
        if call.custom:
            return self._event("response.custom_tool_call_input.done", **opened.place, input=call.arguments)
        named = {"name": call.name, "arguments": call.arguments}
        return self._event("response.function_call_arguments.done", **opened.place, **named)

    # The end.

    def _stop(self, event: Stop) -> Iterator[bytes]:
        yield from self._close()
        status, incomplete = status_of(event.reason)
        for index in list(self._calls):
            yield from self._end_call(index, status)
        self._over = True
        response = self._response(status, usage=write_usage(self._usage), incomplete=incomplete)
        yield self._event(f"response.{status}", response=response)

    def _failed(self, event: Failed) -> Iterator[bytes]:
        """The two events that OpenAI sends: SDKs raise for the first, Codex looks for the second."""
        self._over, self._open = True, None
        error = error_object(Fault(event.status, event.message))
        flat = {name: error[name] for name in ("code", "message", "param")}
        yield self._event("error", **flat, error=error)
        failure = {"code": _CODES.get(event.status, "server_error"), "message": event.message}
        yield self._event("response.failed", response=self._response("failed", usage=None, error=failure))


def _of(event: TextDelta) -> _Kind:
    return _REFUSAL if event.refusal else _TEXT


def _at(opened: OpenItem, kind: _Kind) -> dict[str, int]:
    """Index of the open part in its item."""
    return {kind.place: len(opened.content)}
