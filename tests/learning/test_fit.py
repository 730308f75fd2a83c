"""A router learns what there is to learn, says when there is nothing, and knows what it has never seen."""

from collections import Counter
from collections.abc import Sequence
from math import nan
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.fit import Fit, calibrate, claim, fit_tiers
from pointsman.learning.intervals import power_of
from pointsman.learning.learning import Corpus, fit_weights
from pointsman.learning.rankers import alike, persons_text
from pointsman.learning.tiers import evaluate_scored, score_prompts
from pointsman.stores.ledger import Entry, Outcome, PromptText, SqliteLedger
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.tiers.learned_router import Claim, LearnedScorer, ScoreSource, read_learned_router
from support.outcomes import HARD, made_up, shuffled

pytestmark = pytest.mark.slow

EQUAL = """
[upstreams.demo]
base_url = "demo:"
[models]
small = { upstream = "demo", id = "small", input_per_million = 1, output_per_million = 1 }
large = { upstream = "demo", id = "large", input_per_million = 9, output_per_million = 9 }
"""


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit_tiers(made_up(500))


@pytest.fixture(scope="module")
def scorer(fitted: Fit) -> LearnedScorer:
    return LearnedScorer(fitted.learned_router)


def test_a_head_that_learned_something_may_say_so(fitted: Fit) -> None:
    assert fitted.improves
    assert set(fitted.learned_router.claim.against) == {"random", "length", "seed", "default"}
    assert [row.ranker for row in fitted.rows] == [
        "random",
        "length",
        "seed",
        "default",
        "oracle",
        "learned_router",
    ]


def test_labels_without_information_are_no_improvement() -> None:
    assert not any(fit_tiers(shuffled(made_up(200), seed=seed), seed=seed).improves for seed in range(2))


def test_copies_of_a_prompt_are_not_held_out_from_one_another() -> None:
    """Learned by heart from one copy and "predicted" of the other, noise would rank above everything."""
    rows = shuffled(made_up(100)) * 3
    fit = fit_tiers(rows)
    assert not fit.improves
    assert fit.learned_router.claim.apgr < 0.7
    once = fit_tiers(shuffled(made_up(100))).learned_router.claim
    assert fit.learned_router.claim.high - fit.learned_router.claim.low > 0.8 * (once.high - once.low)


def test_copies_are_found_whatever_their_case_spaces_and_numbers() -> None:
    texts = ["Good day 17", "good  day 25 ", "day good 17", "", "GOOD\nDAY 99!", " ", "good day 5"]
    assert alike(texts).tolist() == [0, 0, 2, 3, 0, 3, 6]


@pytest.mark.parametrize(
    ("weak", "raw"),
    [
        ([0.0, 1.0] * 50, [0.1] * 100),  # nothing to rank by
        ([0.0] * 100, [0.0] * 100),
        ([0.5] * 100, np.linspace(-0.1, 0.1, 100).tolist()),  # every prompt said twice, once right
        ([0.0] * 50 + [1.0] * 50, np.linspace(-0.1, 0.1, 100).tolist()),  # told apart without a mistake
    ],
)
def test_odd_outcomes_are_calibrated_without_a_warning(weak: list[float], raw: list[float]) -> None:
    """Warnings are errors here."""
    found, error = calibrate(np.array(raw), np.array(weak), first=np.arange(100), seed=0)
    assert error.value < 0.2
    middle = sum(found.probability(value) for value in raw) / 100
    # Platt's targets are never sure: 51/52 and 1/52 for 50 of each.
    assert middle == pytest.approx((sum(weak) + 1) / 102, abs=0.01)


def test_platt_scaling_is_the_maximum_of_its_likelihood() -> None:
    draw = np.random.default_rng(4)
    raw = 0.05 * draw.normal(size=500)
    outcomes = (draw.random(500) < 1 / (1 + np.exp(-(0.4 + 15 * raw)))).astype(float)
    found, _ = calibrate(raw, outcomes, first=np.arange(500), seed=0)
    right = outcomes.sum()
    soft = np.where(outcomes == 1, (right + 1) / (right + 2), 1 / (500 - right + 2))
    left = 1 / (1 + np.exp(-(found.offset + found.slope * raw))) - soft
    assert left.sum() == pytest.approx(0, abs=1e-3)  # the gradient is zero there
    assert (left * raw).sum() == pytest.approx(0, abs=1e-3)


