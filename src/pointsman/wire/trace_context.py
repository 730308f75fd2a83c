"""The header ``traceparent``: which trace a request belongs to.

Source: W3C Trace Context, Level 2, sections 3.2 and 4.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["TraceParent", "read_traceparent", "traceparent_of"]

#: Version, trace id, parent id and flags. A later version may have more after them (section 4.3).
_PARTS: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,200})?")
_INVALID_VERSION: Final = b"ff"
_SAMPLED: Final = 1


class TraceParent(NamedTuple):
    """The caller's span."""

    trace_id: str  # 32 hex digits
    span_id: str  # 16 hex digits
    is_sampled: bool


def read_traceparent(value: bytes) -> str:
    """Return the header in the form of version 00, as it is recorded; empty if it is not valid."""
    found = _PARTS.fullmatch(value)
    if found is None:
        return ""
    version, trace, span, flags, more = found.groups()
    is_valid = version != _INVALID_VERSION and (not more or version != b"00")
    if not is_valid or not trace.strip(b"0") or not span.strip(b"0"):
        return ""
    return (b"00-%b-%b-%b" % (trace, span, flags)).decode("ascii")


def traceparent_of(recorded: str) -> TraceParent | None:
    """Return the parts of a recorded header; None if there is none."""
    if not recorded:
        return None
    _, trace, span, flags = recorded.split("-")
    return TraceParent(trace, span, bool(int(flags, 16) & _SAMPLED))
