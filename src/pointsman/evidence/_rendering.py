"""Trees of patterns as the source text that an engine reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from pointsman.errors import LexiconError
from pointsman.evidence._boundary import without_boundaries
from pointsman.evidence._chars import (
    END_FRAME,
    START_FRAME,
    UTF8,
    WORD,
    CharSet,
    complement,
    is_word,
    single,
)
from pointsman.evidence._pattern import Alt, Chars, Edge, Node, Repeat, Seq, literal, parse
from pointsman.evidence._separation import for_separated
from pointsman.evidence._signals import Kind, Signal

__all__ = ["engine_source", "oracle_source", "tree"]


class _Dialect(msgspec.Struct, frozen=True):
    """How an engine writes what engines write differently."""

    char: Callable[[CharSet], str]
    edges: dict[Edge, str]


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
    before = (Edge.BOUNDARY,) if signal.kind is not Kind.SUBSTRING and is_word(text[0]) else ()
    after = (Edge.BOUNDARY,) if signal.kind is Kind.WORD and is_word(text[-1]) else ()
    return Seq((*before, *literal(text).items, *after))


@lru_cache(
    maxsize=8_192
)  # the built-in lexicons have 3,300; another policy, or the next reload, mostly the same
def engine_source(signal: Signal) -> tuple[str, bool]:
    """The pattern as Hyperscan and RE2 read it, in UTF-8 mode, and whether over ``separated`` text.

    Raises:
        LexiconError: the pattern is refused.
    """
    node = without_boundaries(tree(signal), signal.pattern)
    apart = for_separated(node)
    return _render(apart or node, _ENGINE), apart is not None


def oracle_source(signal: Signal) -> str:
    """The pattern as ``re`` reads it, with look-around for boundaries. Raises ``LexiconError``."""
    return _render(tree(signal), _ORACLE)


def _render(node: Node, dialect: _Dialect) -> str:
    match node:
        case Chars(set=chars):
            return dialect.char(chars)
        case Seq(items=items):
            return "".join(_render(item, dialect) for item in items)
        case Alt(options=options):
            return f"(?:{'|'.join(_render(option, dialect) for option in options)})"
        case Repeat(item=item, least=least, most=most):
            most_written = "" if most is None else most
            return f"(?:{_render(item, dialect)}){{{least},{most_written}}}"
        case _:
            return dialect.edges[node]


def _set_writer(code: Callable[[int], str]) -> Callable[[CharSet], str]:
    def write(first: int) -> str:
        return chr(first) if chr(first).isascii() and chr(first).isalnum() else code(first)

    @lru_cache(maxsize=4096)
    def write_set(chars: CharSet) -> str:
        if len(chars) == 1 and chars[0][0] == chars[0][1]:
            return write(chars[0][0])
        negated = chars[-1][1] == 0x10FFFF
        ranges = complement(chars, UTF8) if negated else chars
        written = "".join(write(a) if a == b else f"{write(a)}-{write(b)}" for a, b in ranges)
        return f"[{'^' if negated else ''}{written}]"

    return write_set


_engine_set = _set_writer(lambda code: f"\\x{{{code:x}}}")
_oracle_set = _set_writer(lambda code: f"\\U{code:08x}")
_word = _oracle_set(WORD)

_ENGINE = _Dialect(
    _engine_set, {Edge.START: _engine_set(single(START_FRAME)), Edge.END: _engine_set(single(END_FRAME))}
)
_ORACLE = _Dialect(
    _oracle_set,
    {
        Edge.START: "\\A",
        Edge.END: "\\Z",
        Edge.BOUNDARY: f"(?:(?<={_word})(?!{_word})|(?<!{_word})(?={_word}))",
    },
)
