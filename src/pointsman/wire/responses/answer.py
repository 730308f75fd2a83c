"""Responses: ``POST /v1/responses``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from pointsman.wire.base import End, Ending, Fault, Reply, Usage, lenient
from pointsman.wire.openai_errors import error_object, is_error, status_of

__all__ = ["RESPONSES", "answered"]

_encode: Final = msgspec.json.encode

#: The events after which a response changes no more.
_FINAL: Final = frozenset({"response.completed", "response.incomplete"})
_REFUSED: Final = frozenset({"response.failed", "error"})
#: What a response repeats of its request, and what stands there when the request did not say.
_UNASKED: Final[dict[str, Any]] = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1,
    "text": {"format": {"type": "text"}},
    "top_logprobs": 0,
    "top_p": 1,
    "truncation": "disabled",
}
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    response: _Answer | None = None


class _Stored(msgspec.Struct, gc=False):
    id: str
    output: list[msgspec.Raw]


class _StoredEvent(msgspec.Struct, gc=False):
    response: _Stored


_decode_stored: Final = msgspec.json.Decoder(_Stored).decode
_decode_stored_event: Final = msgspec.json.Decoder(_StoredEvent).decode
_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_decode_event: Final = msgspec.json.Decoder(_Event).decode


class _ResponsesWire:
    format: Final = WireFormat.RESPONSES
    items: Final = "input"
    path: Final = b"/responses"

    def usage(self, answer: bytes) -> Usage:
        return _usage(_decode_answer(answer))

    def end(self, blocks: Sequence[bytes]) -> End:
        for single in sse.events(b"".join(blocks)):
            try:
                event = _decode_event(sse.data(single))
            except UNREADABLE:
                continue
            if event.type in _FINAL:
                return End(Ending.COMPLETE, _usage(event.response))
            if event.type in _REFUSED:
                return End(Ending.REFUSED)
        return End(Ending.CUT)

    def refusal(self, block: bytes) -> int | None:
        return status_of(block)

    def is_error(self, answer: bytes) -> bool:
        return is_error(answer)

    def error(self, fault: Fault) -> bytes:
        return _encode({"error": error_object(fault)})

    def error_event(self, fault: Fault, blocks: Sequence[bytes]) -> bytes:
        numbers = _NUMBER.findall(b"".join(blocks))
        error = error_object(fault)
        # The documented event is flat, the one on the wire holds an object: clients look for either.
        event = {"type": "error", "sequence_number": int(numbers[-1]) + 1 if numbers else 0}
        event |= {key: error[key] for key in ("code", "message", "param")} | {"error": error}
        return sse.event(_encode(event), "error")

    def answer(self, reply: Reply) -> bytes:
        return _encode(_response(reply, "completed", [_item(reply)]))

    def answer_events(self, reply: Reply) -> Iterator[bytes]:
        numbers = itertools.count()

        def event(kind: str, **fields: Any) -> bytes:
            return sse.event(_encode({"type": kind, "sequence_number": next(numbers), **fields}), kind)

        item = _item(reply)
        yield event("response.created", response=_response(reply, "in_progress", []))
        yield event("response.in_progress", response=_response(reply, "in_progress", []))
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
            yield event("response.content_part.added", **place, part=_part(""))
            for piece in reply.pieces():
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=reply.text, logprobs=[])
            yield event("response.content_part.done", **place, part=_part(reply.text))
        yield event("response.output_item.done", output_index=0, item=item)
        yield event("response.completed", response=_response(reply, "completed", [item]))


def answered(parts: Sequence[bytes]) -> tuple[str, list[bytes]] | None:
    """Return the id and the items of a whole body, or of the last events of a stream; None without such."""
    whole = b"".join(parts)
    streamed = not whole.lstrip().startswith(b"{")
    for payload in reversed([sse.data(event) for event in sse.events(whole)]) if streamed else (whole,):
        try:
            found = _decode_stored_event(payload).response if streamed else _decode_stored(payload)
        except UNREADABLE:
            continue  # a comment, or half an event
        return found.id, [bytes(item) for item in found.output]
    return None


def _usage(answer: _Answer | None) -> Usage:
    reported = lenient(_decode_usage, answer.usage) if answer else None
    if reported is None:
        return Usage()
    details = reported.input_tokens_details
    return Usage(reported.input_tokens, details.cached_tokens if details else None, reported.output_tokens)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(reply: Reply) -> dict[str, Any]:
    if reply.tool:
        return {
            "type": "function_call",
            "id": f"fc_{reply.id}",
            "call_id": f"call_{reply.id}",
            "name": reply.tool,
            "arguments": _encode(reply.arguments).decode(),
            "status": "completed",
        }
    return {
        "type": "message",
        "id": f"msg_{reply.id}",
        "role": "assistant",
        "status": "completed",
        "content": [_part(reply.text)],
    }


def _response(reply: Reply, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }
    done = status == "completed"
    repeated = {name: value for name, value in reply.asked.items() if name in _UNASKED}
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": reply.created,
        "completed_at": reply.created if done else None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": reply.model,
        "output": output,
        "usage": usage if done else None,
        "tool_choice": "auto",
        "tools": [],
        **_UNASKED,
        **repeated,
    }


RESPONSES: Final = _ResponsesWire()
