"""Chat completions, read into the form that every format shares and written from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, without_halves
from pointsman.vocabulary import ToolCall
from pointsman.wire import _openai as openai
from pointsman.wire import sse
from pointsman.wire._openai import NOTHING
from pointsman.wire.chat import read_usage
from pointsman.wire.chat._translation_answer import (
    Said,
    is_cut_by,
    is_whole,
    made_id,
    old_call,
    read_answer,
    stop_reason,
    words,
    writers_for,
)
from pointsman.wire.chat._translation_read_request import read_call, read_request
from pointsman.wire.chat._translation_write_request import write_request
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
    UsageReport,
)
from pointsman.wire.format import Codec

__all__ = ["ChatStreamReader"]


# A call of a stream of chat completions whose fragments are coming in.
#: What tells where an object ends; an escape may be cut in two between fragments.
_MARKS: Final = re.compile(r'\\.|\\\Z|["{}]', re.DOTALL)


class OpenCall:
    """A call; each fragment of its arguments is looked at once, however often it is asked for their end."""

    __slots__ = ("_carried", "_closed", "_depth", "_in_text", "_looked", "_whole", "custom", "ended",
                 "id", "index", "name", "pieces", "started")  # fmt: skip

    def __init__(self, index: int, id_: str) -> None:
        self.index = index  # ours: never used again
        self.id = id_
        self.name = ""
        self.custom = False
        self.pieces: list[str] = []
        self.started = self.ended = False
        self._looked = self._depth = 0  # pieces looked at; objects open behind them
        self._carried = ""  # first half of an escape
        self._in_text = self._closed = self._whole = False

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a whole object, so that nothing can follow; none at all are whole too."""
        if not self.pieces:
            return True
        if self._looked < len(self.pieces):
            self._look("".join(self.pieces[self._looked :]))
        return self._whole

    @property
    def is_certain(self) -> bool:
        """Whether it is whole beyond doubt: free text, and no arguments at all, may have been cut off."""
        return not self.custom and bool(self.pieces) and self.is_whole

    def _look(self, new: str) -> None:
        self._looked = len(self.pieces)
        if self._closed:
            self._whole = self._whole and not new.strip(" \t\r\n")
            return
        text, self._carried = self._carried + new, ""
        for found in _MARKS.finditer(text):
            mark = found[0]
            if mark == '"':
                self._in_text = not self._in_text
            elif mark == "\\":
                self._carried = mark
            elif not self._in_text and mark in "{}":
                self._depth += 1 if mark == "{" else -1
                if self._depth <= 0:
                    self._closed = True
                    self._whole = is_whole("".join(self.pieces))
                    return


_DONE: Final = b"[DONE]"
_FIRST: Final = b"data: "
_OBJECT: Final = b"data: {"
_END: Final = b"}\n\n"
_OLD_CALL: Final = -1  # index of the one call of the time before ``tool_calls``


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: Said | None = None
    finish_reason: str | None = None
    usage: msgspec.Raw = msgspec.Raw()  # Moonshot, beside the reason


class _Later(msgspec.Struct, gc=False):
    """A chunk behind the first one, as far as it is new."""

    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Chunk(_Later, gc=False):
    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    object: str | None = None
    message: Any = None  # beside "object": "error", as older vLLM reports one


class _Error(msgspec.Struct, gc=False):
    message: Any = None
    type: Any = None
    code: Any = None


_decode: Final = msgspec.json.Decoder(_Chunk).decode
_decode_later: Final = msgspec.json.Decoder(_Later).decode
_decode_error: Final = msgspec.json.Decoder(_Error | str).decode