def test_a_ranking_below_chance_is_no_improvement_on_a_worse_one() -> None:
    """Where the short prompts are the hard ones, a router beats length and rules without being of use."""
    draw = np.random.default_rng(0)
    ease = draw.uniform(size=600)  # longer prompts are easier for the weak model
    weak, strong = (draw.random(600) < ease).astype(float), np.ones(600)
    worse = dict.fromkeys(("length", "seed", "default"), ease)
    below = {**worse, "random": np.zeros(600), "learned_router": ease + draw.normal(size=600)}
    found = claim(below, weak, strong, first=np.arange(600), seed=0)
    assert all(found.against[name][1] > 0 for name in worse)
    assert found.high < 0.5
    assert not found.improves
    assert claim({**below, "learned_router": -ease}, weak, strong, first=np.arange(600), seed=0).improves


def test_a_fresh_set_confirms_it(scorer: LearnedScorer) -> None:
    rows = {row.ranker: row for row in evaluate_scored(score_prompts(made_up(400, seed=9), scorer))}
    assert rows["learned_router"].low > rows["length"].high
    assert rows["random"].apgr == pytest.approx(0.5)


def test_probabilities_are_those_of_the_topic(scorer: LearnedScorer) -> None:
    hard = scorer.score("please tell me about the theorem and some lemma of homology with proof")
    easy = scorer.score("please tell me about the weather and some recipe with football for lunch")
    assert hard.p_weak < 0.5 < easy.p_weak
    assert hard.p_strong == pytest.approx(0.92, abs=0.08)
    assert hard.score > easy.score


@pytest.mark.parametrize("text", ["", "x", "?", "Ωμέγα ξύλο θάλασσα", "量子场论的重整化群方程"])
def test_unknown_words_are_ranked_by_length_alone(scorer: LearnedScorer, text: str) -> None:
    said = scorer.score(text)
    assert said.source is ScoreSource.PRIOR
    assert said.similarity < 0.1  # a word may fall into a bucket that is in use
    slope = scorer.learned_router.length_slope
    assert said.score == pytest.approx(slope * (np.log(max(len(text), 1)) - scorer.learned_router.log_length))


def test_of_two_unknown_prompts_the_longer_gets_the_strong_model(scorer: LearnedScorer) -> None:
    short, long = scorer.score("zzz yyy xxx www"), scorer.score("zzz yyy xxx www vvv uuu ttt sss rrr")
    assert short.source is long.source is ScoreSource.PRIOR
    assert short.score < long.score


def test_of_a_known_world_the_head_speaks_in_full_half_the_time(scorer: LearnedScorer) -> None:
    sources = Counter(scorer.score(row.prompt).source for row in made_up(400, seed=3))
    assert 0.4 < sources[ScoreSource.NGRAMS] / 400 < 0.7
    assert sources[ScoreSource.PRIOR] / 400 < 0.2


def test_fitting_repeats_to_the_byte() -> None:
    rows = made_up(60)
    assert msgspec.json.encode(fit_tiers(rows).learned_router) == msgspec.json.encode(
        fit_tiers(rows).learned_router
    )


def test_the_file_holds_no_words_and_is_small(fitted: Fit) -> None:
    data = msgspec.json.encode(fitted.learned_router)
    assert len(data) < 2_000_000
    assert not any(word.encode() in data for word in HARD)


def test_the_file_scores_as_the_fit_did(fitted: Fit) -> None:
    """Live scoring in plain Python and the matrices of the fit are two ways to the same number."""
    rows = made_up(500)
    corpus = Corpus.of(rows)
    everything = np.arange(len(rows))
    weights = fit_weights(corpus, everything)
    learned_router = msgspec.structs.replace(
        read_learned_router(msgspec.json.encode(fitted.learned_router), "learned_router"),
        similarity=(-1.0, -0.5),
    )
    scorer = LearnedScorer(learned_router)
    weak, strong = weights.evidence(corpus, everything)
    prior = weights.prior(corpus, everything)
    for index in range(0, 500, 25):
        said = scorer.score(persons_text(rows[index].prompt), rules=corpus.rules[index]).score
        assert said == pytest.approx(strong[index] - weak[index] + prior[index], abs=2e-3)


def test_groups_get_an_offset_only_where_the_caller_names_them(scorer: LearnedScorer) -> None:
    assert set(scorer.learned_router.offsets) == {"easy", "hard"}
    text = "please tell me tell me what for and when with any"
    assert (
        scorer.score(text, domain="hard").p_weak
        < scorer.score(text).p_weak
        < scorer.score(text, domain="easy").p_weak
    )
    assert scorer.score(text, domain="unheard of") == scorer.score(text)


def test_too_few_outcomes_are_refused() -> None:
    with pytest.raises(PointsmanError, match="39 outcomes are too few"):
        fit_tiers(made_up(39))


