"""A streamed answer of the Messages format: how it ended, and one of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire.base import End, Ending, Reply
from pointsman.wire.messages._answer import WithUsage, merge_usage, write_block, write_message, write_stop

__all__ = ["answer_events", "end"]

_encode: Final = msgspec.json.encode


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    message: WithUsage | None = None
    usage: msgspec.Raw = msgspec.Raw()


_decode_event: Final = msgspec.json.Decoder(_Event).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    ending = Ending.CUT
    start = final = msgspec.Raw()
    for event in _events(blocks):
        if event.type == "message_start" and event.message:
            start = event.message.usage
        elif event.type == "message_delta":
            final = event.usage
        elif event.type == "message_stop":
            ending = Ending.COMPLETE
        elif event.type == "error":
            ending = Ending.REFUSED
    return End(ending, merge_usage(start, final))


def answer_events(reply: Reply) -> Iterator[bytes]:
    """Return an answer as a stream of events."""

    def event(kind: str, **fields: Any) -> bytes:
        return sse.event(_encode({"type": kind, **fields}), kind)

    block = write_block(reply)
    yield event("message_start", message=write_message(reply, [], None, 1))
    empty: dict[str, Any] = {"input": {}} if reply.tool else {"text": ""}
    yield event("content_block_start", index=0, content_block={**block, **empty})
    if reply.tool:
        partial = _encode(reply.arguments).decode()
        yield event(
            "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": partial}
        )
    for piece in reply.pieces():
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    yield event("content_block_stop", index=0)
    stop = {"stop_reason": write_stop(reply), "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": reply.output_tokens})
    yield event("message_stop")


def _events(blocks: Sequence[bytes]) -> Iterator[_Event]:
    for single in sse.events(b"".join(blocks)):
        try:
            yield _decode_event(sse.data(single))
        except UNREADABLE:
            continue
