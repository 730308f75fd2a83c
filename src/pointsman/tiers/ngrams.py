"""Hashed words and word pairs: what the learned head reads of a text.

No vocabulary is kept, so a head file holds nobody's words. Digits count by how many there are, not by which.
Letters stand together as words where their UTF-8 form has at most two bytes: Latin, Greek, Cyrillic, Hebrew,
Arabic. A character of any other script, or a symbol, stands alone, so that pairs of them do the work of words
in scripts without spaces.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final
from zlib import crc32

__all__ = ["BUCKETS", "ngrams"]

#: Buckets of words, and as many again of pairs. On the development data 2**15 ranks as well as 2**17 does
#: (APGR .715 and .714).
BUCKETS: Final = 1 << 15

#: Characters read. The longest prompts of the development data have 6,000; a pasted book decides nothing.
READ: Final = 8_000

#: On bytes, because hashing needs bytes: a word, digits, one character of three or four bytes, a symbol.
_WORDS: Final = re.compile(rb"[a-z\x80-\xdf]+|0+|[\xe0-\xf7][\x80-\xbf]+|\S").findall
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)

_MASK: Final = BUCKETS - 1

#: Any odd number that fills the mask: it tells "first then" from "then first".
_SPREAD: Final = 0x6A09


def ngrams(text: str) -> tuple[set[int], set[int]]:
    """The buckets of a text's words, in 0..``BUCKETS``-1, and of its pairs of neighbours, above those.

    The same on every machine.
    """
    found = _WORDS(text[:READ].lower().encode("utf-8", "surrogatepass").translate(_DIGITS))
    words = [word & _MASK for word in map(crc32, found)]
    pairs = {(first * _SPREAD + second) & _MASK | BUCKETS for first, second in pairwise(words)}
    return set(words), pairs