def test_a_few_prompts_said_often_are_too_few() -> None:
    with pytest.raises(PointsmanError, match="78 outcomes of 39 different prompts are too few"):
        fit_tiers(made_up(39) * 2)


def test_models_the_wrong_way_round_are_refused() -> None:
    rows = [PromptOutcome(row.prompt, row.strong, row.weak) for row in made_up(60)]
    with pytest.raises(PointsmanError, match="not better") as caught:
        fit_tiers(rows)
    assert "--weak" in caught.value.hint


def refusal_of(rows: Sequence[PromptOutcome]) -> PointsmanError:
    with pytest.raises(PointsmanError, match=f"not better on these {len(rows)} prompts") as refused:
        fit_tiers(rows, weak_model="small", strong_model="large")
    return refused.value


def test_equal_models_are_an_answer_with_their_scores() -> None:
    """Labels given to the newest pairs first made "the first 30" another set at every fit: false advice."""
    refused = refusal_of([PromptOutcome(row.prompt, row.weak, row.weak) for row in made_up(300)])
    mean = np.mean([row.weak for row in made_up(300)])
    assert refused.message.endswith(f'"large" scores {mean:.3f} and "small" {mean:.3f}')
    assert refused.hint.startswith('"pointsman report quality" says whether the cheaper model is good enough')


def test_outcomes_of_one_model_a_prompt_tell_no_equality() -> None:
    """Their estimates were counted as pairs: "a difference of -0.037 [-0.750, -0.635]", and advice by it."""
    rows = [
        PromptOutcome(row.prompt, nan, float(n % 30 != 0), drawn=(0.9, 0.1), session=f"s-{n}")
        if n % 10 == 0
        else PromptOutcome(row.prompt, float(n % 9 != 0), nan, drawn=(0.9, 0.1), session=f"s-{n}")
        for n, row in enumerate(made_up(300))
    ]
    refused = refusal_of(rows)
    assert "by estimates from the outcomes of one model a prompt" in str(refused)
    assert "[" not in str(refused)
    assert "serve with the cheaper" not in refused.hint
    assert "label the answers of both models to the same prompts" in refused.hint


def test_a_few_equal_labels_are_no_advice_and_no_contradiction(tmp_path: Path) -> None:
    """45 prompts whose labels are equal: ``fit tiers`` leaves the verdict to ``report quality``."""
    config, data = tmp_path / "pointsman.toml", tmp_path / "outcomes.jsonl"
    config.write_text(EQUAL)
    ledger = SqliteLedger(tmp_path / "ledger.sqlite", text="full")
    for number, row in enumerate(made_up(45)):
        name = f"d-{number}"
        entries: tuple[Entry, ...] = (
            a_decision(name, session=f"s-{number}"),
            an_answer(name, model="small"),
            PromptText(decision=name, text=row.prompt),
            *(Outcome(decision=name, model=model, score=row.weak) for model in ("", "large")),
        )
        for entry in entries:
            ledger.append(entry)
    ledger.close()

    def run(*arguments: str) -> Result:
        where = ["--ledger", str(tmp_path / "ledger.sqlite")] if arguments[0] != "fit" else []
        return CliRunner().invoke(app, [*arguments, *where])

    data.write_text(run("outcomes", "export", "--weak", "small", "--strong", "large").stdout)
    models = ("--weak", "small", "--strong", "large")
    refused = run("fit", "tiers", "--data", str(data), "--out", str(tmp_path / "router.json"), *models)
    error = refused.exception
    assert isinstance(error, PointsmanError)
    reported = run("report", "quality", "--config", str(config)).stdout
    said = "Not known yet: “small” beside “large” needs about 435 more pairs ("
    assert reported.startswith(said)
    assert str(error).startswith("the strong model is not better on these 45 prompts: ")
    assert error.hint.startswith('"pointsman report quality" says')


@pytest.mark.parametrize(
    ("against", "smallest", "labels"),
    [((0.05, 0.01, 0.09), 0.0571, 131), ((0.2, 0.16, 0.24), 0.0571, 9), ((-0.01, -0.05, 0.03), 0.0571, None)],
)
def test_power_says_what_the_labels_could_have_shown(
    against: tuple[float, float, float], smallest: float, labels: int | None
) -> None:
    power = power_of(Claim(100, 0.5, 0.4, 0.6, {"length": against}, improves=False))
    assert power.difference == against[0]
    assert power.smallest == pytest.approx(smallest, abs=1e-4)
    assert power.labels == labels
