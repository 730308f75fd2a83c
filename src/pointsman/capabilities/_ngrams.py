"""Features of a text that need no model: words, word pairs and pieces of words, hashed.

Pieces of words (3 and 4 characters, padded at the word's edges) bridge inflection and typing errors; pairs
preserve some order. Measured on CLINC150 with ten examples per intent: words and pairs with pieces of 3–4
characters .738 top-1, 3–5 .732, 4 alone .735 (docs/notebook/0051).

Not the n-grams of ``tiers/ngrams.py``: those belong to the format of a learned router file (65,536 buckets of
CRC-CCITT, words and pairs), with weights that would be void under any other hash.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, compress, pairwise, repeat
from operator import mul, truediv
from typing import Final
from zlib import crc32

from pointsman.capabilities._registry import CapabilityRegistry
from pointsman.remembering import remembered

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


def _pieces_of(word: str) -> tuple[int, ...]:
    padded = f" {word} "
    return tuple(
        crc32(padded[start : start + size].encode(), _PIECE_SEED) % _FEATURES
        for size in _PIECES
        for start in range(max(len(padded) - size, 0) + 1)
    )


#: The words of a language repeat; 4 MB when full.
_pieces: Final = remembered(_pieces_of, 8_192, _LONGEST_KEPT)


@lru_cache(maxsize=1_024)
def _gain(count: int) -> float:
    """Weight of a feature by how often a text holds it."""
    return 1 + math.log(count)


class Frequencies:
    """How rare each feature is among some texts: ``log((1 + texts) / (1 + texts with it)) + 1``.

    Stored as one flat array (4 MB): a dict of the same would take twenty.
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


# What both indexes of ``_scorer`` learn from.

#: Rows an index learns from. The kernel's solve grows with the cube: 4,000 rows take 2 s and 16 bytes each
#: per capability; more examples per capability than this allows add little (docs/notebook/0051).
MAX_ROWS: Final = 4_000


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One text an index learns from."""

    text: str
    capability: int  # position in the registry
    positive: bool
    example: bool  # False for the instructions


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An example scored as though the index had never seen it: what calibration learns from."""

    capability: int
    positive: bool
    scores: Sequence[float]


def training_rows(registry: CapabilityRegistry) -> list[TrainingExample]:
    """Instructions and examples as rows; the first examples of each capability when there are too many.

    Instructions are worth a row: with ten examples they add 2 to 4 points of top-1 on CLINC150 and MetaTool.
    """
    capabilities = registry.get_all_capabilities()
    share = max(MAX_ROWS // max(len(capabilities), 1) - 1, 1)
    rows: list[TrainingExample] = []
    for position, each in enumerate(capabilities):
        # The name is part of what a capability says about itself: "total_query_meta_search_engine".
        words = each.name.replace("_", " ").replace("-", " ")
        rows.append(
            TrainingExample(f"{words}: {each.guide.instructions}", position, positive=True, example=False)
        )
        rows += [
            TrainingExample(example.query, position, positive=example.result, example=True)
            for example in each.guide.examples[:share]
        ]
    return rows
