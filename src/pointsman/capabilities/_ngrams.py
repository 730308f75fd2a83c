"""Features of a text that need no model: words, word pairs and pieces of words, hashed.

Pieces of words (3 and 4 characters, padded at the word's edges) bridge inflection and typing errors; pairs
keep a little order. Measured on CLINC150 with ten examples per intent: words and pairs with pieces of 3–4
characters .738 top-1, 3–5 .732, 4 alone .735 (docs/decisions/0051).

Not the n-grams of ``tiers/ngrams.py``: those belong to the format of a learned router file (65,536 buckets of
CRC-CCITT, words and pairs), whose weights would be void under any other hash.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, compress, pairwise, repeat
from operator import mul, truediv
from typing import Final
from zlib import crc32

__all__ = ["Frequencies", "Vector", "counts"]

#: A sparse vector: feature -> weight.
Vector = dict[int, float]

_PIECES: Final = (3, 4)
_PIECE_SEED: Final = 1  # "the" as a word and "the" as a piece of one are different features
#: Features are numbers below this. 200 capabilities with ten examples have some 100,000, so one in ten
#: collides.
_FEATURES: Final = 1 << 20
#: Characters read of one text: a task is a sentence or two; more costs time and blurs it.
_MAX_CHARACTERS: Final = 4_000
#: All but letters and digits, as ``str.isalnum`` tells them.
_OTHER: Final = re.compile(r"[\W_]")
#: Characters of a word whose pieces are remembered.
_LONGEST_KEPT: Final = 30


def counts(text: str) -> tuple[Counter[int], Counter[int]]:
    """Counts of (words and pairs of words, pieces of words). crc32, because ``hash`` differs per process."""
    letters = text[:_MAX_CHARACTERS].lower()
    words = _OTHER.sub(" ", letters).split()
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    whole = Counter([crc32(token.encode()) % _FEATURES for token in (*words, *pairs)])
    pieces = Counter(chain.from_iterable(map(_pieces, words)))
    return whole, pieces


def _pieces(word: str) -> tuple[int, ...]:
    return _pieces_kept(word) if len(word) <= _LONGEST_KEPT else _pieces_of(word)


def _pieces_of(word: str) -> tuple[int, ...]:
    padded = f" {word} "
    return tuple(
        crc32(padded[start : start + size].encode(), _PIECE_SEED) % _FEATURES
        for size in _PIECES
        for start in range(max(len(padded) - size, 0) + 1)
    )


#: The words of a language repeat; 4 MB when full.
_pieces_kept: Final = lru_cache(maxsize=8_192)(_pieces_of)


@lru_cache(maxsize=1_024)
def _gain(count: int) -> float:
    """Weight of a feature by how often a text holds it."""
    return 1 + math.log(count)


class Frequencies:
    """How rare each feature is among some texts: ``log((1 + texts) / (1 + texts with it)) + 1``.

    Kept as one flat array (4 MB): a dict of the same would take twenty.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Count every feature once per text."""
        seen = Counter(key for text in texts for block in counts(text) for key in block)
        self._weights = array("f", bytes(4 * _FEATURES))
        for key, count in seen.items():
            self._weights[key] = math.log((1 + len(texts)) / (1 + count)) + 1
        self._rarest = math.log((1 + len(texts)) / 2) + 1

    def vector(self, text: str) -> Vector:
        """The text as a vector: logarithmic counts times rarity; both kinds of features weigh the same.

        Features never seen lengthen the vector like the rarest ones and are then left out, so that a text of
        mostly unknown words is close to nothing (length below 1).
        """
        rarest = self._rarest
        vector: Vector = {}
        for block in counts(text):
            known = [*map(self._weights.__getitem__, block)]
            weights = [*map(mul, map(_gain, block.values()), [rarity or rarest for rarity in known])]
            length = math.sqrt(2 * sum(map(mul, weights, weights))) or 1.0
            parts = map(truediv, compress(weights, known), repeat(length))
            vector.update(zip(compress(block, known), parts, strict=True))
        return vector
