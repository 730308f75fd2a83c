"""The usage of an answer of chat completions: OpenAI counts what was cached as part of the input."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.conversation import Usage

__all__ = ["read_usage", "write_usage"]

_NOTHING: Final = (b"", b"null")


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None  # OpenRouter


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek


_decode_usage: Final = msgspec.json.Decoder(_Usage).decode


def read_usage(raw: msgspec.Raw) -> Usage | None:
    """Read a ``usage`` member, whose input includes the caches; None where there is none of its shape."""
    if bytes(raw) in _NOTHING:
        return None
    try:
        found = _decode_usage(raw)
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return None
    details = found.prompt_tokens_details or _InputDetails()
    read = details.cached_tokens or found.prompt_cache_hit_tokens or 0
    written = details.cache_write_tokens or 0
    reasoned = found.completion_tokens_details or _OutputDetails()
    return Usage(
        input=max((found.prompt_tokens or 0) - read - written, 0),
        cache_read=read,
        cache_write=written,
        output=found.completion_tokens or 0,
        reasoning=reasoned.reasoning_tokens or 0,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Return the ``usage`` of an answer."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    details = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        details["cache_write_tokens"] = usage.cache_write  # OpenRouter's name; OpenAI has none
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
