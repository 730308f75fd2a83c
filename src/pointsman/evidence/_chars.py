r"""Sets of characters, as ranges of code points, and the classes that patterns name.

One definition for every engine: what ``\s``, ``\d``, ``\w``, ``.`` and a word boundary mean does not depend
on the installed library of regular expressions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "APART",
    "ASCII",
    "BLANK_IMAGE",
    "DIGIT",
    "DOT",
    "END_FRAME",
    "EVERYTHING",
    "LINE_IMAGE",
    "MARKS",
    "OUTSIDE",
    "SEPARATOR",
    "SPACE",
    "START_FRAME",
    "UTF8",
    "WORD",
    "CharSet",
    "charset",
    "complement",
    "intersect",
    "is_word",
    "lowered",
    "single",
]

#: Ranges of code points, both ends included: sorted, apart from each other.
CharSet: TypeAlias = tuple[tuple[int, int], ...]

_LAST: Final = 0x10FFFF
#: Every character that UTF-8 can carry: surrogates are none.
UTF8: Final[CharSet] = ((0, 0xD7FF), (0xE000, _LAST))

#: Control characters that mark up every scanned text (``_patterns.framed``): before and after it, around its
#: runs that belong to no word, and in place of white space beyond ASCII. No pattern can name them.
START_FRAME: Final = "\x02"
END_FRAME: Final = "\x03"
LINE_IMAGE: Final = "\x1d"
BLANK_IMAGE: Final = "\x1e"
SEPARATOR: Final = "\x1f"
MARKS: Final = START_FRAME + END_FRAME + LINE_IMAGE + BLANK_IMAGE + SEPARATOR
#: Every other character: what a set in a pattern is taken from.
EVERYTHING: Final[CharSet] = ((0, 1), (4, 0x1C), (0x20, 0xD7FF), (0xE000, _LAST))


def charset(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Sort and merge ranges."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def single(char: str) -> CharSet:
    """The set of one character."""
    return ((ord(char), ord(char)),)


@lru_cache(maxsize=4096)  # a lexicon asks the same of the same few hundred letters
def intersect(one: CharSet, other: CharSet) -> CharSet:
    """Characters in both."""
    both = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return charset((first, last) for first, last in both if first <= last)


def complement(chars: CharSet, universe: CharSet = EVERYTHING) -> CharSet:
    """Characters outside the ranges."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for first, last in chars:
        gaps.append((start, first - 1))
        start = last + 1
    gaps.append((start, _LAST))
    return intersect(tuple(gap for gap in gaps if gap[0] <= gap[1]), universe)


#: Where capital letters are (Unicode character database, DerivedCoreProperties: Uppercase).
_CASED: Final = (
    (0x41, 0x5A),
    (0xC0, 0x556),
    (0x10A0, 0x10CD),
    (0x13A0, 0x13F5),
    (0x1C90, 0x1CBF),
    (0x1E00, 0x1FFF),
    (0x2126, 0x2183),
    (0x24B6, 0x24CF),
    (0x2C00, 0x2CF2),
    (0xA640, 0xA7FF),
    (0xFF21, 0xFF3A),
    (0x10400, 0x104D3),
    (0x10570, 0x10595),
    (0x10C80, 0x10CB2),
    (0x118A0, 0x118BF),
    (0x16E40, 0x16E5F),
    (0x1E900, 0x1E921),
)
_LOWER: Final = {
    code: ord(low)
    for first, last in _CASED
    for code in range(first, last + 1)
    if len(low := chr(code).lower()) == 1 and ord(low) != code
}
_CAPITALS: Final = sorted(_LOWER)


def lowered(chars: CharSet) -> CharSet:
    """The set with the lower case of each of its letters added, for matches in a lower-cased text."""
    lower = [
        (_LOWER[code], _LOWER[code])
        for first, last in chars
        for code in _CAPITALS[bisect_left(_CAPITALS, first) : bisect_right(_CAPITALS, last)]
    ]
    return charset([*chars, *lower]) if lower else chars


#: ``\d`` means ``[0-9]``: digits of other scripts are not step numbers (docs/notebook/0021).
DIGIT: Final[CharSet] = ((0x30, 0x39),)

#: ``\s``: WhiteSpace and LineTerminator of ECMAScript (docs/notebook/0021).
SPACE: Final[CharSet] = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)

#: ``.``: anything but a LineTerminator of ECMAScript.
DOT: Final[CharSet] = complement(((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)))

#: ``\w``, and what a word boundary lies beside: letters, marks and digits of the scripts that put spaces
#: between words. Han, Kana, Hangul and Thai are not among them, so that "用python写" holds the word "python";
#: neither are full-width forms, curly quotes, or the punctuation of Greek, Hebrew, Arabic and Hindi. Text is
#: lower-cased, so capitals are missing where they would only add ranges. Code points without a character are
#: counted in: fewer ranges, smaller automata (a set exact to the last code point compiles 13 times slower).
WORD: Final[CharSet] = (
    (0x30, 0x39),
    (0x5F, 0x5F),
    (0x61, 0x7A),
    (0xAA, 0xAA),
    (0xB5, 0xB5),
    (0xBA, 0xBA),
    (0xC0, 0xD6),
    (0xD8, 0xF6),
    (0xF8, 0x37D),  # Latin, its extensions, combining marks
    (0x37F, 0x386),
    (0x388, 0x559),  # Greek, Cyrillic, Armenian
    (0x560, 0x588),
    (0x591, 0x5BD),  # Hebrew
    (0x5BF, 0x5BF),
    (0x5C1, 0x5C2),
    (0x5C4, 0x5C5),
    (0x5C7, 0x5F2),
    (0x610, 0x61A),  # Arabic
    (0x620, 0x669),
    (0x66E, 0x6D3),
    (0x6D5, 0x963),  # ... to Devanagari
    (0x966, 0x96F),
    (0x971, 0xDFF),  # the other scripts of India
    (0x10A0, 0x10FA),  # Georgian
    (0x10FC, 0x10FF),
    (0x1200, 0x135F),  # Ethiopic
    (0x1369, 0x13FF),
    (0x1C80, 0x1FFF),  # Latin, Greek and Cyrillic extended
    (0x2C00, 0x2DFF),
    (0xA640, 0xA7FF),
    (0xAB00, 0xABBF),
    (0xFB00, 0xFDFB),  # presentation forms
    (0xFE20, 0xFE2F),
    (0xFE70, 0xFEFC),
)


ASCII: Final[CharSet] = ((0, 0x7F),)

#: What stands beside a word: any other character, marks included.
OUTSIDE: Final[CharSet] = complement(WORD, UTF8)

#: What is neither ASCII, nor part of a word, nor white space: Han, curly quotes, full-width forms, emoji.
APART: Final[CharSet] = complement(charset([*ASCII, *WORD, *SPACE]), UTF8)


def is_word(char: str) -> bool:
    """Whether a character of a lower-cased text belongs to a word."""
    code = ord(char)
    return any(first <= code <= last for first, last in WORD)
