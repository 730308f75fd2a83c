"""Stop sequences that an upstream cannot be given: the gateway cuts the answer where one begins.

The upstream does not know of them and writes on. What it writes is not passed on, but it is read to its end,
so that its usage is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Failed,
    Part,
    Stop,
    StopReason,
    Text,
    TextDelta,
    UsageReport,
)

__all__ = ["CutStream", "cut"]


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
        """Return what was held back: the text has ended."""
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
    """The same for the events of one stream."""

    __slots__ = ("_calls", "_scanner")

    def __init__(self, sequences: tuple[str, ...]) -> None:
        self._scanner: Final = _Scanner(sequences)
        self._calls: set[int] = set()  # begun before a sequence was met

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events as the caller is to be told them."""
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
