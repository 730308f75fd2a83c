"""Heads that read a vector beside the n-grams: fitted, written, read and asked with the real encoders."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from pointsman.encoders import load_encoder
from pointsman.encoders.learned_routers import load_scorer
from pointsman.learning.datasets import Features
from pointsman.learning.fit import fit_tiers
from pointsman.learning.learning import Corpus, Predicted, fit_weights
from pointsman.learning.rankers import persons_text
from pointsman.tiers.learned_router import read_learned_router
from support.outcomes import made_up

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("features", "size"), [(Features.STATIC, 256), (Features.SENTENCE, 384)])
def test_the_file_scores_as_the_fit_did(tmp_path: Path, features: Features, size: int) -> None:
    rows = made_up(60)
    fitted = fit_tiers(rows, features=features).learned_router
    file = tmp_path / "mine.json"
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(fitted, similarity=(-1.0, -0.5))))
    learned_router = read_learned_router(file.read_bytes(), "mine.json")
    assert learned_router.dense is not None
    assert (learned_router.dense.kind, len(learned_router.dense.weak)) == (features, 2 * size)
    scorer = load_scorer(file)
    corpus = Corpus.of(rows, load_encoder(features))
    everything = np.arange(len(rows))
    weights = fit_weights(corpus, everything)
    weak, strong = Predicted.by(weights, corpus, everything).raw((-1.0, -0.5))
    for index in range(0, 60, 7):
        said = scorer.score(persons_text(rows[index].prompt), rules=corpus.rules[index]).score
        assert said == pytest.approx(strong[index] - weak[index], abs=2e-3)
