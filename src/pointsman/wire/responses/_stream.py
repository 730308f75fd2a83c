"""A streamed answer of the Responses format: how it ended, and one of our own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire._openai_errors import error_object
from pointsman.wire.base import End, Ending, Fault, Reply
from pointsman.wire.responses._answer import WithUsage, read_usage, write_item, write_part, write_response

__all__ = ["answer_events", "end", "error_event"]

_encode: Final = msgspec.json.encode

#: The events after which a response changes no more.
_FINAL: Final = frozenset({"response.completed", "response.incomplete"})
_REFUSED: Final = frozenset({"response.failed", "error"})
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    response: WithUsage | None = None


_decode_event: Final = msgspec.json.Decoder(_Event).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    for single in sse.events(b"".join(blocks)):
        try:
            event = _decode_event(sse.data(single))
        except UNREADABLE:
            continue
        if event.type in _FINAL:
            return End(Ending.COMPLETE, read_usage(event.response))
        if event.type in _REFUSED:
            return End(Ending.REFUSED)
    return End(Ending.CUT)


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:
    """Return the event that ends a failed stream, whose first and last blocks were ``blocks``."""
    numbers = _NUMBER.findall(b"".join(blocks))
    error = error_object(fault)
    # The documented event is flat, the one on the wire holds an object: clients look for either.
    event = {"type": "error", "sequence_number": int(numbers[-1]) + 1 if numbers else 0}
    event |= {key: error[key] for key in ("code", "message", "param")} | {"error": error}
    return sse.event(_encode(event), "error")


def answer_events(reply: Reply) -> Iterator[bytes]:
    """Return an answer as a stream of events."""
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> bytes:
        return sse.event(_encode({"type": kind, "sequence_number": next(numbers), **fields}), kind)

    item = write_item(reply)
    yield event("response.created", response=write_response(reply, "in_progress", []))
    yield event("response.in_progress", response=write_response(reply, "in_progress", []))
    empty: dict[str, Any] = {"arguments": ""} if reply.tool else {"content": []}
    opened = {**item, "status": "in_progress", **empty}
    yield event("response.output_item.added", output_index=0, item=opened)
    place: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
    if reply.tool:
        arguments = item["arguments"]
        yield event("response.function_call_arguments.delta", **place, delta=arguments)
        yield event("response.function_call_arguments.done", **place, arguments=arguments)
    else:
        place["content_index"] = 0
        yield event("response.content_part.added", **place, part=write_part(""))
        for piece in reply.pieces():
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield event("response.output_text.done", **place, text=reply.text, logprobs=[])
        yield event("response.content_part.done", **place, part=write_part(reply.text))
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=write_response(reply, "completed", [item]))
