"""Responses: ``POST /v1/responses``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire import _openai as openai
from pointsman.wire import sse
from pointsman.wire.conversation import Usage
from pointsman.wire.format import (
    CompletionSummary,
    End,
    Ending,
    Fault,
    Format,
    WithUsage,
    objects,
)
from pointsman.wire.items import mapping, mappings, read_plain, string, words
from pointsman.wire.responses import _request as request

__all__ = ["RESPONSES"]


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


#: Reads a ``usage`` member; None if it is absent or of another shape.
read_usage: Final = openai.usage_reader({})


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    last: Mapping[str, Any] = {}
    for event in objects(answer):
        last = mapping(event.get("response")) or (event if event.get("status") else last)
    why = mapping(last.get("incomplete_details")).get("reason") or last.get("status")
    items = mappings(last.get("output"))
    tools = [string(item.get("name")) for item in items if item.get("type") == "function_call"]
    said = [words(item.get("content")) for item in items if item.get("type") == "message"]
    return CompletionSummary(string(why), tuple(filter(None, tools))), "".join(said)


def write_part(text: str) -> dict[str, Any]:
    """One part of a message with a text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def snapshot(
    *,
    id: str,  # noqa: A002 - the member's name
    model: str,
    created: int,
    status: str,
    output: Sequence[Any],
    usage: Mapping[str, Any] | None,
    asked: Mapping[str, Any],
    incomplete: str | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A response object; ``incomplete`` is why it is, ``asked`` are members of the request to repeat."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "completed_at": created if status == "completed" else None,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "model": model,
        "output": output,
        "usage": usage,
        "tool_choice": "auto",
        "tools": [],
        **_UNASKED,
        **{name: value for name, value in asked.items() if name in _UNASKED},
    }


# A streamed answer of the Responses format: how it ended.

#: The events after which a response changes no more.
_FINAL: Final = frozenset({"response.completed", "response.incomplete"})
_REFUSED: Final = frozenset({"response.failed", "error"})
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


class _StreamEvent(msgspec.Struct, gc=False):
    type: str = ""
    response: WithUsage | None = None


_decode_event: Final = msgspec.json.Decoder(_StreamEvent).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    for single in sse.events(b"".join(blocks)):
        try:
            event = _decode_event(sse.data(single))
        except UNREADABLE:
            continue
        if event.type in _FINAL:
            reported = read_usage(event.response.usage) if event.response else None
            return End(Ending.COMPLETE, reported or Usage())
        if event.type in _REFUSED:
            return End(Ending.REFUSED)
    return End(Ending.CUT)


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:
    """Return the event that ends a failed stream; ``blocks`` are the first and last blocks of the stream."""
    numbers = _NUMBER.findall(b"".join(blocks))
    error = openai.error_object(fault)
    # The documented event is flat, the one on the wire holds an object: clients look for either.
    event = {"type": "error", "sequence_number": int(numbers[-1]) + 1 if numbers else 0}
    event |= {key: error[key] for key in ("code", "message", "param")} | {"error": error}
    return sse.event(_encode(event), "error")


RESPONSES: Final = Format(
    format=WireFormat.RESPONSES,
    folder=__name__,
    path=b"/responses",
    is_stateful=True,
    items="input",
    members=request.MEMBERS,
    output_limits=("max_output_tokens",),
    shapes=("text",),
    system=request.system,
    body=request.write_body,
    read_item=request.read_item,
    read_plain=read_plain,
    read_role=request.role_of,
    place=request.place,
    read_usage=read_usage,
    completion=read_completion,
    ids=("resp_", "call_"),
    is_error=openai.is_error,
    error=openai.write_error,
    end=end,
    refusal=openai.status_of,
    error_event=error_event,
    own_reasoning="._translation_answer",
)
