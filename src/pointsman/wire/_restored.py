"""Calls of an answer, put back as the caller knows its tools.

Other formats have neither custom tools nor namespaces nor the tools built into Responses, and take shorter
names: a custom tool goes to them as a function with one string parameter ``input``, a namespace becomes a
part of the name. A call that comes back is the caller's own again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.wire._custom_input import CustomInput, unwrapped
from pointsman.wire.client_tools import built_in
from pointsman.wire.conversation import (
    ArgumentsDelta,
    Call,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Stop,
    Tool,
)
from pointsman.wire.tool_names import flat_name

__all__ = ["Offered", "RestoringStream", "offered_tools", "restored"]


class Offered(msgspec.Struct, frozen=True, gc=False):
    """A tool as the caller named it."""

    name: str
    namespace: str = ""
    custom: bool = False
    built_in: str = ""


def offered_tools(tools: Iterable[Tool]) -> Mapping[str, Offered]:
    """Return the tools that other formats know by another name or as another kind, by that name."""
    found: dict[str, Offered] = {}
    for tool in tools:
        flat = flat_name(tool.namespace, tool.name)
        if tool.kind == "function":
            if flat == tool.name:
                continue
        elif tool.kind != "custom" and not built_in(tool):
            continue
        offered = Offered(tool.name, tool.namespace, tool.kind == "custom", built_in(tool))
        found[flat] = offered
        if tool.namespace:
            found.setdefault(f"{tool.namespace}__{tool.name}", offered)
    return found


def restored(completion: Completion, tools: Mapping[str, Offered]) -> Completion:
    """Return an answer with its calls as the caller knows its tools."""
    parts = tuple(_call(part, tools) if isinstance(part, Call) else part for part in completion.parts)
    return replace(completion, parts=parts)


def _call(call: Call, tools: Mapping[str, Offered]) -> Call:
    offered = None if call.namespace else tools.get(call.name)
    if offered is None:
        return call
    custom = offered.custom and not call.custom
    return Call(
        call.id,
        offered.name,
        unwrapped(call.arguments) if custom else call.arguments,
        custom=custom or call.custom,
        namespace=offered.namespace,
        built_in=offered.built_in,
    )


class RestoringStream:
    """The same for the events of one stream. The input of a custom tool is passed on while it comes in."""

    __slots__ = ("_inputs", "_tools")

    def __init__(self, tools: Mapping[str, Offered]) -> None:
        self._tools: Final = tools
        self._inputs: dict[int, tuple[CustomInput, list[str]]] = {}

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events as the caller is to be told them."""
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
        offered = None if event.namespace else self._tools.get(event.name)
        if offered is None:
            return event
        if offered.custom and not event.custom:
            self._inputs[event.index] = CustomInput(), []
        return CallStart(
            event.index,
            event.id,
            offered.name,
            custom=offered.custom or event.custom,
            namespace=offered.namespace,
            built_in=offered.built_in,
        )

    def _end(self, index: int) -> Iterator[Event]:
        found = self._inputs.pop(index, None)
        if found and (rest := found[0].end("".join(found[1]))[1]):
            yield ArgumentsDelta(index, rest)
