"""A whole answer of the Messages format, read into a completion and written from one."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pointsman.vocabulary import WireFormat
from pointsman.wire.conversation import (
    Call,
    Completion,
    Opaque,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    Usage,
)
from pointsman.wire.messages._answer import ReportedUsage, usage_of
from pointsman.wire.messages._translation_parts import (
    STOP_REASONS,
    Content,
    DecodedOnce,
    decoded,
    read_parts,
)
from pointsman.wire.messages._translation_settings import Written
from pointsman.wire.messages._translation_writing import call_block

__all__ = ["CUT", "read_answer", "stop_beside", "stop_reason", "write_answer", "write_message", "write_usage"]

_encode: Final = msgspec.json.encode
_REASONS: Final = {
    StopReason.END: "end_turn",
    StopReason.LENGTH: "max_tokens",
    StopReason.SEQUENCE: "stop_sequence",
    StopReason.TOOLS: "end_turn",  # without a call there is nothing to wait for
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSE: "pause_turn",
}
#: Reasons that stand beside calls: the last one may have been cut off, and is then none to run.
CUT: Final = frozenset({StopReason.LENGTH, StopReason.REFUSAL})
#: What the API reports beside, and its schema requires: nothing is known of it.
_UNKNOWN_USAGE: Final[dict[str, Any]] = {
    "cache_creation": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": "standard",
    "inference_geo": None,
}


class _Answer(msgspec.Struct, gc=False):
    content: Content
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: ReportedUsage | None = None


class _Raw(msgspec.Struct, gc=False):
    content: list[msgspec.Raw]


_decode: Final = msgspec.json.Decoder(_Answer).decode
_decode_raw: Final = msgspec.json.Decoder(_Raw).decode


def read_answer(answer: bytes) -> Completion:
    """Read a whole answer. Raises ``decoding.UNREADABLE``."""
    return decoded(_read, answer)


def _read(answer: bytes) -> Completion:
    read = _decode(answer)
    parts = read_parts(read.content, DecodedOnce(lambda: _decode_raw(answer).content), {})
    stop = STOP_REASONS.get(read.stop_reason or "", StopReason.END)
    return Completion(
        id=read.id,
        model=read.model,
        parts=_cut(parts) if stop in CUT else parts,
        stop=stop_beside(stop, calls=any(isinstance(part, Call) for part in parts)),
        sequence=read.stop_sequence or "",
        usage=usage_of(read.usage),
    )


def _cut(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts of an answer that was cut off: its last call may be a part of one."""
    last = parts[-1] if parts else None
    return (*parts[:-1], replace(last, is_cut=True)) if isinstance(last, Call) else parts


def write_answer(completion: Completion) -> bytes:
    """Write a whole answer."""
    parts = (_named(part, at, completion.id) for at, part in enumerate(completion.parts))
    content = [block for part in parts if (block := _block(part)) is not None]
    calls = any(isinstance(part, Call) for part in completion.parts)
    message = write_message(completion.id, completion.model, content, completion.usage)
    message["stop_reason"] = stop_reason(completion.stop, calls=calls)
    message["stop_sequence"] = completion.sequence or None
    return _encode(message)


def _named(part: Part, at: int, answer: str) -> Part:
    """A call with an id: some servers send none, and a result must name its call."""
    return replace(part, id=f"{answer}_{at}") if isinstance(part, Call) and not part.id else part


def _block(part: Part) -> Written | None:
    """One block; None for what only the provider's own callers can use, and for blank text.

    Sent back to the API in the next request, a block of white space alone would be refused. ``citations`` is
    an empty list: the API's schema requires it, and the Vercel AI SDK refuses null.
    """
    if isinstance(part, Call):
        return {**call_block(part), "caller": {"type": "direct"}}
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text, "citations": []} if part.text.strip() else None
    if isinstance(part, Thinking):
        # No signature is made up: without one the gateway knows that the words are not this provider's.
        words = part.text or part.signature
        return {"type": "thinking", "thinking": part.text, "signature": part.signature} if words else None
    return part.raw if isinstance(part, Opaque) and part.format is WireFormat.MESSAGES else None


def stop_beside(reason: StopReason, *, calls: bool) -> StopReason:
    """Why an answer ended that may hold calls: they want results, unless it was cut off."""
    return StopReason.TOOLS if calls and reason not in CUT else reason


def stop_reason(reason: StopReason, *, calls: bool) -> str:
    """The format's word for why an answer ended; a call wants a result unless the answer was cut off."""
    if calls and stop_beside(reason, calls=True) is StopReason.TOOLS:
        return "tool_use"
    return _REASONS[reason]


def write_message(identifier: str, model: str, content: list[Written], usage: Usage | None) -> dict[str, Any]:
    """A message that has not stopped."""
    return {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {**write_usage(usage or Usage()), **_UNKNOWN_USAGE},
    }


def write_usage(usage: Usage) -> dict[str, int]:
    """Tokens; ``input_tokens`` excludes the cache, as in the form."""
    return {
        "input_tokens": usage.uncached,
        "cache_creation_input_tokens": usage.written or 0,
        "cache_read_input_tokens": usage.cached or 0,
        "output_tokens": usage.output or 0,
    }
