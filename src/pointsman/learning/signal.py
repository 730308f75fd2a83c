"""Whether prompts say more of the strong model's gain than their length does: one test over all labels.

A held-out comparison of rankings spends labels on fitting, and its error is that of right or wrong answers.
This test fits nothing: it asks whether alike prompts have alike gains once the length is taken out. It is the
score test of a random effect whose covariance is the likeness of the prompts (Goeman et al. 2004, "A global
test for groups of genes"), with its null distribution by permutation within strata of length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from scipy import sparse

from pointsman.learning.learning import RARITY_FLOOR, Corpus, Floats, Rows

__all__ = ["signal_chance"]

#: Permutations: the smallest chance is 1/1,000, and one of .025 has a standard error of .005.
PERMUTATIONS: Final = 999

#: Prompts of about the same length, among which gains are exchanged.
STRATUM: Final = 20

#: Permutations computed at once: what they take stays below 100 MB.
_TOGETHER: Final = 37


def signal_chance(corpus: Corpus, *, seed: int = 0) -> float:
    """The probability of so much likeness of gains among alike prompts, if only their length mattered.

    Duplicate prompts count once, with their mean gain. Likeness is that of the encoder's vectors where there
    are any, else of n-grams weighted by rarity.
    """
    rows, place, counts = np.unique(corpus.first, return_inverse=True, return_counts=True)
    gains = np.bincount(place, corpus.strong - corpus.weak) / counts
    strata = _strata(corpus.log_length[rows])
    left = gains - (np.bincount(strata, gains) / np.bincount(strata))[strata]
    features = _features(corpus, rows)
    alike = _alikeness(features, left[None, :])[0]
    draw = np.random.default_rng(seed)
    drawn = np.concatenate([_alikeness(features, part) for part in _permuted(left, strata, draw)])
    return float((1 + (drawn >= alike).sum()) / (1 + PERMUTATIONS))


def _strata(log_length: Floats) -> Rows:
    strata = np.empty(len(log_length), dtype=np.intp)
    strata[np.argsort(log_length, kind="stable")] = np.arange(len(log_length)) // STRATUM
    return strata


def _features(corpus: Corpus, rows: Rows) -> Any:
    if corpus.vectors is not None:
        vectors = corpus.vectors[rows]
        return vectors - vectors.mean(axis=0)
    present = corpus.ngrams[rows]
    counts = np.asarray(present.sum(axis=0)).ravel()
    weighted = present @ sparse.diags(np.sqrt(np.log((1 + len(rows)) / (1 + counts)) + RARITY_FLOOR))
    norms = np.sqrt(np.maximum(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel(), 1e-12))
    return (sparse.diags(1 / norms) @ weighted).tocsr()


def _permuted(left: Floats, strata: Rows, draw: np.random.Generator) -> Iterator[Floats]:
    """Permutations within strata, some at a time. Shape ``(k, n)``."""
    order = np.argsort(strata, kind="stable")
    for start in range(0, PERMUTATIONS, _TOGETHER):
        part = np.empty((min(_TOGETHER, PERMUTATIONS - start), len(left)))
        for row in part:
            row[order] = left[np.lexsort((draw.random(len(left)), strata))]
        yield part


def _alikeness(features: Any, left: Floats) -> Floats:
    """Sum over pairs of prompts of their likeness times what both have left. Shape ``(k,)``."""
    return np.asarray(((features.T @ left.T) ** 2).sum(axis=0)).ravel()
