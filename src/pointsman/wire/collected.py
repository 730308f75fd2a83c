"""A whole answer, collected from the events of its stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pointsman.wire.conversation import (
    ArgumentsDelta,
    Call,
    CallEnd,
    CallStart,
    Completion,
    Event,
    Failed,
    Part,
    Refusal,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
)

__all__ = ["collected"]


class _Collecting:
    """The words and calls of one answer, as far as they have come."""

    def __init__(self) -> None:
        self.started: Start | None = None
        self.stop: Stop | None = None
        self.words: list[str] = []
        self.refused: list[str] = []
        self.calls: dict[int, tuple[CallStart, list[str]]] = {}
        self.cut: set[int] = set()

    def add(self, event: Event) -> None:
        match event:
            case Start():
                self.started = event
            case Stop():
                self.stop = event
            case TextDelta():
                (self.refused if event.refusal else self.words).append(event.text)
            case CallStart():
                self.calls[event.index] = event, []
            case ArgumentsDelta() if event.index in self.calls:
                self.calls[event.index][1].append(event.text)
            case CallEnd(is_cut=True):
                self.cut.add(event.index)
            case _:
                pass

    def parts(self) -> Iterator[Part]:
        if self.words:
            yield Text("".join(self.words))
        if self.refused:
            yield Refusal("".join(self.refused))
        for index, (start, pieces) in self.calls.items():
            yield Call(
                id=start.id,
                name=start.name,
                arguments="".join(pieces),
                custom=start.custom,
                namespace=start.namespace,
                built_in=start.built_in,
                is_cut=index in self.cut,
            )


def collected(events: Iterable[Event]) -> Completion | None:
    """Return the words and calls of a streamed answer; None of one that was cut off or has failed.

    Reasoning and usage are left out. An answer with words of a refusal has ended by it.
    """
    found = _Collecting()
    for event in events:
        if isinstance(event, Failed):
            return None
        found.add(event)
    if found.stop is None:
        return None
    return Completion(
        id=found.started.id if found.started else "",
        model=found.started.model if found.started else "",
        parts=tuple(found.parts()),
        stop=StopReason.REFUSAL if found.refused else found.stop.reason,
        sequence=found.stop.sequence,
    )
