"""``fit tiers --features kinds``: the prior of kinds, and what own labels add."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from pointsman.encoders import StaticEncoder
from pointsman.encoders.learned_routers import encoder_of, load_kinds, load_scorer, table_hash
from pointsman.errors import ConfigError
from pointsman.learning.datasets import Features, PromptOutcome
from pointsman.learning.fit import Fit, fit_tiers
from pointsman.learning.kinds_prior import LEAST_LABELS, fitter, kinds_of
from pointsman.learning.learning import Corpus, held_out
from pointsman.learning.rankers import persons_text
from pointsman.tiers.kinds import Kinds
from pointsman.tiers.learned_router import LearnedScorer, ScoreSource, read_learned_router
from support.outcomes import made_up, shuffled

ROWS = made_up(500)


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit_tiers(ROWS, features=Features.KINDS)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read(ROWS)


def read(rows: list[PromptOutcome]) -> Corpus:
    encoder, file = StaticEncoder(), load_kinds("default")
    assert file
    return Corpus.of(rows, encoder, Kinds(file, encoder, table_hash(encoder)))


def test_own_labels_add_to_the_prior(fitted: Fit) -> None:
    assert fitted.learned_router.claim.against["length"][1] > 0.1  # the low end of the interval


def test_the_file_scores_as_the_fit_did(fitted: Fit, corpus: Corpus, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(fitted.learned_router, similarity=(-1, -0.5)))
    )
    scorer, everything = load_scorer(file), np.arange(len(ROWS))
    weights = fitter(corpus)(corpus, everything)
    weak, strong = weights.evidence(corpus, everything)
    gain = strong - weak + weights.prior(corpus, everything)
    near = weights.similarity(corpus, everything)
    for index in range(0, len(ROWS), 37):
        said = scorer.score(persons_text(ROWS[index].prompt), rules=0.7)
        assert said.score == pytest.approx(gain[index], abs=2e-3)
        assert said.similarity == pytest.approx(near[index], abs=0.02)
        assert said.source is ScoreSource.NGRAMS


def test_a_stranger_is_ranked_by_the_prior(fitted: Fit) -> None:
    router = fitted.learned_router
    encoder = encoder_of(router)
    scorer, kinds = LearnedScorer(router, encoder), kinds_of(router, encoder)
    assert kinds
    text = "SELECT customer_id FROM orders LEFT JOIN invoices USING (order_id) GROUP BY 1"
    said = scorer.score(text)
    assert said.source is ScoreSource.PRIOR
    expected = router.length_slope * (np.log(len(text)) - router.log_length + kinds.shift(text))
    assert said.score == pytest.approx(expected, abs=1e-6)


def test_few_labels_leave_the_ranking_to_the_prior() -> None:
    few = read(made_up(LEAST_LABELS - 1))
    unseen = held_out(few, seed=0, fit=fitter(few))
    assert few.shifts is not None
    gain = unseen.raw[1] - unseen.raw[0]
    folds = gain - 0.06 * (few.log_length + few.shifts)
    assert len(set(np.round(folds, 9))) <= 5  # one constant for each fold: nothing was learned of the prompts


def test_labels_without_information_are_no_improvement() -> None:
    assert not fit_tiers(shuffled(ROWS), features=Features.KINDS).improves


def test_a_file_of_another_table_is_refused(fitted: Fit) -> None:
    router = fitted.learned_router
    assert router.head
    other = msgspec.structs.replace(
        router.head, kinds=msgspec.structs.replace(router.head.kinds, table="0" * 64)
    )
    with pytest.raises(ConfigError, match="table 000000000000; installed is"):
        encoder_of(msgspec.structs.replace(router, head=other))


def test_a_file_needs_its_encoder_and_whole_arrays(fitted: Fit) -> None:
    router = read_learned_router(msgspec.json.encode(fitted.learned_router), "mine")
    assert router.head
    with pytest.raises(ConfigError, match="needs the encoder"):
        LearnedScorer(router)
    for field, wrong in (("weak", b"1"), ("centres", b""), ("centres", b"123")):
        broken = msgspec.structs.replace(router.head, **{field: wrong})
        with pytest.raises(ConfigError, match="damaged"):
            LearnedScorer(msgspec.structs.replace(router, head=broken), StaticEncoder())


def test_a_short_text_is_no_evidence(fitted: Fit) -> None:
    scorer = LearnedScorer(fitted.learned_router, StaticEncoder())
    assert scorer.score("go on").source is ScoreSource.PRIOR


def sources_of_own_traffic(fitted: Fit, count: int = 100) -> list[ScoreSource]:
    scorer = LearnedScorer(fitted.learned_router, encoder_of(fitted.learned_router))
    return [scorer.score(persons_text(row.prompt)).source for row in made_up(count, seed=7)]


def test_labels_that_help_on_every_cluster_count_on_most_own_traffic(fitted: Fit) -> None:
    """With a gate at the median, what was learned counted for half of the traffic it was learned on."""
    assert sources_of_own_traffic(fitted).count(ScoreSource.NGRAMS) >= 65


def test_an_error_is_stated_by_the_careful_gate(fitted: Fit) -> None:
    router = fitted.learned_router
    assert router.error_similarity
    assert router.similarity[1] < router.error_similarity[0]
    scorer = LearnedScorer(router, encoder_of(router))
    said = [scorer.score(persons_text(row.prompt)) for row in made_up(100, seed=7)]
    strange = [each for each in said if each.similarity < router.error_similarity[0]]
    assert strange
    assert all(each.weak_error >= 0.5 for each in strange)


def test_where_nothing_is_learned_the_gate_stays_careful() -> None:
    few = read(made_up(LEAST_LABELS - 1))
    unseen = held_out(few, seed=0, fit=fitter(few))
    assert unseen.bounds == unseen.careful
