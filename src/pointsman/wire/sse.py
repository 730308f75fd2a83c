"""Server-sent events (SSE) as bytes: splitting and reading them.

Source: WHATWG HTML, "Server-sent events", sections 9.2.5 and 9.2.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["data", "event", "events", "whole"]

_BLANK_LINE: Final = re.compile(rb"\r\n\r\n|\n\n")
_DATA: Final = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)

_NEWLINE: Final = ord("\n")


def whole(pending: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Split what has arrived into whole events and the beginning of the next one.

    A half event must not go out: if the upstream fails inside it, nothing well-formed could follow.
    """
    if not pending and chunk.endswith(b"\n\n"):
        return chunk, b""
    joined = pending + chunk
    # A blank line may straddle the two parts; what ``pending`` held was searched before.
    first = max(len(pending) - 3, 0)
    cut = max(joined.rfind(b"\n\n", first) + 2, joined.rfind(b"\r\n\r\n", first) + 4)
    return (joined[:cut], joined[cut:]) if cut > 4 else (b"", joined)


def events(block: bytes) -> Iterator[bytes]:
    """Yield the events of a block without the blank lines between them."""
    parts = _BLANK_LINE.split(block) if b"\r" in block else block.split(b"\n\n")
    return (part for part in parts if part.strip())


def data(single: bytes) -> bytes:
    """Return the data of one event: its ``data`` lines joined; empty for a comment."""
    at = single.find(b"data:")
    if at == 0 or (at > 0 and single[at - 1] == _NEWLINE):
        line = single[at + 5 :]
        if b"\n" not in line and b"\r" not in line:  # as almost every event is: one line, the last
            return line.removeprefix(b" ")
    lines = _DATA.findall(single)
    return lines[0] if len(lines) == 1 else b"\n".join(lines)


def event(payload: bytes, name: str = "") -> bytes:
    """Return one event. ``payload`` is a single line, as JSON from our encoder is."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + payload + b"\n\n"
