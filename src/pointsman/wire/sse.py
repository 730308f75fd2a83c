"""Server-sent events (SSE) as bytes: splitting and reading them, and masking keys in them.

Source: WHATWG HTML, "Server-sent events", sections 9.2.5 and 9.2.6. Lines end with LF or CRLF; a stream with
CR alone at line ends, which the standard allows and no provider sends, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from pointsman import decoding
from pointsman.decoding import UNREADABLE, without_halves
from pointsman.errors import UpstreamMalformed, UpstreamTooLarge

__all__ = [
    "EVENT_BYTES",
    "STREAM_BYTES",
    "Splitter",
    "data",
    "decoded",
    "event",
    "events",
    "has_begun",
    "masked",
    "masked_events",
    "masked_text",
]

#: Most bytes of one event by default, as of a request; images in base64 are the largest there are.
EVENT_BYTES: Final = 32 << 20
#: Most bytes of a stream by default: 128,000 tokens with the log probabilities of twenty others each.
STREAM_BYTES: Final = 256 << 20

Shape = TypeVar("Shape")

_BLANK_LINE: Final = re.compile(rb"\r?\n\r?\n")
_DATA: Final = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)

#: The name of the event with which a server of the Messages format fills a silence.
_PING: Final = re.compile(rb"^event:[ ]?ping\r?$", re.MULTILINE)

_NEWLINE: Final = ord("\n")

#: Lines of one stream. An answer of 128,000 tokens, the longest of today's models, has four a token.
_MAX_LINES: Final = 4_000_000
#: Lines of one event. Providers send one line of data in an event, and a whole answer that is printed over
#: several lines stays far below. Each line of data becomes an object, which takes many times its bytes.
_EVENT_LINES: Final = 100_000
#: Bytes of a block in which lines are counted. Events that come one by one cost their sender more than us.
_MANY: Final = 4 << 10


class Splitter:
    """Splits one stream into blocks of whole events, in time linear in its bytes.

    A half event must not go out: if the upstream fails inside it, nothing well-formed could follow. The
    pending bytes of a stream that is refused are dropped: an event above the limit is never read.
    """

    __slots__ = ("_event_bytes", "_lines_left", "_pending_lines", "_stream_bytes", "bytes_left", "pending")

    def __init__(self, event_bytes: int = EVENT_BYTES, stream_bytes: int = STREAM_BYTES) -> None:
        """Take the most bytes that one event, and all of them together, may have."""
        self.pending = bytearray()  # the next event as far as it has come
        self._event_bytes = event_bytes
        self._stream_bytes = self.bytes_left = stream_bytes
        self._lines_left = _MAX_LINES
        self._pending_lines = 0

    def is_whole(self, chunk: bytes) -> bool:
        """Whether ``feed`` would return the chunk as it is, after a look at its last bytes alone."""
        return (
            not self.pending
            and chunk.endswith(b"\n\n")
            and len(chunk) <= _MANY
            and len(chunk) <= self.bytes_left
        )

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that the bytes so far complete; may be empty.

        Raises:
            UpstreamTooLarge: too many bytes or lines.
            UpstreamMalformed: its lines end with CR alone.
        """
        size = len(chunk)
        self.bytes_left = left = self.bytes_left - size
        if left < 0:
            raise self._too_large(f"a stream of more than {self._stream_bytes} bytes")
        if not self.pending and chunk.endswith(b"\n\n"):
            block = chunk
            if size <= _MANY:
                return block
        else:
            block = self._split(chunk)
        if len(block) > _MANY:
            self._lines_left -= block.count(b"\n")
            if self._lines_left < 0:
                raise self._too_large(f"a stream of more than {_MAX_LINES} lines")
        return block

    def _split(self, chunk: bytes) -> bytes:
        pending = self.pending
        # A blank line may straddle the two parts; what was pending before has been searched.
        first = max(len(pending) - 3, 0)
        pending += chunk
        cut = max(_behind(pending, b"\n\n", first), _behind(pending, b"\n\r\n", first))
        with memoryview(pending) as view:
            block = bytes(view[:cut])  # copied once: a slice of the array would be a second copy
        del pending[:cut]
        if b"\r" in chunk and pending.find(b"\r\r", max(first - cut, 0)) >= 0:
            pending.clear()
            raise UpstreamMalformed("the upstream ends the lines of its stream with CR alone")
        if len(pending) > self._event_bytes:
            raise self._too_large(f"an event of more than {self._event_bytes} bytes")
        if len(pending) > _MANY:
            lines = pending.count(b"\n") if cut else self._pending_lines + chunk.count(b"\n")
            if lines > _EVENT_LINES:
                raise self._too_large(f"an event of more than {_EVENT_LINES} lines")
            self._pending_lines = lines
        elif cut:
            self._pending_lines = 0
        return block

    def _too_large(self, what: str) -> UpstreamTooLarge:
        self.pending.clear()
        return UpstreamTooLarge(f"the upstream sent {what}")


def _behind(text: bytearray, blank: bytes, first: int) -> int:
    """Return the place behind the last of some blank lines; 0 if there is none."""
    found = text.rfind(blank, first)
    return found + len(blank) if found >= 0 else 0


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


def has_begun(block: bytes) -> bool:
    """Whether a block holds an event of an answer: one with data that is no ``ping``."""
    return any(data(single) and not _PING.search(single) for single in events(block))


def decoded(block: bytes, decode: Callable[[bytes], Shape]) -> Iterator[Shape]:
    """Yield the events of a block that can be decoded, without the others."""
    for single in events(block):
        try:
            yield decoding.decoded(decode, data(single))
        except UNREADABLE:
            continue


def event(payload: bytes, name: str = "") -> bytes:
    """Return one event. ``payload`` is a single line, as JSON from our encoder is."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + payload + b"\n\n"


# The operator's keys are masked in upstream answers, in any escaping.
_MASK: Final = b"***"


def masked_text(text: str, secrets: Sequence[bytes]) -> str:
    """Return a text without the secrets that it repeats."""
    for secret in secrets:
        text = text.replace(secret.decode(), _MASK.decode())
    return text


def masked(body: bytes, secrets: Sequence[bytes]) -> bytes:
    """Return a body without the secrets that it repeats: as they are, or in the escapes of JSON.

    A body with a secret in escapes is encoded again; every other is returned unchanged.
    """
    for secret in secrets:
        body = body.replace(secret, _MASK)
    if not secrets or b"\\" not in body:
        return body
    try:
        plain = found = msgspec.json.encode(msgspec.json.decode(without_halves(body)))
    except UNREADABLE:
        return body  # no JSON: a backslash is nothing but itself
    for secret in secrets:
        found = found.replace(msgspec.json.encode(secret.decode())[1:-1], _MASK)
    return body if found == plain else found


def masked_events(block: bytes, secrets: Sequence[bytes]) -> bytes:
    """Return a block of server-sent events without secrets; only blocks that hold an error are searched."""
    if not secrets or b"error" not in block:
        return block
    for secret in secrets:
        block = block.replace(secret, _MASK)
    for single in events(block) if b"\\" in block else ():
        payload = data(single)
        block = block.replace(payload, masked(payload, secrets)) if payload else block
    return block
