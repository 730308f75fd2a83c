"""Trees of patterns as the source text that an engine reads; all patterns of a signal table, once each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from pointsman.errors import LexiconError
from pointsman.evidence._chars import (
    APART,
    ASCII,
    BLANK_IMAGE,
    END_FRAME,
    LINE_IMAGE,
    MARKS,
    OUTSIDE,
    SEPARATOR,
    SPACE,
    START_FRAME,
    UTF8,
    WORD,
    CharSet,
    charset,
    complement,
    intersect,
    is_word,
    single,
)
from pointsman.evidence._pattern import Alt, Chars, Edge, Node, Repeat, Seq, literal, parse
from pointsman.evidence._signals import Kind, Signal, SignalTable

# Trees of patterns as the source text that an engine reads.


# Maps text and patterns to ASCII, which compiles several times faster and runs a third faster.
#
# A word may be bounded by any of a million characters, and automata pay for each class of them. So the runs
# of a text that are neither ASCII nor part of a word (Han, curly quotes, emoji) are set apart by separators,
# and white space beyond ASCII is replaced by a mark, once per text. Then a bound is one ASCII byte: a
# character of no word, or a mark. Patterns that reach into such runs are looked for in the text as it is.


_REPLACEMENT: Final = "\ufffd"
_LINES: Final[CharSet] = ((0x2028, 0x2029),)
_BLANKS: Final = intersect(SPACE, complement(charset([*ASCII, *_LINES]), UTF8))
_IMAGES: Final = ((_LINES, LINE_IMAGE), (_BLANKS, BLANK_IMAGE))
_IMAGE_OF: Final = {
    chr(code): image for chars, image in _IMAGES for first, last in chars for code in range(first, last + 1)
}
_KEPT: Final = charset([*ASCII, *WORD])


def _class(chars: CharSet) -> str:
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in chars)


_RUN: Final = re.compile(f"([^{_class(_KEPT)}]++)")


def without_marks(text: str) -> str:
    """The text with the control characters that are our marks replaced."""
    for mark in MARKS:
        if mark in text:
            text = text.replace(mark, _REPLACEMENT)
    return text


def separated(text: str) -> str:
    """The text with marks around its runs of ``APART`` and for its white space beyond ASCII.

    The same object when there is neither.
    """
    for char, image in _IMAGE_OF.items():
        if char in text:
            text = text.replace(char, image)
    parts = _RUN.split(text)  # text, run, text, run, …
    return SEPARATOR.join(parts) if len(parts) > 1 else text


def for_separated(node: Node) -> Node | None:
    """A pattern without boundaries, as it is looked for in separated text.

    Separators occur only between ``APART`` and other characters. So a match without ``APART`` in it is the
    same in both texts; and where its first or last character may be anything ``APART``, a separator is found
    in its place.

    Returns:
        None when the pattern has to be looked for in the text as it is: one of its sets holds only a part
        of ``APART`` or of the white space, or holds ``APART`` and is neither first nor last.
    """
    rewritten = _rewrite(node, first=True, last=True)
    # Between a first and a last character taken from APART there must be one that is not.
    return rewritten if _least(node) > 2 or (rewritten == node) else None


def _rewrite(node: Node, *, first: bool, last: bool) -> Node | None:
    match node:
        case Chars(set=chars):
            return _rewrite_set(chars, is_edge=first or last)
        case Seq(items=items):
            end = len(items) - 1
            parts = [_rewrite(x, first=first and i == 0, last=last and i == end) for i, x in enumerate(items)]
            return None if None in parts else Seq(tuple(filter(None, parts)))
        case Alt(options=options):
            parts = [_rewrite(option, first=first, last=last) for option in options]
            return None if None in parts else Alt(tuple(filter(None, parts)))
        case Repeat(item=item, least=least, most=most):
            part = _rewrite(item, first=first and most == 1, last=last and most == 1)
            return part and Repeat(part, least, most)
        case _:
            return node


@lru_cache(maxsize=4096)
def _rewrite_set(chars: CharSet, *, is_edge: bool) -> Chars | None:
    marks: list[tuple[int, int]] = []
    for special, mark in (*_IMAGES, (APART, SEPARATOR)):
        held = intersect(chars, special)
        if held and (held != special or (special is APART and not is_edge)):
            return None
        marks += single(mark) if held else ()
    return Chars(charset([*intersect(chars, _KEPT), *marks]))


def _least(node: Node) -> int:
    """The fewest characters of a match; an end of the text counts, being a mark."""
    match node:
        case Chars() | Edge():
            return 1
        case Seq(items=items):
            return sum(map(_least, items))
        case Alt(options=options):
            return min(map(_least, options), default=0)
        case Repeat(item=item, least=least):
            return least * _least(item)


# Word boundaries written out as characters, so that every engine sees the same ones.
#
# Engines' own \b is ASCII, wrong inside "café", and look-around is not linear-time. Whether a pattern occurs
# does not change when it takes in the characters around it, so \bfix\b becomes: a character of no word,
# "fix", a character of no word; the frame around every scanned text serves at its ends. Inside a pattern the
# boundary restricts the characters at either side instead.


#: Ways through a pattern with boundaries in several alternatives; real ones have fewer than ten.
_MAX_PATHS: Final = 200

_Path: TypeAlias = tuple[Node, ...]


def without_boundaries(node: Node, pattern: str) -> Node:
    """The same pattern without ``BOUNDARY``.

    Raises:
        LexiconError: a boundary inside a repeat, too many ways through the pattern, or none.
    """
    if not _has_boundary(node):
        return node
    paths = _paths(node, pattern)
    resolved = [whole for path in paths for whole in _resolve(path)]
    if not resolved:
        raise LexiconError(f"pattern {pattern!r} cannot match: no character can match next to its \\b")
    return Alt(tuple(Seq(path) for path in resolved))


def _has_boundary(node: Node) -> bool:
    match node:
        case Seq(items=items) | Alt(options=items):
            return any(map(_has_boundary, items))
        case Repeat(item=item):
            return _has_boundary(item)
        case _:
            return node is Edge.BOUNDARY


def _paths(node: Node, pattern: str) -> list[_Path]:
    """Every way through the alternatives that hold a boundary, with the boundary at the top of each."""
    if not _has_boundary(node):
        return [(node,)]
    match node:
        case Seq(items=items):
            paths: list[_Path] = [()]
            for item in items:
                paths = [(*path, *rest) for path in paths for rest in _paths(item, pattern)]
                if len(paths) > _MAX_PATHS:
                    raise LexiconError(f"pattern {pattern!r} has \\b in too many alternatives")
            return paths
        case Alt(options=options):
            plain = tuple(option for option in options if not _has_boundary(option))
            bounded = [path for o in options if _has_boundary(o) for path in _paths(o, pattern)]
            return [*([(Alt(plain),)] if plain else []), *bounded]
        case Repeat(item=item, least=least, most=1):
            return [*([()] if least == 0 else []), *_paths(item, pattern)]
        case Repeat():
            raise LexiconError(
                f"pattern {pattern!r} has \\b inside a repeat", hint="write it before or after"
            )
        case _:
            return [(node,)]


def _resolve(path: _Path) -> list[_Path]:
    """The ways to meet the first boundary of a path, and then the others."""
    if Edge.BOUNDARY not in path:
        return [path]
    at = path.index(Edge.BOUNDARY)
    before, after = path[:at][::-1], path[at + 1 :]
    return [
        whole
        for left, right in ((WORD, OUTSIDE), (OUTSIDE, WORD))
        for first in _restrict(before, left, Edge.START)
        for second in _restrict(after, right, Edge.END)
        for whole in _resolve((*first[::-1], *second))
    ]


def _restrict(path: _Path, allowed: CharSet, end: Edge) -> list[_Path]:
    """The ways through a path on which the first character is an allowed one.

    Args:
        path: What follows the boundary, read away from it: to the right when ``end`` is END, to the left when
            it is START.
        allowed: WORD, or OUTSIDE, which an end of the text meets too.
        end: Which end of the text the path leads to.
    """
    if not path:  # the pattern ends here: the character beyond it is taken in
        return [(Chars(allowed),)]
    rest = path[1:]
    match path[0]:
        case Chars(set=chars):
            both = intersect(chars, allowed)
            return [(Chars(both), *rest)] if both else []
        case Seq(items=items):
            return _restrict((*(items if end is Edge.END else items[::-1]), *rest), allowed, end)
        case Alt(options=options):
            return _restrict_alternatives(options, rest, allowed, end)
        case Repeat(item=item, least=least, most=most):
            fewer = () if most == 1 else (Repeat(item, max(least - 1, 0), most and most - 1),)
            ways = _restrict((item, *fewer, *rest), allowed, end)
            return ways if least else [*ways, *_restrict(rest, allowed, end)]
        case Edge.BOUNDARY:  # the same place: the same condition
            return _restrict(rest, allowed, end)
        case _:  # the end of the text: ``parse`` lets no other edge stand here
            return [path] if allowed is OUTSIDE else []


def _restrict_alternatives(options: _Path, rest: _Path, allowed: CharSet, end: Edge) -> list[_Path]:
    """Alternatives that cannot begin with anything else stay together: fewer copies of the rest."""
    meeting = tuple(option for option in options if _begins_in(option, allowed, end))
    others = [o for o in options if o not in meeting]
    ways = [way for option in others for way in _restrict((option, *rest), allowed, end)]
    return [(Alt(meeting), *rest), *ways] if meeting else ways


def _begins_in(node: Node, allowed: CharSet, end: Edge) -> bool:
    """Whether every match of a node begins (read away from the boundary) with an allowed character."""
    match node:
        case Chars(set=chars):
            return intersect(chars, allowed) == chars
        case Seq(items=items):
            return bool(items) and _begins_in(items[0 if end is Edge.END else -1], allowed, end)
        case Alt(options=options):
            return all(_begins_in(option, allowed, end) for option in options)
        case Repeat(item=item, least=least):
            return least > 0 and _begins_in(item, allowed, end)
        case _:
            return False


def tree(signal: Signal) -> Node:
    """The pattern of a signal.

    A word is bounded only at edges that are characters of a word: "c++" may be followed by anything, and a
    literal of a script without spaces matches anywhere.

    Raises:
        LexiconError: the pattern is empty, or refused.
    """
    if not signal.pattern.strip():
        raise LexiconError("a pattern is empty")
    if signal.kind is Kind.REGEX:
        return parse(signal.pattern)
    text = signal.pattern.lower()
    before, after = _bounded(signal.kind, text)
    return Seq((*(Edge.BOUNDARY,) * before, *literal(text).items, *(Edge.BOUNDARY,) * after))


def _bounded(kind: Kind, text: str) -> tuple[bool, bool]:
    """Whether a literal text must begin at a word boundary, and end at one."""
    return kind is not Kind.SUBSTRING and is_word(text[0]), kind is Kind.WORD and is_word(text[-1])


#: Sources of signals. Another policy, or the next reload, mostly has the same: to parse them takes seconds.
#: A map, because ``lru_cache`` takes 130 bytes more for each; the built-in lexicons have 3,300.
_SOURCES: Final[dict[Signal, tuple[str, bool]]] = {}
_MOST_SOURCES: Final = 8_192


def engine_source(signal: Signal) -> tuple[str, bool]:
    """The pattern as Hyperscan and RE2 read it, in UTF-8 mode, and whether over ``separated`` text.

    Raises:
        LexiconError: the pattern is refused.
    """
    found = _SOURCES.get(signal)
    if found is None:
        found = _plain_source(signal) or _source_of_tree(signal)
        if len(_SOURCES) >= _MOST_SOURCES:
            _SOURCES.clear()
        _SOURCES[signal] = found
    return found


def _source_of_tree(signal: Signal) -> tuple[str, bool]:
    node = without_boundaries(tree(signal), signal.pattern)
    apart = for_separated(node)
    return _written(apart or node), apart is not None


def _plain_source(signal: Signal) -> tuple[str, bool] | None:
    """The same for most literal texts, which nearly all signals are, without a dear tree; None for others."""
    text = signal.pattern.lower()
    if signal.kind is Kind.REGEX or not text.strip() or any(map(text.__contains__, MARKS)):
        return None
    before, after = _bounded(signal.kind, text)
    written = "".join(map(_char, map(ord, text)))
    apart = separated(text) is text
    if before or after:
        written = f"(?:{_AROUND * before}{written}{_AROUND * after})"
        apart = apart and before + len(text) + after > 2  # else one separator may stand for both ends
    return (written, apart) if apart or not (before or after) else None


def _written(node: Node) -> str:
    match node:
        case Chars(set=chars):
            return _set(chars)
        case Seq(items=items):
            return "".join(map(_written, items))
        case Alt(options=options):
            return f"(?:{'|'.join(map(_written, options))})"
        case Repeat(item=item, least=least, most=most):
            return f"(?:{_written(item)}){{{least},{'' if most is None else most}}}"
        case _:
            return _FRAMES[node]


def _char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


@lru_cache(maxsize=4096)
def _set(chars: CharSet) -> str:
    if len(chars) == 1 and chars[0][0] == chars[0][1]:
        return _char(chars[0][0])
    negated = chars[-1][1] == 0x10FFFF
    ranges = complement(chars, UTF8) if negated else chars
    written = "".join(_char(a) if a == b else f"{_char(a)}-{_char(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{written}]"


_AROUND: Final = _written(_rewrite_set(OUTSIDE, is_edge=True) or Alt(()))  # no word, in separated text
_FRAMES: Final = {Edge.START: _set(single(START_FRAME)), Edge.END: _set(single(END_FRAME))}


class _Masks(dict[int, int]):
    """The bits of a source's signals, made when it is first found: 0.4 kB each, and there are thousands."""

    def __init__(self, table: SignalTable, signals: Sequence[Sequence[Signal]]) -> None:
        super().__init__()
        self._table: Final = table
        self._signals: Final = signals

    def __missing__(self, source: int) -> int:
        mask = self[source] = sum(map(self._table.bit, self._signals[source]))
        return mask


