"""Hashed words and word pairs: what the learned head reads of a text.

No vocabulary is kept, so a head file holds nobody's words. Digits count by how many there are, not by which.
Letters of alphabets stand together as words; a character of any other script, or a symbol, stands alone, so
that pairs of them do the work of words in scripts without spaces.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final
from zlib import crc32

__all__ = ["BUCKETS", "READ", "word_buckets", "word_pairs", "words"]

#: Buckets of words, and as many again of pairs. On the development data 2**15 for both ranks as well as
#: 2**17 (APGR .715 and .714); words have a space of their own so that an unknown word is seen to be unknown.
BUCKETS: Final = 1 << 15

#: Characters read. The longest prompts of the development data have 6,000; a pasted book decides nothing.
READ: Final = 8_000

#: U+00DF..U+0DFF: Latin with marks, Greek, Cyrillic, Hebrew, Arabic and the Indic scripts, marks included.
_WORD: Final = re.compile(r"[a-z\u00df-\u0dff]+|0+|\S")
_DIGITS: Final = str.maketrans("123456789", "0" * 9)

#: Odd multiplier (2**32 divided by the golden ratio): spreads the first word of a pair over all bits.
_SPREAD: Final = 0x9E3779B1


def words(text: str) -> list[int]:
    """The hashes of a text's words, in order: 32 bits each, the same on every machine."""
    found = _WORD.findall(text[:READ].lower().translate(_DIGITS))
    return [crc32(word.encode("utf-8", "surrogatepass")) for word in found]


def word_buckets(hashes: list[int]) -> list[int]:
    """One bucket per word, in 0..``BUCKETS``-1."""
    return [word & (BUCKETS - 1) for word in hashes]


def word_pairs(hashes: list[int]) -> list[int]:
    """One bucket per pair of neighbours, in ``BUCKETS``..2 * ``BUCKETS``-1."""
    mask = BUCKETS - 1
    return [((first * _SPREAD + second >> 7) & mask) + BUCKETS for first, second in pairwise(hashes)]
