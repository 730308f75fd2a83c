"""``pointsman fit kinds``: kinds of prompts with the share of failures of each, from outcomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from sklearn.cluster import KMeans

from pointsman.errors import PointsmanError
from pointsman.learning.metrics import Rows
from pointsman.tiers.kinds import SCALE, Kind, Origin, PromptKinds
from pointsman.vocabulary import Encoder

__all__ = ["COUNT", "SHRINKAGE", "WEIGHT", "fit_kinds"]

#: Kinds told apart (docs/notebook/0151).
COUNT: Final = 64

#: Prompts that a kind has at least on average.
ROWS_PER_KIND: Final = 8

#: Pseudo-prompts of mean difficulty that each kind is shrunk by.
SHRINKAGE: Final = 20.0

#: Weight of a difference in difficulty beside ln(characters). Nothing above it loses less than .01 against
#: length on every development set left out (docs/notebook/0151).
WEIGHT: Final = 2.0

#: Words from which a kind is named, and how many.
_WORD: Final = re.compile(r"[a-z]{4,}")
_NAMED: Final = 4

#: Prompts that a word of a name stands in at least: a name or a rare word would quote a prompt.
_COMMON: Final = 20


def fit_kinds(
    texts: Sequence[str],
    difficulties: Sequence[float],
    encoder: Encoder,
    *,
    table: str,
    origins: Sequence[Origin] = (),
    count: int = COUNT,
    weight: float = WEIGHT,
    seed: int = 0,
) -> PromptKinds:
    """Find kinds by k-means over the encoder's vectors, and the shrunk mean difficulty of each.

    Args:
        texts: the user's words of each prompt.
        difficulties: share of models that failed at each, 0..1.
        encoder: a static one.
        table: hash of its table.
        origins: the data sets, for the file.
        count: kinds wanted; fewer where there are fewer than 8 prompts for each.
        weight: of a difference in difficulty relative to ln(characters).
        seed: of the first centres.

    Raises:
        PointsmanError: fewer than 16 prompts.
    """
    wanted = min(count, len(texts) // ROWS_PER_KIND)
    least = 2 * ROWS_PER_KIND
    if wanted < 2:
        raise PointsmanError(f"{len(texts)} outcomes are too few for kinds; at least {least} are needed")
    vectors = np.asarray(encoder.encode(texts), dtype=np.float64)
    failed = np.asarray(difficulties, dtype=np.float64)
    centres = KMeans(wanted, n_init=1, random_state=seed).fit(vectors).cluster_centers_
    centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    nearest = (vectors @ centres.T).argmax(axis=1)
    mean = float(failed.mean())
    names = _sentences(texts, nearest, wanted)
    kinds = []
    for kind in range(wanted):
        own = nearest == kind
        difficulty = float((failed[own].sum() + SHRINKAGE * mean) / (own.sum() + SHRINKAGE))
        kinds.append(Kind(names[kind], round(difficulty, 4), int(own.sum())))
    return PromptKinds(
        encoder=encoder.name,
        table=table,
        mean=round(mean, 4),
        weight=weight,
        origins=tuple(origins),
        kinds=tuple(kinds),
        vectors=np.rint(centres * SCALE).clip(-127, 127).astype(np.int8).tobytes(),
    )


def _sentences(texts: Sequence[str], nearest: Rows, count: int) -> list[str]:
    """Each kind by the words that occur in most of its prompts and in few others: no prompt is quoted."""
    every: Counter[str] = Counter()
    own: list[Counter[str]] = [Counter() for _ in range(count)]
    for text, kind in zip(texts, nearest, strict=True):
        found = set(_WORD.findall(text.lower()))
        every.update(found)
        own[kind].update(found)
    names = []
    for words in own:
        known = [word for word in words if every[word] >= _COMMON]
        ranked = sorted(known, key=lambda word: (-(words[word] ** 2) / every[word], word))
        names.append(
            f"like prompts about {', '.join(ranked[:_NAMED])}" if ranked else "like others of no common words"
        )
    return names
