"""A request body as bytes with spans: bytes outside the edits are relayed unchanged."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from pointsman.decoding import without_halves
from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import LARGE
from pointsman.wire.values import count_values

__all__ = ["MAX_MEMBERS", "MAX_VALUES", "Body", "Edit", "Span"]

#: Lists, objects, members and items of a whole body: those of about 8,000 messages with tool calls, four to
#: ten times what fits in a context of a million tokens. Decoding them takes about 50 ms.
MAX_VALUES: Final = 250_000
#: Names at the top level. The formats know about forty.
MAX_MEMBERS: Final = 1_000

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_FEWER: Final = "send fewer messages and tools"
_DEPTH: Final = "about 1,000 levels are read"

#: A member's name up to its value; the first one also takes the opening brace.
_NAME: Final = re.compile(rb'[\s,{]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*+:\s*+')


#: Where something stands in the body: ``raw[start:end]``. A plain tuple, because there are many.
Span: TypeAlias = tuple[int, int]

#: A span, and the bytes to put in its place.
Edit: TypeAlias = tuple[Span, bytes]


class Body:
    """The top level of one JSON object, and where each value stands."""

    __slots__ = ("members", "raw", "readable")

    def __init__(self, raw: bytes) -> None:
        """Read the top level.

        Raises:
            MalformedRequest: not a JSON object.
            TooLarge: nested deeper than the decoder goes (about 1,000 levels), more than ``MAX_VALUES``
                values, or more than ``MAX_MEMBERS`` of them at the top level.
        """
        if len(raw) > LARGE and count_values(raw, MAX_VALUES) > MAX_VALUES:
            raise TooLarge(f"the request body holds more than {MAX_VALUES} values", hint=_FEWER)
        self.raw = raw
        self.readable = raw  # the same length; differs from ``raw`` only in lone surrogates
        try:
            self.members = _decode_members(raw)
        except RecursionError:
            raise TooLarge("the request body is nested too deep", hint=_DEPTH) from None
        except (msgspec.DecodeError, UnicodeError) as error:
            self._reread(error)
        if len(self.members) > MAX_MEMBERS:
            raise TooLarge(f"the request body has more than {MAX_MEMBERS} members")

    def _reread(self, error: Exception) -> None:
        """Read again with every lone surrogate replaced; relay the body as it came all the same."""
        self.readable = without_halves(self.raw)
        if self.readable == self.raw:
            raise MalformedRequest(_reason(error, self.raw)) from None
        try:
            self.members = _decode_members(self.readable)
        except RecursionError:
            raise TooLarge("the request body is nested too deep", hint=_DEPTH) from None
        except (msgspec.DecodeError, UnicodeError) as again:
            raise MalformedRequest(_reason(again, self.raw)) from None

    def text(self, name: str) -> str | None:
        """Return a member that is a string; None when absent.

        Raises:
            MalformedRequest: the member is there and not a string.
        """
        value = self.members.get(name)
        if value is None:
            return None
        try:
            return _decode_text(value)
        except (msgspec.DecodeError, UnicodeError):
            raise MalformedRequest(f'"{name}" must be a string', param=name) from None

    def is_true(self, name: str) -> bool:
        """Whether a member is literally ``true``."""
        value = self.members.get(name)
        return value is not None and bytes(memoryview(value)[:4]) == b"true"

    def span(self, name: str) -> Span | None:
        """Return where one top-level value stands; None when absent.

        Walks the members up to it, each of known length. The bytes found must be those decoded: where a name
        stands twice, the decoder returns the last, and another reader might take the first.

        Raises:
            MalformedRequest: this name, or one before it, is a duplicate key.
        """
        if name not in self.members:
            return None
        readable, at = self.readable, 0
        for member, value in self.members.items():
            found = _NAME.match(readable, at)
            if found is None:
                break
            written, view, start = found[1], memoryview(value), found.end()
            if written != member.encode() and _decode_text(b'"%s"' % written) != member:
                break
            if not readable.startswith(view, start):
                break
            at = start + view.nbytes
            if member == name:
                return start, at
        raise MalformedRequest("duplicate key in the request body")

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """Return the body with spans replaced, every other byte as it came. Spans must not overlap."""
        view = memoryview(self.raw)
        parts: list[bytes | memoryview] = []
        at = 0
        for (start, end), new in sorted(edits):
            parts += (view[at:start], new)
            at = end
        parts.append(view[at:])
        return b"".join(parts)


def _reason(error: Exception, raw: bytes) -> str:
    if not raw.strip():
        return "the request body is empty"
    if raw.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the request body begins with a byte order mark; JSON is UTF-8 without one"
    if isinstance(error, msgspec.ValidationError):
        return f"the request body must be a JSON object: {error}"
    return f"the request body is not valid JSON: {error}"
