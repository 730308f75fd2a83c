"""Usage of a stream when its caller leaves: the upstream reports usage only at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.model_choice.fitness import BYTES_PER_TOKEN
from pointsman.vocabulary import LARGE
from pointsman.wire import Ending, Format, Usage, sse

__all__ = ["usage_so_far"]

#: Members of events that hold what a model writes, in all formats.
_TEXTS: Final = frozenset(
    [
        "arguments",
        "content",
        "delta",
        "partial_json",
        "reasoning",
        "reasoning_content",
        "refusal",
        "text",
        "thinking",
    ]
)
#: Events of Responses that say again what came before.
_REPEATS: Final = (".done", ".completed", ".incomplete")


def usage_so_far(wire: Format, request: int, blocks: Sequence[bytes], size: int) -> tuple[Usage, bool]:
    """Return the usage of a stream that is not read to its end, and whether any of it is an estimate.

    Args:
        wire: The upstream's format.
        request: Bytes of the request's body, which are counted as input if the upstream did not report it.
        blocks: The first block of whole events and the last few.
        size: Bytes of all blocks. Most providers send one token in an event, some gather more text: the
            larger of both counts. Events are taken to be of one size.
    """
    end = wire.end(blocks)
    told = end.usage
    if told.input is not None and told.output is not None and end.ending in {Ending.COMPLETE, Ending.SAID}:
        return told, False
    known = b"".join(blocks)
    payloads = [data for event in sse.events(known) if (data := sse.data(event))]
    written = max(len(payloads), sum(map(_text_bytes, payloads)) // BYTES_PER_TOKEN)
    sent = round(size * written / len(known)) if known else 0
    output = max(told.output or 0, sent)
    return Usage(request // BYTES_PER_TOKEN if told.input is None else told.input, told.cached, output), True


def _text_bytes(data: bytes) -> int:
    """Bytes that a model wrote in one event: all text of it under a name that holds such."""
    if len(data) > LARGE:
        return len(data)
    try:
        event = msgspec.json.decode(data)
        if isinstance(event, dict) and str(event.get("type")).endswith(_REPEATS):
            return 0
        return _written(event, is_text=False)
    except UNREADABLE:
        return 0


def _written(value: object, *, is_text: bool) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass")) if is_text else 0
    if isinstance(value, list):
        return sum(_written(each, is_text=is_text) for each in value)
    if isinstance(value, dict):
        return sum(_written(each, is_text=name in _TEXTS) for name, each in value.items())
    return 0
