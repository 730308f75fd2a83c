"""What chat completions and Responses share: the error object, and the usage of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, decoded, without_halves
from pointsman.wire import sse
from pointsman.wire.conversation import Usage
from pointsman.wire.format import Fault, TokenCount, count

#: What OpenAI calls an error of each status; any other below 500 is the request's fault.
_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}

#: Error types and codes, as providers send them inside a stream, and the status each amounts to.
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
}


class _Error(msgspec.Struct, gc=False):
    type: str | None = None
    code: str | int | None = None


class _Failed(msgspec.Struct, gc=False):
    error: _Error | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    code: str | int | None = None
    error: _Error | str | None = None
    response: _Failed | None = None


_decode: Final = msgspec.json.Decoder(_Event).decode


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: Any = None  # OpenAI from GPT-5.6 on, OpenRouter
    cache_creation_tokens: Any = None  # LiteLLM
    cache_creation_token_details: Any = None  # LiteLLM: by how long they are kept
    cache_creation_input_tokens: Any = None  # Alibaba
    cache_creation: Any = None  # Alibaba: by how long they are kept

    def writes(self) -> tuple[int | None, int | None]:
        """Tokens written to the cache, and of these, those with a lifetime of an hour; None if unknown."""
        written = self.cache_write_tokens
        if not written and (other := self.cache_creation_tokens or self.cache_creation_input_tokens):
            written = other
        if not written:
            return written, None
        kept = self.cache_creation_token_details or self.cache_creation
        for_an_hour = kept.get("ephemeral_1h_input_tokens") if isinstance(kept, dict) else None
        return count(written), None if for_an_hour is None else count(for_an_hour)


#: Usage as Responses names its fields.
_USAGE: Final = (
    ("input_tokens", TokenCount | None, None),
    ("output_tokens", TokenCount | None, None),
    ("input_tokens_details", _InputDetails | None, None),
    ("output_tokens_details", Any, None),
    ("prompt_cache_hit_tokens", Any, None),  # DeepSeek
    ("cached_tokens", Any, None),  # Moonshot
    ("prompt_audio_seconds", Any, None),  # Mistral, whose tokens of audio are in the total alone
    ("total_tokens", Any, None),
)
#: What stands for an absent member.
NOTHING: Final = (b"", b"null")


def usage_reader(names: Mapping[str, str]) -> Callable[[msgspec.Raw], Usage | None]:
    """Return the reader of a ``usage`` member; ``names``: a format's name for each field of Responses."""
    shape: Any = msgspec.defstruct("Usage", _USAGE, rename=names, gc=False)
    return partial(_read_usage, msgspec.json.Decoder(shape | None).decode)


def _read_usage(decode: Callable[[msgspec.Raw], Any], raw: msgspec.Raw) -> Usage | None:
    """Read a ``usage`` member; None if it is absent or of another shape.

    xAI and Google count reasoning in the total alone, and charge for it as output.
    """
    try:
        found = decode(raw) if raw else None
    except UNREADABLE:  # usage of a kind we do not know is no reason to throw an answer away
        return None
    if found is None:
        return None
    details, reasoned = found.input_tokens_details, found.output_tokens_details
    cached = written = written_1h = None
    if details:
        cached = details.cached_tokens
        written, written_1h = details.writes()
    if not cached and (found.prompt_cache_hit_tokens or found.cached_tokens):
        cached = count(found.prompt_cache_hit_tokens or found.cached_tokens) or cached
    sent, output = found.input_tokens, found.output_tokens
    reasoning = count(reasoned.get("reasoning_tokens")) if isinstance(reasoned, dict) else None
    if sent and found.total_tokens != sent + (output or 0):
        # What the total has beyond both is reasoning, or a cache or audio that is not part of the input.
        apart = (count(found.total_tokens) or 0) - sent - (output or 0)
        of_cache = cached, written, (cached or 0) + (written or 0)
        is_output = apart > 0 and apart not in of_cache and not found.prompt_audio_seconds
        if apart == reasoning or (is_output and not reasoning):
            output, reasoning = (output or 0) + apart, apart
    return Usage(sent, cached, output, written, reasoning, written_1h)


def error_object(fault: Fault) -> dict[str, Any]:
    """Return the object under ``error``."""
    return {
        "message": fault.message,
        "type": error_type(fault.status),
        "param": fault.param,
        "code": fault.code or None,
    }


def error_type(status: int) -> str:
    """Return the type of an error with this status."""
    return "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")


def write_error(fault: Fault) -> bytes:
    """Return the body of an error answer."""
    return msgspec.json.encode({"error": error_object(fault)})


def is_error(answer: bytes) -> bool:
    """Whether an answer is an object with an object or a text under ``error``."""
    try:
        return _decode(answer).error is not None
    except UNREADABLE:
        return (mended := without_halves(answer)) != answer and is_error(mended)


def status_of(block: bytes) -> int | None:
    """Return the status a block's first event amounts to when it is an error; None when it is none."""
    payload = next(filter(None, map(sse.data, sse.events(block))), b"")
    if b'"error"' not in payload and b'"response.failed"' not in payload:
        return None
    try:
        event = decoded(_decode, payload)
    except UNREADABLE:
        return None
    error = event.error or (event.response.error if event.response else None)
    if error is None and event.type != "error":
        return None
    found = error if isinstance(error, _Error) else _Error(code=event.code)
    return status_named(found.code, found.type)


def status_named(*names: str | int | None) -> int:
    """Return the status that the first known of these codes and types amounts to; 502 for others."""
    for name in names:
        if isinstance(name, int) and 400 <= name < 600:
            return name  # OpenRouter puts the status here
        if isinstance(name, str) and name in _STATUS:
            return _STATUS[name]
    return 502