class PatternSet:
    """Sources for an engine; source *i* represents the signals in ``masks[i]``.

    Several lexicons name the same word: it is looked for once, and one hit sets the bits of all of them.
    """

    def __init__(self, table: SignalTable) -> None:
        """Parse every signal.

        Raises:
            LexiconError: names the signal and why its pattern is refused.
        """
        self.table: Final = table
        by_source: dict[str, list[Signal]] = {}
        reads_separated = 0
        for signal in table.signals:
            source, separated = _source(signal)
            by_source.setdefault(source, []).append(signal)
            reads_separated |= table.bit(signal) if separated else 0
        self.sources: Final = tuple(by_source)
        self.masks: Final = _Masks(table, [tuple(signals) for signals in by_source.values()])
        self._reads_separated: Final = reads_separated

    @property
    def digest(self) -> str:
        """Identity of the sources, for a cache."""
        return hashlib.sha256("\n".join(self.sources).encode(), usedforsecurity=False).hexdigest()

    def match(self, lowered: str, find: Callable[[bytes], Iterable[int]]) -> int:
        """The mask of signals in a lower-cased text, by an engine that finds sources in bytes.

        One pass; a second one over the text as it is where setting words apart changed it.
        """
        if any(map(lowered.__contains__, MARKS)):
            lowered = without_marks(lowered)
        apart = lowered if lowered.isascii() else separated(lowered)
        masks = self.masks
        hits = others = 0
        for index in find(framed(apart)):
            hits |= masks[index]
        if apart is lowered:
            return hits
        for index in find(framed(lowered)):
            others |= masks[index]
        return (hits & self._reads_separated) | (others & ~self._reads_separated)

    def refuse(self, index: int, reason: str) -> LexiconError:
        """The error for a source that an engine does not take."""
        signal = next(self.table.of(self.masks[index]))
        return LexiconError(f"{signal.id}: {reason}")


def forget_parsed() -> None:
    """Clear the caches of the parser of patterns, about 1 MB; the next policy fills them again."""
    for cached in (intersect, _rewrite_set, _set):
        cached.cache_clear()


def framed(text: str) -> bytes:
    """The UTF-8 bytes that an engine reads. A lone surrogate is no character of UTF-8 and becomes "?"."""
    return f"{START_FRAME}{text}{END_FRAME}".encode("utf-8", "replace")


def _source(signal: Signal) -> tuple[str, bool]:
    try:
        return engine_source(signal)
    except LexiconError as error:
        raise LexiconError(f"{signal.lexicon}/{signal.group}: {error.message}", hint=error.hint) from None