class ChatStreamReader:
    """Reads one stream.

    The usage comes after the finish, so the ``Stop`` waits for it, for ``[DONE]``, or for the end of the
    connection, which an empty block reports: some servers send neither. Without a finish there is no
    ``Stop``, unless ``[DONE]`` comes behind calls that are all whole.
    """

    def __init__(self) -> None:
        self._id = ""
        self._is_started = self._is_over = self._is_refused = False
        self._finish: str | None = None
        self._calls: list[OpenCall] = []
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}  # the first of each id
        self._grown: dict[int, OpenCall] = {}  # by our index: got arguments since another began

    def feed(self, block: bytes) -> list[Event]:
        """Return the events of a block of whole chunks; an empty block: the connection ended well.

        Raises ``UNREADABLE`` for an event that is no chunk: its content is lost.
        """
        if self._is_started and self._finish is None and block.startswith(_OBJECT):
            chunk = _read_later(block)
            if chunk is not None and not self._is_over:
                text = _plain_text(chunk)
                return [TextDelta(text)] if text else list(self._spoken(chunk))
        found: list[Event] = []
        if not block:
            found += self._stop()
        for payload in _payloads(block):
            if self._is_over:
                break
            if payload.startswith(_DONE):
                found += self._done()
            elif payload:  # a comment has none
                found += self._chunk(_read_chunk(payload), payload)
        return found

    def _chunk(self, chunk: _Chunk, payload: bytes) -> Iterator[Event]:
        if bytes(chunk.error) not in NOTHING or chunk.object == "error":
            self._is_over = True
            yield _failed(chunk, payload)
            return
        said = any(not choice.index for choice in chunk.choices or ())
        if said or read_usage(chunk.usage) is not None:
            yield from self._start(chunk)
        yield from self._spoken(chunk)

    def _spoken(self, chunk: _Later) -> Iterator[Event]:
        for choice in chunk.choices or ():
            if not choice.index:  # other answers to the same request: no other format has them
                yield from self._choice(choice)
        usage = read_usage(chunk.usage)
        if usage is None:
            return
        yield UsageReport(usage)
        if self._finish is not None:
            yield from self._stop()

    def _start(self, chunk: _Chunk) -> Iterator[Event]:
        """Begin at the first choice, not before: Azure's first chunk has neither id nor model."""
        if not self._is_started:
            self._is_started, self._id = True, chunk.id or ""
            created = chunk.created if isinstance(chunk.created, int) else 0
            yield Start(self._id, chunk.model or "", created=created)

    def _choice(self, choice: _Choice) -> Iterator[Event]:
        if choice.delta is not None and self._finish is None:
            yield from self._delta(choice.delta)
        if choice.finish_reason and self._finish is None:
            yield from self._finished(choice.finish_reason)
            if usage := read_usage(choice.usage):
                yield UsageReport(usage)

    def _finished(self, why: str) -> Iterator[Event]:
        self._finish = why
        is_cut = is_cut_by(why)
        for call in self._calls:
            yield from self._end_call(call, is_cut=is_cut and not call.is_certain)

    def _delta(self, delta: Said) -> Iterator[Event]:
        thought, text, refusal = words(delta)
        if thought:
            yield ThinkingDelta(thought)
        if text:
            yield TextDelta(text)
        if refusal:
            self._is_refused = True
            yield TextDelta(refusal, refusal=True)
        for fragment in delta.tool_calls or ():
            yield from self._fragment(read_call(fragment), fragment.index)
        if delta.function_call is not None and (old := old_call(delta)):
            yield from self._fragment(read_call(old), _OLD_CALL)

    def _fragment(self, fragment: ToolCall, index: int | None) -> Iterator[Event]:
        call = self._call(fragment, index)
        if call is None:
            yield from self._end_whole()
            at = len(self._calls)
            call = OpenCall(at, fragment.id or made_id(self._id, at))
            self._calls.append(call)
            self._by_index[at if index is None else index] = call
            self._by_id.setdefault(call.id, call)
        call.custom = call.custom or fragment.custom
        yield from self._grow(call, fragment.name, fragment.arguments)

    def _call(self, fragment: ToolCall, index: int | None) -> OpenCall | None:
        """The open call that a fragment continues; None: it begins another one."""
        if index is None:  # some servers do not number calls: only an id or a name begins one
            same = self._by_id.get(fragment.id) if fragment.id else None
            begins = bool(fragment.id or fragment.name)
            return same or (None if begins or not self._calls else self._calls[-1])
        call = self._by_index.get(index)
        if call is None or (fragment.id and fragment.id != call.id):
            return None
        if fragment.name and not fragment.id and fragment.arguments.startswith("{") and call.is_whole:
            return None if call.pieces else call  # a server that numbers every call 0 and gives no ids
        return call

    def _grow(self, call: OpenCall, name: str, arguments: str) -> Iterator[Event]:
        if call.ended:
            return  # white space behind a whole object
        call.name = call.name or name
        if arguments:
            call.pieces.append(arguments)
            self._grown[call.index] = call
        if call.started:
            if arguments:
                yield ArgumentsDelta(call.index, arguments)
        elif call.name:
            yield from self._start_call(call)

    def _end_whole(self) -> Iterator[Event]:
        """End the calls that have become whole since another began: nothing can follow a whole object."""
        for call in self._grown.values():
            if call.is_whole:
                yield from self._end_call(call)
        self._grown.clear()

    def _start_call(self, call: OpenCall) -> Iterator[Event]:
        call.started = True
        yield CallStart(call.index, ToolCall(call.id, call.name, "", call.custom))
        if call.pieces:
            yield ArgumentsDelta(call.index, "".join(call.pieces))

    def _end_call(self, call: OpenCall, *, is_cut: bool = False) -> Iterator[Event]:
        if call.ended:
            return
        if not call.started:  # it never got a name
            yield from self._start_call(call)
        call.ended = True
        yield CallEnd(call.index, is_cut)

    def _done(self) -> Iterator[Event]:
        """The end by ``[DONE]``, which counts as a finish only if whole calls show that none is missing.

        Proxies write it behind streams that were cut off, so a text without a finish may be half of one.
        """
        if self._finish is None and self._calls and all(call.is_certain for call in self._calls):
            yield from self._finished("stop")
        yield from self._stop()

    def _stop(self) -> Iterator[Event]:
        """The stop, where the answer had a finish; without one it was cut off."""
        if not self._is_over and self._finish is not None:
            certain = [call.is_certain for call in self._calls]
            yield Stop(stop_reason(self._finish, certain, refused=self._is_refused))
        self._is_over = True


