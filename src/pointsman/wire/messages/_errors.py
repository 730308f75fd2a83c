"""Errors of the Messages format, whole and inside a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire.base import Fault

__all__ = ["STATUS", "TYPES", "error_event", "is_error", "status_of", "write_error"]

_encode: Final = msgspec.json.encode

#: Anthropic's documented error types by status.
TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUS: Final = {kind: status for status, kind in TYPES.items()}


class _Error(msgspec.Struct, gc=False):
    type: str = ""


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    error: _Error | None = None


_decode_event: Final = msgspec.json.Decoder(_Event).decode


def status_of(block: bytes) -> int | None:
    """Return the status a block's first event amounts to when it is an error; None when it is none."""
    event = next(_events(block), None)
    if event is None or event.type != "error":
        return None
    return STATUS.get(event.error.type, 502) if event.error else 502


def is_error(answer: bytes) -> bool:
    """Whether an answer is an object with an object under ``error``."""
    try:
        return _decode_event(answer).error is not None
    except UNREADABLE:
        return False


def write_error(fault: Fault) -> bytes:
    """Return the body of an error answer."""
    kind = TYPES.get(fault.status, "api_error" if fault.status >= 500 else "invalid_request_error")
    return _encode({"type": "error", "error": {"type": kind, "message": fault.message}})


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG001 - not numbered
    """Return the event that ends a failed stream."""
    return sse.event(write_error(fault), "error")


def _events(block: bytes) -> Iterator[_Event]:
    for single in sse.events(block):
        try:
            yield _decode_event(sse.data(single))
        except UNREADABLE:
            continue
