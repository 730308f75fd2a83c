"""The completion summary: finish reason and called tools. Each format reads its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse

__all__ = ["CompletionSummary", "Part", "decoded", "texts"]

T = TypeVar("T")


class CompletionSummary(msgspec.Struct, frozen=True, gc=False):
    """The summary of a completion, without its text."""

    finish: str = ""  # why it ended, in its format's terms; empty: it did not say
    tools: tuple[str, ...] = ()  # names of the tools it calls, in order


class Part(msgspec.Struct, frozen=True, gc=False):
    """One part of an answer's content."""

    text: str | None = None


def decoded(answer: bytes, shape: type[T]) -> Iterator[T]:
    """Yield a whole answer, or each event of a streamed one; what is of no known shape is passed over."""
    whole = answer.lstrip()[:1] == b"{"
    decode = msgspec.json.Decoder(shape).decode
    for payload in (answer,) if whole else map(sse.data, sse.events(answer)):
        try:
            yield decode(payload)
        except UNREADABLE:
            continue


def texts(parts: Iterable[Part] | None) -> list[str]:
    """The texts of parts that have one."""
    return [part.text for part in parts or () if part.text]