def _plain_text(chunk: _Later) -> str:
    """The text of a chunk that holds nothing else, as nearly every one does: the short way."""
    choices = chunk.choices
    if not choices or len(choices) != 1 or bytes(chunk.usage) not in NOTHING:
        return ""
    choice = choices[0]
    delta = choice.delta
    if delta is None or type(delta.content) is not str or choice.finish_reason or choice.index:
        return ""
    if delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.refusal:
        return ""
    return "" if delta.function_call else delta.content


def _payloads(block: bytes) -> Iterable[bytes]:
    if block.startswith(_FIRST) and block.find(b"\n") == len(block) - 2 and block.endswith(b"\n"):
        return (block[len(_FIRST) : -2],)  # one event of one line, as nearly every block of a stream is
    return [sse.data(event).strip() for event in sse.events(block)]


def _read_later(block: bytes) -> _Later | None:
    """Read a block of one event of one line, as nearly every one is; None for others and for an error."""
    if not block.endswith(_END) or block.find(b"\n") != len(block) - 2:
        return None
    try:
        chunk = _decode_later(block[len(_FIRST) : -2])
    except UNREADABLE:
        return None
    return chunk if chunk.choices and bytes(chunk.error) in NOTHING else None


def _read_chunk(payload: bytes) -> _Chunk:
    try:
        return _decode(payload)
    except UNREADABLE:  # half of an emoji in it, or no chunk at all
        return _decode(without_halves(payload))


def _failed(chunk: _Chunk, payload: bytes) -> Failed:
    raw = bytes(chunk.error)
    error = _decode_error(payload if raw in NOTHING else raw)
    if isinstance(error, str):
        return Failed(error)
    message = error.message if isinstance(error.message, str) else ""
    kind = error.type if isinstance(error.type, str) and error.type else "api_error"
    code = error.code if isinstance(error.code, int) and 400 <= error.code < 600 else 502
    status = openai.status_of(sse.event(payload)) or code
    return Failed(message or "the upstream reported an error without words", kind, status)


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    stream_reader=ChatStreamReader,
    for_request=writers_for,
)
