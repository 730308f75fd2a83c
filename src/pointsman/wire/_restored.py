"""Calls of an answer, put back as the caller knows its tools.

Other formats have neither custom tools nor namespaces nor the tools built into Responses, and take shorter
names: a custom tool goes to them as a function with one string parameter ``input``, a namespace becomes a
part of the name. A call that comes back is the caller's own again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decode_text, decoded_or
from pointsman.vocabulary import ToolCall
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Stop,
)
from pointsman.wire.format import decode_object
from pointsman.wire.tools import Offered

# The input of a custom tool, from fragments of the arguments of the function that stands for it.
_HEAD: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
#: Characters and whole escapes of a JSON string; a first half of a pair waits for the second.
_WHOLE: Final = re.compile(
    r'(?:[^"\\]|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB]..\\u[0-9a-fA-F]{4}))*'
)
#: Most characters of the head, and of an escape: where more are pending, neither comes any more.
_LONGEST_HEAD: Final = 64
_LONGEST_ESCAPE: Final = 12
_STRING: Final = re.compile(r'"(?:[^"\\]|\\[^\x00-\x1f])*+"')
#: Control characters, which JSON wants escaped: weak models write line breaks as they are.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in range(0x20)}


def unwrapped(arguments: str) -> str:
    """Return the input of a custom tool from a function's arguments: these as they are if malformed."""
    found = decoded_or({}, _object, arguments)
    text = found.get("input") if len(found) != 1 else next(iter(found.values()))
    return text if isinstance(text, str) else arguments


def _object(arguments: str) -> dict[str, Any]:
    try:
        return decode_object(arguments)
    except UNREADABLE:
        return decode_object(_STRING.sub(lambda found: found[0].translate(_ESCAPED), arguments))


class CustomInput:
    """Passes on what of the text is certain, and the rest when the arguments are whole."""

    def __init__(self) -> None:
        self._pending = ""  # what has not been decoded yet: never more than an escape, once the head is read
        self._begun = False  # ``{"input":"`` has been read
        self._over = False  # the text has ended, or cannot be told before the end
        self._sent: list[str] = []

    def feed(self, fragment: str) -> str:
        """Return the text that a fragment adds; empty while it is not certain."""
        if self._over:
            return ""
        self._pending += fragment
        return self._more() if self._begun or self._begin() else ""

    def _begin(self) -> bool:
        head = _HEAD.match(self._pending)
        if head is None:
            self._over = len(self._pending) > _LONGEST_HEAD
            return False
        self._begun = True
        self._pending = self._pending[head.end() :]
        return True

    def _more(self) -> str:
        found = _WHOLE.match(self._pending)
        if found is None or not found[0]:
            self._over = self._pending.startswith('"') or len(self._pending) >= _LONGEST_ESCAPE
            return ""
        try:
            text = decode_text(f'"{found[0].translate(_ESCAPED)}"')
        except UNREADABLE:  # half a pair: the whole is looked at in the end
            self._over = True
            return ""
        self._pending = self._pending[found.end() :]
        self._sent.append(text)
        return text

    def end(self, arguments: str) -> tuple[str, str]:
        """Return the whole text, and what of it has not been passed on."""
        whole, sent = unwrapped(arguments), "".join(self._sent)
        if not sent or whole.startswith(sent):
            return whole, whole[len(sent) :]
        return sent, ""  # malformed behind what was passed on, which cannot be taken back


def restored(completion: Completion, tools: Mapping[str, Offered]) -> Completion:
    """Return an answer with its calls as the caller knows its tools."""
    parts = tuple(_call(part, tools) if isinstance(part, ToolCall) else part for part in completion.parts)
    return replace(completion, parts=parts)


def _call(call: ToolCall, tools: Mapping[str, Offered]) -> ToolCall:
    offered = None if call.namespace else tools.get(call.name)
    if offered is None:
        return call
    custom = offered.custom and not call.custom
    return ToolCall(
        call.id,
        offered.name,
        unwrapped(call.arguments) if custom else call.arguments,
        custom=custom or call.custom,
        namespace=offered.namespace,
        built_in=offered.built_in,
    )


class RestoringStream:
    """Renames calls in the events of one stream as the caller knows its tools.

    The input of a custom tool is passed on while it comes in.
    """

    __slots__ = ("_inputs", "_tools")

    def __init__(self, tools: Mapping[str, Offered]) -> None:
        self._tools: Final = tools
        self._inputs: dict[int, tuple[CustomInput, list[str]]] = {}

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events for the caller."""
        return [told for event in events for told in self._event(event)]

    def _event(self, event: Event) -> Iterator[Event]:
        if isinstance(event, ArgumentsDelta) and event.index in self._inputs:
            custom, pieces = self._inputs[event.index]
            pieces.append(event.text)
            if text := custom.feed(event.text):
                yield ArgumentsDelta(event.index, text)
            return
        if isinstance(event, CallStart):
            event = self._start(event)
        elif isinstance(event, CallEnd):
            yield from self._end(event.index)
        elif isinstance(event, Stop):
            for index in list(self._inputs):
                yield from self._end(index)
        yield event

    def _start(self, event: CallStart) -> CallStart:
        call = _call(event.call, self._tools)
        if call.custom and not event.call.custom:
            self._inputs[event.index] = CustomInput(), []
        return CallStart(event.index, call)

    def _end(self, index: int) -> Iterator[Event]:
        found = self._inputs.pop(index, None)
        if found and (rest := found[0].end("".join(found[1]))[1]):
            yield ArgumentsDelta(index, rest)
