"""Local judgement: both indexes learn the same things, probabilities behave, calibrations fit their index."""

import json
import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pointsman.capabilities import (
    Calibration,
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    LocalScorer,
    TaskClassifierGuide,
)
from pointsman.capabilities._ngrams import MAX_ROWS, training_rows
from pointsman.capabilities._scorer import clauses
from pointsman.capabilities.calibration import (
    Observation,
    default_calibration,
    fit,
    observe,
    observe_held_out,
    pairs,
)
from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from support.capabilities import REGISTRY
from support.examples import share

TASKS = {
    "is it going to be rainy weather today": "current_weather",
    "tell me what time it is": "clock",
    "read the new e-mail messages": "mail",
}


@pytest.fixture(scope="module", params=["none", "static"])
def scorer(request: pytest.FixtureRequest) -> LocalScorer:
    return LocalScorer(REGISTRY, load_encoder(request.param))


def test_the_right_capability_is_the_likeliest(scorer: LocalScorer) -> None:
    for task, name in TASKS.items():
        probabilities = scorer.probabilities(task)
        assert max(probabilities, key=probabilities.__getitem__) == name, task


def test_a_task_from_another_world_is_unlikely_everywhere(scorer: LocalScorer) -> None:
    nothing = max(scorer.probabilities("polynomial factorisation over finite fields").values())
    assert nothing < min(max(scorer.probabilities(task).values()) for task in TASKS)


@pytest.mark.parametrize("encoder", ["none", "static"])
def test_a_negative_example_lowers_its_own_capability_only(encoder: str) -> None:
    def raw(*examples: ClassifierExample) -> dict[str, float]:
        guides = {
            "clock": TaskClassifierGuide(
                "tells the time", [ClassifierExample("what time is it", result=True)]
            )
        }
        guides["timer"] = TaskClassifierGuide("counts the time down", examples)
        registry = CapabilityRegistry(Capability(name, guide) for name, guide in guides.items())
        index = LocalScorer(registry, load_encoder(encoder)).index
        return dict(zip(guides, index.score("what time is it now"), strict=True))

    without = raw(ClassifierExample("count down the time from ten", result=True))
    with_negative = raw(
        ClassifierExample("count down the time from ten", result=True),
        ClassifierExample("what time is it", result=False),
    )
    assert with_negative["timer"] < without["timer"] - 0.1
    assert with_negative["clock"] > 0.8 * without["clock"]


def test_an_example_scored_without_itself_scores_lower_than_with(scorer: LocalScorer) -> None:
    positives = [row for row in training_rows(REGISTRY) if row.example and row.positive]
    held_out = [each for each in scorer.index.held_out() if each.positive]
    assert [each.capability for each in held_out] == [row.capability for row in positives]
    for row, each in zip(positives, held_out, strict=True):
        assert each.scores[row.capability] < scorer.index.score(row.text)[row.capability]


def test_examples_without_letters_are_legal(scorer: LocalScorer) -> None:
    odd = CapabilityRegistry(
        [Capability("?", TaskClassifierGuide("", [ClassifierExample("!?", result=True)]))]
    )
    encoder = getattr(scorer.index, "_encoder", None)
    assert 0 <= LocalScorer(odd, encoder).probabilities("!")["?"] <= 1


@pytest.fixture(scope="module")
def two_fits() -> tuple[LocalScorer, LocalScorer]:
    """Scorers made apart: what one gives is no memory of the other. Each takes a tenth of a second."""
    return LocalScorer(REGISTRY), LocalScorer(REGISTRY)


@settings(max_examples=share(0.6))
@given(st.text(max_size=300))
def test_probabilities_are_probabilities_and_deterministic(
    two_fits: tuple[LocalScorer, LocalScorer], text: str
) -> None:
    once, again = (scorer.probabilities(text) for scorer in two_fits)
    assert list(once) == [each.name for each in REGISTRY.get_all_capabilities()]
    assert all(0 <= p <= 1 for p in once.values())
    assert again == once


def test_too_many_examples_are_cut_evenly_in_order() -> None:
    many = [ClassifierExample(f"query {at}", result=True) for at in range(MAX_ROWS)]
    guide = TaskClassifierGuide("x", many)
    rows = training_rows(CapabilityRegistry([Capability("a", guide), Capability("b", guide)]))
    assert len(rows) == MAX_ROWS
    assert rows[1].text == "query 0"


