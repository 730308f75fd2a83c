"""The error object that chat completions and responses share, written and read."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire.format import Fault

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
        return False


def status_of(block: bytes) -> int | None:
    """Return the status a block's first event amounts to when it is an error; None when it is none."""
    payload = next((sse.data(event) for event in sse.events(block)), b"")
    if b'"error"' not in payload and b'"response.failed"' not in payload:
        return None
    try:
        event = _decode(payload)
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
