"""Patterns as trees: the linear-time subset of regular expressions, parsed once for every engine.

What cannot be matched in linear time, or means different things to different engines, is refused here with
its reason, so that a lexicon that loads works the same wherever it is used.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NoReturn, TypeAlias

import msgspec

from pointsman.errors import LexiconError
from pointsman.evidence._chars import (
    DIGIT,
    DOT,
    EVERYTHING,
    MARKS,
    SPACE,
    WORD,
    CharSet,
    charset,
    complement,
    intersect,
    lowered,
    single,
)

__all__ = ["Alt", "Chars", "Edge", "Node", "Repeat", "Seq", "literal", "nullable", "parse"]


class Chars(msgspec.Struct, frozen=True):
    """One character out of a set."""

    set: CharSet


class Edge(Enum):
    """A place between characters."""

    START = "^"
    END = "$"
    BOUNDARY = "\\b"


class Seq(msgspec.Struct, frozen=True):
    """One after the other; nothing at all when empty."""

    items: tuple[Node, ...]


class Alt(msgspec.Struct, frozen=True):
    """Any of several; nothing matches when there is none."""

    options: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True):
    """The same several times."""

    item: Node
    least: int
    most: int | None  # None = no upper limit


Node: TypeAlias = Chars | Edge | Seq | Alt | Repeat

#: RE2 refuses counted repeats, nested ones multiplied, of more than 1,000; so does every engine here.
_MAX_COUNT: Final = 1000
#: Characters of a pattern written out; past it automata grow to megabytes.
_MAX_SIZE: Final = 5000

_CLASSES: Final = {
    "d": DIGIT,
    "D": complement(DIGIT),
    "s": SPACE,
    "S": complement(SPACE),
    "w": WORD,
    "W": complement(WORD),
}
_MARKS: Final = frozenset(MARKS)
_MARKED: Final = "holds a control character that marks up texts (STX, ETX, GS, RS or US)"
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_HEX: Final = {"x": 2, "u": 4, "U": 8}
_EDGES: Final = {"b": Edge.BOUNDARY, "A": Edge.START, "Z": Edge.END, "z": Edge.END}
_GROUPS: Final = {
    "=": "look-around",
    "!": "look-around",
    "<=": "look-around",
    "<!": "look-around",
    "P=": "a back-reference",
    ">": "an atomic group",
    "(": "a conditional group",
}


def literal(text: str) -> Seq:
    """The tree of a literal text, lower-cased.

    Raises:
        LexiconError: it holds one of the control characters that mark up every text.
    """
    if not _MARKS.isdisjoint(text):
        raise LexiconError(
            f"pattern {text!r} cannot be used: it holds a control character (STX, ETX, GS, RS or US)"
        )
    return Seq(tuple(Chars(single(char)) for char in text.lower()))


def nullable(node: Node) -> bool:
    """Whether the empty text matches."""
    match node:
        case Chars():
            return False
        case Seq(items=items):
            return all(map(nullable, items))
        case Alt(options=options):
            return any(map(nullable, options))
        case Repeat(item=item, least=least):
            return least == 0 or nullable(item)
        case _:
            return True


def parse(pattern: str) -> Node:
    """Parse a regular expression.

    Letters match without regard to case. ``^`` and ``$`` are the ends of the whole text. Lazy quantifiers
    mean the same as greedy ones: only whether a pattern occurs is asked.

    Raises:
        LexiconError: names the pattern, the place in it and why it is refused.
    """
    parser = _Parser(pattern)
    node = parser.whole()
    if nullable(node):
        parser.refuse("it matches the empty text")
    if edge := _misplaced(node, first=True, last=True):
        parser.refuse(f"{edge.value} can match nothing there", hint="write ^ first and $ last")
    if (size := _size(node)) > _MAX_SIZE:
        parser.refuse(f"written out it has {size:,} characters, more than {_MAX_SIZE:,}")
    return node


def _misplaced(node: Node, *, first: bool, last: bool) -> Edge | None:
    """A ``^`` that is not first in its alternative, or a ``$`` that is not last."""
    match node:
        case Edge.START:
            return None if first else node
        case Edge.END:
            return None if last else node
        case Seq(items=items):
            end = len(items) - 1
            found = (
                _misplaced(x, first=first and i == 0, last=last and i == end) for i, x in enumerate(items)
            )
        case Alt(options=options):
            found = (_misplaced(option, first=first, last=last) for option in options)
        case Repeat(item=item, most=most):
            return _misplaced(item, first=first and most == 1, last=last and most == 1)
        case _:
            return None
    return next(filter(None, found), None)


def _size(node: Node) -> int:
    match node:
        case Seq(items=items):
            return sum(map(_size, items))
        case Alt(options=options):
            return sum(map(_size, options))
        case Repeat(item=item, least=least, most=most):
            return _size(item) * max(least, most or 1)
        case _:
            return 1


def _counts(node: Node) -> int:
    """The product of nested counted repeats."""
    match node:
        case Seq(items=items) | Alt(options=items):
            return max(map(_counts, items), default=1)
        case Repeat(item=item, least=least, most=most):
            return _counts(item) * max(least, most or 1)
        case _:
            return 1


def _is_single(chars: CharSet) -> bool:
    return len(chars) == 1 and chars[0][0] == chars[0][1]


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        raise LexiconError(f"pattern {self._pattern!r} cannot be used: {reason}", hint=hint)

    def whole(self) -> Node:
        if self._pattern.startswith("(?i)"):
            self._at = 4  # case is folded anyway
        node = self._alternatives()
        if self._at < len(self._pattern):
            self.refuse(f'unbalanced ")" at {self._at}')
        return node

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            self.refuse("it ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _alternatives(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            items.append(self._quantified(self._atom()))
        return items[0] if len(items) == 1 else Seq(tuple(items))

    def _atom(self) -> Node:
        start = self._at
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return Chars(self._set())
            case ".":
                return Chars(DOT)
            case "^":
                return Edge.START
            case "$":
                return Edge.END
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                self.refuse(f'"{char}" at {start} has nothing to repeat')
        return self._literal(char)

    def _literal(self, char: str) -> Node:
        try:
            return literal(char)
        except LexiconError:
            self.refuse(f"it {_MARKED}")

    def _group(self) -> Node:
        start = self._at
        if self._take("?"):
            for mark, name in _GROUPS.items():
                if self._peek(mark):
                    self.refuse(f"it uses {name} at {start - 1}, which no linear-time engine has")
            if self._take("P<"):
                self._at = self._pattern.find(">", self._at) + 1 or len(self._pattern)
            elif not self._take(":"):
                self.refuse(f"unknown group at {start - 1}", hint="write (?: … ) for a plain group")
        node = self._alternatives()
        if not self._take(")"):
            self.refuse(f'"(" at {start - 1} is never closed')
        return node

    def _escape(self) -> Node:
        start = self._at - 1
        char = self._next()
        if char in _EDGES:
            return _EDGES[char]
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char in "123456789k":
            self.refuse(f"it uses a back-reference at {start}, which no linear-time engine has")
        return self._literal(self._escaped(char, start))

    def _escaped(self, char: str, start: int) -> str:
        """The character of an escape."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX:
            digits = self._pattern[self._at : self._at + _HEX[char]]
            self._at += len(digits)
            try:
                return chr(int(digits, 16))
            except ValueError:
                self.refuse(f"bad character code at {start}")
        if char.isalnum():
            self.refuse(f'unknown escape "\\{char}" at {start}')
        return char

    def _set(self) -> CharSet:
        start = self._at - 1
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._peek("]"):
            first = False
            ranges += self._set_member(start)
        self._at += 1
        chars = charset(ranges)
        chars = complement(chars) if negated else intersect(chars, EVERYTHING)
        if not chars:
            self.refuse(f"the set at {start} has no characters")
        return chars

    def _set_member(self, start: int) -> CharSet:
        if self._peek("[:"):
            self.refuse(f"it uses a POSIX class at {self._at}", hint=r"write \w, \d, \s or ranges")
        low = self._set_char(start)
        if not _is_single(low):
            return low  # a class such as \w, which holds both cases
        if not self._peek("-") or self._peek("-]"):
            return lowered(low)
        self._at += 1
        high = self._set_char(start)
        if not _is_single(high) or high < low:
            self.refuse(f"bad range in the set at {start}")
        return lowered(((low[0][0], high[0][0]),))

    def _set_char(self, start: int) -> CharSet:
        if self._at >= len(self._pattern):
            self.refuse(f'"[" at {start} is never closed')
        char = self._next()
        if char != "\\":
            return single(char)
        escape = self._at - 1
        char = self._next()
        return _CLASSES[char] if char in _CLASSES else single(self._escaped(char, escape))

    def _quantified(self, item: Node) -> Node:
        start = self._at
        bounds = self._bounds()
        if bounds is None:
            return item
        least, most = bounds
        self._take("?")
        if self._peek("+"):
            self.refuse(f"it uses a possessive quantifier at {start}, which no linear-time engine has")
        if nullable(item):
            self.refuse(f"the quantifier at {start} repeats something that can be empty")
        if most is not None and most < least:
            self.refuse(f"the quantifier at {start} ends below its beginning")
        node = Repeat(item, least, most)
        if _counts(node) > _MAX_COUNT:
            self.refuse(f"the quantifier at {start} repeats more than {_MAX_COUNT:,} times")
        if self._at < len(self._pattern) and self._pattern[self._at] in "*+?":
            self.refuse(f"two quantifiers in a row at {self._at}")
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        for mark, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(mark):
                return bounds
        end = self._pattern.find("}", self._at)
        if not self._peek("{") or end < 0:
            return None
        low, comma, high = self._pattern[self._at + 1 : end].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or not high):
            return None  # a brace that stands for itself
        self._at = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)