def test_a_calibration_for_another_index_is_refused() -> None:
    with pytest.raises(ConfigError, match='for the index "kernel/x", not "lexical/1"'):
        LocalScorer(REGISTRY, calibration=Calibration("kernel/x", 1, 1, 1))


def test_a_calibration_survives_json_and_nonsense_is_refused() -> None:
    made = Calibration("lexical/1", 20.0, -8.0, -4.0, {"mail": 0.5}, "abc")
    assert Calibration.from_json(json.loads(json.dumps(made.to_json()))) == made
    for wrong in ({}, {"index": "x", "slope": "steep", "rival": 1, "intercept": 1}):
        with pytest.raises(ConfigError, match="not a calibration of capabilities"):
            Calibration.from_json(wrong)
    with pytest.raises(ConfigError, match="no calibration for the encoder"):
        default_calibration("crystal-ball/1")


def test_pairs_put_each_score_beside_the_best_other() -> None:
    assert pairs([0.1, 0.5, 0.3]) == [(0.1, 0.5), (0.5, 0.3), (0.3, 0.5)]
    assert pairs([0.5, 0.5]) == [(0.5, 0.5), (0.5, 0.5)]
    assert pairs([0.4]) == [(0.4, 0.0)]
    assert pairs([]) == []


def test_many_rivals_are_observed_as_one() -> None:
    seen = observe([0.9, 0.5, 0.4, 0.3, 0.2, 0.0], [0])
    assert [(each.capability, each.needed, each.weight) for each in seen] == [
        (0, True, 1),
        (1, False, 1),
        (2, False, 1),
        (3, False, 1),
        (None, False, 2),
    ]
    assert seen[-1].own == pytest.approx(0.1)


def test_a_fit_finds_the_curve_that_made_the_data() -> None:
    generator = random.Random(7)
    start = Calibration("lexical/1", 10.0, 0.0, 0.0)
    true = Calibration("lexical/1", 20.0, -8.0, -4.0)
    observations = []
    for _ in range(4000):
        own, rival = generator.random(), generator.random()
        p = true.probabilities([own, rival], ["a", "b"])[0]
        observations.append(Observation(0, own, rival, needed=generator.random() < p))
    fitted = fit(observations, start, names=["a", "b"])
    assert fitted.slope == pytest.approx(20, abs=4)
    assert fitted.rival == pytest.approx(-8, abs=2)
    assert fitted.intercept == pytest.approx(-4, abs=1)


def test_with_nothing_to_learn_from_a_fit_stays_where_it_starts() -> None:
    start = default_calibration("lexical/1")
    fitted = fit([], start, names=["a"])
    assert (fitted.slope, fitted.rival, fitted.intercept, fitted.offsets) == (
        start.slope,
        start.rival,
        start.intercept,
        {},
    )


def test_a_capability_that_is_missed_more_often_gets_an_offset() -> None:
    start = default_calibration("lexical/1")
    missed = [Observation(0, 0.2, 0.1, needed=True)] * 40 + [Observation(1, 0.2, 0.1, needed=False)] * 40
    offsets = fit(missed, start, names=["a", "b"]).offsets
    assert offsets["a"] > 0 > offsets["b"]


def test_guides_teach_what_serves_a_task_and_what_nothing_serves(scorer: LocalScorer) -> None:
    observations = observe_held_out(scorer.index.held_out())
    assert any(each.needed for each in observations)
    assert any(each.weight < 1 for each in observations)  # seen as though its capability were absent
    negative = [each for each in REGISTRY.get_all_capabilities()[0].guide.examples if not each.result]
    assert len(negative) == 1


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("What time is it?", []),
        ("bread and butter", []),
        ("send a mail to Anna and tell me the time", ["send a mail to Anna", "tell me the time"]),
        ("Is it raining? What time is it?", ["Is it raining", "What time is it?"]),
        ("My card is lost. What do I do?", []),
        ("a b c; d e f; g h i; j k l; m n o", ["a b c", "d e f", "g h i", "j k l"]),
        ("rock and roll music from the sixties and seventies", []),
    ],
)
def test_a_task_is_split_where_it_joins_requests(task: str, expected: list[str]) -> None:
    assert clauses(task) == expected


def test_two_requests_in_one_task_find_both(scorer: LocalScorer) -> None:
    probabilities = scorer.probabilities("send an email to Anna and tell me what time it is")
    assert sorted(probabilities, key=probabilities.__getitem__)[-2:] in (["clock", "mail"], ["mail", "clock"])
