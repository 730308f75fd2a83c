"""A request body, read once: its members for the decision, their places for edits.

Everything that is not replaced reaches the upstream unchanged. A body is decoded by one typed decoder of its
format, which knows every documented member and splits the conversation into its items; the places of members
follow from their lengths. Only a body with members that no documentation names is also split by name.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.decoding import UNREADABLE, decode_items, decode_members, decode_text, without_halves
from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import LARGE
from pointsman.wire.format import ABSENT, Format, Items
from pointsman.wire.names import NAME, count_values, decoded_name, member_spans

__all__ = ["MAX_MEMBERS", "MAX_VALUES", "Body", "Edit", "Items", "Span"]

#: Lists, objects, members and items of a whole body: those of about 8,000 messages with tool calls, four to
#: ten times what fits in a context of a million tokens. Decoding them takes about 50 ms.
MAX_VALUES: Final = 250_000
#: Names at the top level. The formats know about forty.
MAX_MEMBERS: Final = 1_000

_encode: Final = msgspec.json.Encoder().encode
_FEWER: Final = "send fewer messages and tools"
_DEPTH: Final = "about 1,000 levels are read"

_MODEL_FIRST: Final = b'{"model":'  # as most clients begin
_MODEL_AT: Final = len(_MODEL_FIRST)
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
#: What stands between the items of a list, as encoders in use write it.
_BETWEEN: Final = (b",", b", ")
_SEPARATOR: Final = re.compile(rb"[\s,]*+")

#: Where something stands in the body: ``raw[start:end]``. A plain tuple, because there are many.
Span: TypeAlias = tuple[int, int]

#: A span, and the bytes to put in its place.
Edit: TypeAlias = tuple[Span, bytes]


class Body:
    """One request body, and the offsets of its members' values."""

    _members: dict[str, msgspec.Raw] | None = None
    #: The members by name, where all of them are known; what else is in a body, or wrong, is found later.
    _known: Any = None
    _model = "auto"
    _spans: dict[str, Span] | None = None  # of all members, where they have been looked for

    def __init__(self, wire: Format, raw: bytes, *, trusted: bool = False) -> None:
        """Read a body.

        Args:
            wire: Its format.
            raw: Its bytes.
            trusted: It comes from inside the process: nothing is refused before ``conversation``.

        Raises:
            MalformedRequest: not a JSON object, or a name occurs twice or in another spelling.
            TooLarge: nested deeper than the decoder goes (about 1,000 levels), more than ``MAX_VALUES``
                values, or more than ``MAX_MEMBERS`` of them at the top level.
        """
        if len(raw) > LARGE and not trusted and count_values(raw, MAX_VALUES) > MAX_VALUES:
            raise TooLarge(f"the request body holds more than {MAX_VALUES} values", hint=_FEWER)
        self.wire = wire
        self.raw = self.readable = raw  # readable has the same length; it differs only in lone surrogates
        try:
            known: Any = wire.members.known(raw)
            if (model := known.model) is not ABSENT:
                self._model = decode_text(model)
            self._known = known
        except UNREADABLE:
            if not trusted:
                self._split()
        # As many bytes as what was read takes without a space leave room for no other name.
        if not trusted and (self._known is None or len(raw) > LARGE or len(_encode(self._known)) != len(raw)):
            self._spans = member_spans(self.readable, self._end_of, wire.members.names)

    def _split(self) -> None:
        """Split a body by the names of its members."""
        try:
            members = self._by_name()
        except MalformedRequest:
            self.readable = without_halves(self.raw)  # it is relayed as it came all the same
            if self.readable == self.raw:
                raise
            members = self._by_name()
        if len(members) > MAX_MEMBERS:
            raise TooLarge(f"the request body has more than {MAX_MEMBERS} members")
        self._members = members

    def _by_name(self) -> dict[str, msgspec.Raw]:
        try:
            return decode_members(self.readable)
        except RecursionError:
            raise TooLarge("the request body is nested too deep", hint=_DEPTH) from None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise MalformedRequest(_reason(error, self.raw)) from None

    @property
    def members(self) -> Mapping[str, msgspec.Raw]:
        """Every member by name; costs a second reading of the body."""
        if self._members is None:
            self._members = decode_members(self.readable)
        return self._members

    def member(self, name: str) -> msgspec.Raw | None:
        """Return a member as JSON; None when absent."""
        value: msgspec.Raw = getattr(self._known, name, ABSENT)
        if value is ABSENT:
            return self.members.get(name) if self._known is None else None
        return self.members.get(name) if name == self.wire.items else value

    def asked(self) -> tuple[msgspec.Raw, ...]:
        """Return the members of ``Format.asked_names``; ``ABSENT`` for each that is not there."""
        if self._known is not None:
            return self.wire.asked(self._known)
        return tuple([self.members.get(name, ABSENT) for name in self.wire.asked_names])

    def __contains__(self, name: str) -> bool:
        if self._known is not None and name == self.wire.items:
            return getattr(self._known, name) is not None
        return self.member(name) is not None

    def conversation(self) -> tuple[Items, str]:
        """Return the items of the conversation, and the model asked for: ``auto`` by default.

        Raises:
            msgspec.MsgspecError: a member is missing or not of the format's shape.
            UnicodeError: a text is not UTF-8.
            RecursionError: the body is nested too deep.
        """
        if self._known is not None:
            return getattr(self._known, self.wire.items), self._model
        if self._members is not None and self.wire.items in self._members:
            try:
                model = self._members.get("model")
                items = decode_items(self._members[self.wire.items])
                return items, "auto" if model is None else decode_text(model)
            except UNREADABLE:
                pass  # not a list, or no text: the next decoder takes it or says what is wrong
        checked = self.wire.members.checked(self.readable)
        if self._members is None:
            self._members = decode_members(self.readable)
        return getattr(checked, self.wire.items), checked.model

    @property
    def is_empty(self) -> bool:
        """Whether it has no members at all."""
        return NAME.match(self.readable) is None

    @property
    def last_item(self) -> msgspec.Raw | None:
        """The last item of the conversation; None if finding it needs another reading."""
        items = getattr(self._known, self.wire.items, None)
        return items[-1] if isinstance(items, list) and items else None

    def items(self) -> Sequence[msgspec.Raw]:
        """Return the items of the conversation; none if it is one text or cannot be read."""
        try:
            items = self.conversation()[0]
        except UNREADABLE:
            return ()
        return () if items is None or isinstance(items, str) else items

    def item_spans(self, items: Sequence[msgspec.Raw], wanted: Sequence[int]) -> list[Span]:
        """Return the spans of some items of the conversation; empty if they are not found.

        Args:
            items: What ``items`` gives.
            wanted: Positions in it.
        """
        span = self.span(self.wire.items)
        if span is None:
            return []
        for between in _BETWEEN:
            spans = [_span_of(span, items, number, len(between)) for number in wanted]
            pairs = zip(spans, wanted, strict=True)
            if all(self.readable.startswith(items[number], start) for (start, _), number in pairs):
                return spans
        return self._walked(span[0] + 1, items, wanted)

    def _walked(self, at: int, items: Sequence[msgspec.Raw], wanted: Sequence[int]) -> list[Span]:
        """Spans of items in a list with other separators: each is searched behind the last."""
        spans: list[Span] = []
        for item in items[: max(wanted, default=-1) + 1]:
            separator = _SEPARATOR.match(self.readable, at)
            start = separator.end() if separator else at
            if not self.readable.startswith(item, start):
                return []
            at = start + len(item)
            spans.append((start, at))
        return [spans[number] for number in wanted]

    def text(self, name: str) -> str | None:
        """Return a member that is a string; None when absent.

        Raises:
            MalformedRequest: the member is there and not a string.
        """
        value = self.member(name)
        if value is None:
            return None
        try:
            return decode_text(value)
        except UNREADABLE:
            raise MalformedRequest(f'"{name}" must be a string', param=name) from None

    def is_true(self, name: str) -> bool:
        """Whether a member is literally ``true``."""
        value = self.member(name)
        return value is not None and bytes(value) == b"true"

    def span(self, name: str) -> Span | None:
        """Return the span of one top-level value; None when absent.

        Walks the members up to it, each of known length. The bytes found must be those decoded: where a name
        occurs twice, the decoder returns the last, and another reader might take the first.

        Raises:
            MalformedRequest: this name, or one before it, is a duplicate key.
        """
        if self._spans is not None:
            return self._spans.get(name) if name != self.wire.items or name in self else None
        if name == "model" and (first := self._model_first()):
            return first
        if name == self.wire.items and name not in self:
            return None
        at = 0
        seen: set[str] = set()
        while found := NAME.match(self.readable, at):
            start, member = found.end(), found[1].decode()
            if "\\" in member:
                member = decoded_name(found[1])
            if member in seen:
                break
            at = self._end_of(member, start)
            if at < 0:
                break
            if member == name:
                return start, at
            seen.add(member)
        if name not in self:
            return None
        raise MalformedRequest("duplicate key in the request body")

    def _model_first(self) -> Span | None:
        """Return the span of the model's name if it comes first, as most clients write it."""
        readable = self.readable
        if self._known is None or not readable.startswith(_MODEL_FIRST):
            return None
        value = self._known.model
        return (_MODEL_AT, _MODEL_AT + len(value)) if readable.startswith(value, _MODEL_AT) else None

    def _end_of(self, member: str, start: int) -> int:
        """End of a member's value that begins at ``start``; -1 if another value is found."""
        if member == self.wire.items:
            return self._end_of_items(start)
        known = self._known
        view = memoryview(self.members[member] if known is None else getattr(known, member))
        return start + view.nbytes if self.readable.startswith(view, start) else -1

    def _end_of_items(self, start: int) -> int:
        """End of the conversation that begins at ``start``; -1 if another value is found."""
        items: Items = None if self._known is None else getattr(self._known, self.wire.items)
        if isinstance(items, str):
            found = _STRING.match(self.readable, start)
            return found.end() if found and decode_text(found[0]) == items else -1
        if items is not None:
            for between in _BETWEEN:
                whole = b"[%s]" % between.join(items)
                if self.readable.startswith(whole, start):
                    return start + len(whole)
        view = memoryview(self.members[self.wire.items])
        return start + view.nbytes if self.readable.startswith(view, start) else -1

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """Return the body with spans replaced, every other byte as it came. Spans must not overlap."""
        view, edits = memoryview(self.raw), sorted(edits)
        if len(edits) == 1:  # of the model's name alone
            [((start, end), new)] = edits
            return b"".join((view[:start], new, view[end:]))
        parts: list[bytes | memoryview] = []
        at = 0
        for (start, end), new in edits:
            parts += (view[at:start], new)
            at = end
        parts.append(view[at:])
        return b"".join(parts)


def _span_of(conversation: Span, items: Sequence[msgspec.Raw], number: int, between: int) -> Span:
    """Span of an item of a list that begins after one bracket and separates items by ``between`` bytes."""
    start = conversation[0] + 1 + sum(map(len, items[:number])) + number * between
    return start, start + len(items[number])


def _reason(error: Exception, raw: bytes) -> str:
    if not raw.strip():
        return "the request body is empty"
    if raw.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the request body begins with a byte order mark; JSON is UTF-8 without one"
    if isinstance(error, msgspec.ValidationError):
        return f"the request body must be a JSON object: {error}"
    return f"the request body is not valid JSON: {error}"
