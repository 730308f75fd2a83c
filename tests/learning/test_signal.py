"""The test of the signal: real labels are told from labels that belong to other prompts."""

from dataclasses import replace

import numpy as np
import pytest

from pointsman.learning.fit import PERMUTATIONS, signal_chance
from pointsman.learning.learning import Corpus
from support.outcomes import made_up

CORPUS = Corpus.of(made_up(300))


def with_vectors(corpus: Corpus) -> Corpus:
    """A vector that tells the gain, among noise."""
    noise = np.random.default_rng(1).normal(size=(len(corpus), 8))
    noise[:, 0] += corpus.strong - corpus.weak
    return replace(corpus, vectors=noise)


@pytest.mark.parametrize("corpus", [CORPUS, with_vectors(CORPUS)], ids=["n-grams", "vectors"])
def test_a_signal_is_found(corpus: Corpus) -> None:
    assert signal_chance(corpus) == pytest.approx(1 / (1 + PERMUTATIONS))
    assert signal_chance(corpus) == signal_chance(corpus)


def test_shuffled_labels_have_none() -> None:
    chances = []
    for seed in range(20):
        other = np.random.default_rng(seed).permutation(len(CORPUS))
        shuffled = replace(CORPUS, weak=CORPUS.weak[other], strong=CORPUS.strong[other])
        chances.append(signal_chance(shuffled, seed=seed))
    assert sum(chance <= 0.025 for chance in chances) <= 2
    assert 0.2 < np.mean(chances) < 0.8


def test_length_alone_is_no_signal() -> None:
    draw = np.random.default_rng(0)
    log_length = draw.normal(5, 1, len(CORPUS))
    gain = (log_length + draw.normal(0, 0.1, len(CORPUS)) > 5).astype(float)
    vectors = draw.normal(size=(len(CORPUS), 8))
    corpus = replace(CORPUS, weak=0 * gain, strong=gain, log_length=log_length, vectors=vectors)
    assert signal_chance(corpus) > 0.025


def test_duplicates_count_once() -> None:
    rows = made_up(60)
    once, thrice = Corpus.of(rows), Corpus.of([*rows, *rows, *rows])
    assert signal_chance(thrice) == pytest.approx(signal_chance(once), abs=0.05)
