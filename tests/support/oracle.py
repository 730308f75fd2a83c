"""The oracle that the pattern engines are tested against: one ``re`` search per signal, slow and obvious."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pointsman.evidence import Signal, SignalTable
from pointsman.evidence._chars import UTF8, WORD, CharSet, complement
from pointsman.evidence._pattern import Alt, Chars, Edge, Node, Repeat, Seq
from pointsman.evidence._patterns import tree, without_marks

__all__ = ["ReMatcher", "oracle_source"]


class ReMatcher:
    """A ``Matcher``."""

    def __init__(self, table: SignalTable) -> None:
        self._compiled = [(table.bit(s), re.compile(oracle_source(s))) for s in table.signals]

    def match(self, lowered: str, /) -> int:
        """Return the mask of signals that occur in the text."""
        text = without_marks(lowered).encode("utf-8", "replace").decode()
        hits = 0
        for bit, pattern in self._compiled:
            if pattern.search(text):
                hits |= bit
        return hits


def oracle_source(signal: Signal) -> str:
    """The pattern as ``re`` reads it, with look-around for boundaries. Raises ``LexiconError``."""
    return _written(tree(signal))


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
            return _EDGES[node]


def _char(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\U{code:08x}"


@lru_cache(maxsize=4096)
def _set(chars: CharSet) -> str:
    if len(chars) == 1 and chars[0][0] == chars[0][1]:
        return _char(chars[0][0])
    negated = chars[-1][1] == 0x10FFFF
    ranges = complement(chars, UTF8) if negated else chars
    written = "".join(_char(a) if a == b else f"{_char(a)}-{_char(b)}" for a, b in ranges)
    return f"[{'^' if negated else ''}{written}]"


_WORD: Final = _set(WORD)
_EDGES: Final = {
    Edge.START: "\\A",
    Edge.END: "\\Z",
    Edge.BOUNDARY: f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
}
