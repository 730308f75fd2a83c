"""Whether the cheap model is good enough."""

from __future__ import annotations

import random
from typing import Literal

import msgspec
import pytest

from pointsman.learning.intervals import Z, margin_score, paired_interval
from pointsman.reports.good_enough import LEVEL, LOOKS, GoodEnough, decided
from pointsman.reports.labels import ScoredAnswers, good_enough, quality_report, queue
from pointsman.reports.outcomes import scores_of
from pointsman.stores.ledger import Outcome, Record, ShadowAnswer
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.vocabulary import AgentRole, ModelSpec, Reason, Tier

MODELS = {
    name: ModelSpec(name, "main", name, input_per_million=price, output_per_million=price)
    for name, price in (("cheap", 1.0), ("strong", 9.0))
}


def judged(pairs: list[tuple[float, float]]) -> GoodEnough:
    """What is said of scores of the cheap and of the strong model."""
    return good_enough(scored(pairs), MODELS)


def scored(pairs: list[tuple[float, float]]) -> list[Record]:
    """A session for each pair of scores."""
    records = []
    for number, (cheap, strong) in enumerate(pairs):
        said = (
            Outcome(decision=f"d-{number}", score=cheap),
            Outcome(decision=f"d-{number}", score=strong, model="strong"),
        )
        answer = an_answer(f"d-{number}", model="cheap")
        records.append(Record(a_decision(f"d-{number}", session=f"s-{number}"), (answer,), said, None))
    return records


@pytest.mark.parametrize(
    ("pairs", "answer"),
    [
        ([(1.0, 1.0)] * 300, "yes"),
        ([(1.0, 0.0)] * 100 + [(0.0, 1.0)] * 2, "yes"),
        ([(0.0, 1.0)] * 100 + [(1.0, 1.0)] * 100, "no"),
        ([(1.0, 1.0)] * 29, "not known yet"),  # however good: too few
        ([(1.0, 1.0)] * 239, "not known yet"),  # decided by the first 120, which exclude .059 and no less
        ([(1.0, 1.0)] * 60 + [(0.0, 1.0)] * 4 + [(1.0, 0.0)] * 3, "not known yet"),
    ],
)
def test_the_answer_follows_the_interval(pairs: list[tuple[float, float]], answer: str) -> None:
    found = judged(pairs)
    said = [str(each) for each in quality_report(scored(pairs), MODELS).blocks()]
    assert any(each.startswith("To use a model that is good enough") for each in said) == (answer == "yes")
    assert (found.answer, found.cheap, found.strong, found.pairs) == (answer, "cheap", "strong", len(pairs))
    assert found.low <= found.difference <= found.high
    assert (found.missing > 0) is (answer == "not known yet")
    assert found.sentence().lower().startswith(answer)


def test_without_pairs_nothing_is_said() -> None:
    one = Record(a_decision("d"), (an_answer("d", model="cheap"),), (Outcome(decision="d", score=1.0),), None)
    assert good_enough([one] * 1_000, MODELS) == GoodEnough("not known yet")
    assert "no request has scored answers of two models" in good_enough([], MODELS).sentence()


def test_pairs_of_one_kind_and_of_different_sessions_count() -> None:
    def a_pair(number: int, session: str, score: float, *, at: float = 0.0, source: str = "api") -> Record:
        name = f"d-{number}"
        said = (
            Outcome(decision=name, score=score, at=at, source=source),
            Outcome(decision=name, score=1.0, at=at, model="strong"),
        )
        return Record(a_decision(name, session=session), (an_answer(name, model="cheap"),), said, None)

    judges = [a_pair(number, f"j-{number}", 0.0, source="judge:large") for number in range(7)]
    signs = [a_pair(number, f"i-{number}", 0.0, source="implicit:retry") for number in range(10, 15)]
    alone = good_enough([*judges, *signs], MODELS)
    assert (alone.answer, alone.cheap, alone.left_out) == ("not known yet", "", 12)
    later = [a_pair(number, "s-20", 0.0, at=2.0) for number in range(200, 300)]
    first = [a_pair(number, f"s-{number}", 1.0, at=1.0) for number in range(20, 60)]
    sub = a_pair(300, "s-20:explore", 0.0, at=2.0)
    asked = msgspec.structs.replace(sub.decision.input, role=AgentRole.SUBAGENT)
    later.append(msgspec.structs.replace(sub, decision=msgspec.structs.replace(sub.decision, input=asked)))
    found = good_enough([*judges, *later, *signs, *first], MODELS)
    assert (found.pairs, found.looked, found.difference) == (40, 30, 0.0)
    assert (found.left_out, found.repeated) == (12, 101)


def test_labels_that_name_the_model_which_served_are_of_the_same_answer() -> None:
    """The last one named counted alone: here 1.0, where three people said 0.0, 0.5 and 1.0."""
    said = (
        Outcome(decision="d", score=0.0, source="a"),
        Outcome(decision="d", score=0.5, source="b"),
        Outcome(decision="d", score=1.0, source="c", model="cheap", at=9.0),
        Outcome(decision="d", score=1.0, model="strong"),
    )
    record = Record(a_decision("d"), (an_answer("d", model="cheap"),), said, None)
    assert dict(scores_of(record)) == {"cheap": 0.5, "strong": 1.0}
    assert good_enough([record], MODELS).pairs == 1


def test_the_cheap_model_is_the_one_with_the_lower_price_and_the_tiers_are_named() -> None:
    models = {"alpha": MODELS["strong"], "zeta": MODELS["cheap"]}
    records = []
    for number, tier in enumerate((None, Tier.MEDIUM, Tier.MEDIUM)):
        decision = a_decision(f"d-{number}", session=f"s-{number}")
        assert decision.tier is not None
        changed = msgspec.structs.replace(decision.tier, tier=tier) if tier else None
        said = tuple(Outcome(decision=decision.id, score=1.0, model=model) for model in ("", "zeta"))
        answer = an_answer(decision.id, model="alpha")
        records.append(Record(msgspec.structs.replace(decision, tier=changed), (answer,), said, None))
    found = good_enough(records, models)
    assert (found.cheap, found.strong, found.tiers) == ("zeta", "alpha", "MEDIUM (2), no tier (1)")


def test_a_pair_counts_from_when_both_answers_had_their_first_score() -> None:
    """The one that served has its first without its name, and a later one with it."""
    turns = [("late", "s", 0.0, (4.0, 5.0, 6.0)), ("early", "s", 1.0, (1.0, 2.0, 9.0))]
    turns += [(f"d-{number}", f"s-{number}", 1.0, (0.0, 0.0, 0.0)) for number in range(29)]
    records = []
    for name, session, cheap, times in turns:
        scores = {"": cheap, "strong": 1.0, "cheap": cheap}
        said = tuple(
            Outcome(decision=name, score=score, model=model, at=at)
            for (model, score), at in zip(scores.items(), times, strict=True)
        )
        records.append(
            Record(a_decision(name, session=session), (an_answer(name, model="cheap"),), said, None)
        )
    found = good_enough(records, MODELS)
    assert (found.looked, found.repeated, found.difference) == (30, 1, 0.0)


def test_of_pairs_scored_at_once_the_older_requests_count_first() -> None:
    """The page Quality and the command read an imported file of scores in different orders."""
    records = [
        msgspec.structs.replace(
            each, decision=a_decision(each.decision.id, session=f"s-{number}", at=float(number))
        )
        for number, each in enumerate(scored([(1.0, 1.0)] * 60 + [(0.0, 1.0)] * 40))
    ]
    found = good_enough(records, MODELS)
    assert (found.looked, found.pairs, found.difference) == (60, 100, 0.0)
    assert good_enough(records[::-1], MODELS) == found


def test_between_looks_the_answer_is_that_of_the_last() -> None:
    differences = [0.0] * 240 + [-1.0] * 240
    answers = [decided("cheap", "strong", differences[:count]) for count in range(1, 481)]
    assert [found.answer for found in answers] == ["not known yet"] * 239 + ["yes"] * 240 + ["no"]
    assert {found.looked for found in answers} == {0, 30, 60, 120, 240, 480}
    assert "from the first 240 of 479 pairs" in answers[-2].sentence()
    assert "needs about 450 more pairs" in answers[29].sentence()  # the look at 480


def test_the_pairs_that_are_asked_for_decide_it_in_four_of_five_cases() -> None:
    """Equal models, of which 8 % of the pairs differ; 84 % were decided there, planned for one half 68 %."""
    draw, done, asked = random.Random(7), 0, 0
    for _ in range(200):
        chances = [draw.random() for _ in range(LOOKS[-1])]
        differences = [-1.0 if each < 0.04 else float(each < 0.08) for each in chances]
        found = decided("cheap", "strong", differences[:120])
        if found.missing:
            asked += 1
            done += decided("cheap", "strong", differences[: 120 + found.missing]).answer != "not known yet"
    assert asked > 150
    assert done / asked > 0.75


def test_where_no_number_of_pairs_is_known_none_is_named() -> None:
    for count in (0, 29, 30, 480):  # no loss is tolerated, and no difference was seen
        found = decided("cheap", "strong", [0.0] * count, 0.0)
        assert (found.answer, found.missing) == ("not known yet", 0)
        assert "no number of pairs up to 3,840 is known to decide it" in found.sentence()
    assert "0 of the 30 that the first look takes" in decided("cheap", "strong", [], 0.0).sentence()
    near = decided("cheap", "strong", ([-1.0] + [0.0] * 9) * 24 + [-1.0, 1.0] * 30, 0.1)
    assert near.missing == 0  # as far from the margin as 10,000 pairs would show


def test_a_margin_is_chosen_beforehand_and_named() -> None:
    some_worse = [-1.0] * 12 + [0.0] * 108
    answers = {margin: decided("cheap", "strong", some_worse, margin) for margin in (0.05, 0.2, 0.01)}
    assert [found.answer for found in answers.values()] == ["not known yet", "yes", "no"]
    assert "is not worse by more than 0.2 (" in answers[0.2].sentence()
    assert {found.margin for found in answers.values()} == {0.05, 0.2, 0.01}


def test_after_the_last_look_no_more_pairs_are_asked_for() -> None:
    draw = random.Random(1)
    found = decided("cheap", "strong", [draw.choice((-1.0, -1.0, -1.0, 1.0, 1.0)) / 4 for _ in range(4_000)])
    assert (found.answer, found.looked, found.missing) == ("not known yet", LOOKS[-1], 0)
    assert "was not decided at the last look" in found.sentence()


def test_the_interval_of_a_paired_difference_is_what_the_score_does_not_reject() -> None:
    low, high = paired_interval(0, 0, 30)
    assert (low, high) == pytest.approx((-(Z**2) / (30 + Z**2), Z**2 / (30 + Z**2)))  # closed form of ties
    low, high = paired_interval(12.0, 2.5, 32)
    assert (margin_score(12.0, 2.5, 32, -low), margin_score(12.0, 2.5, 32, -high)) == pytest.approx((Z, -Z))
    assert paired_interval(2.5, 12.0, 32) == pytest.approx((-high, -low))
    assert paired_interval(0, 30, 30)[0] == -1.0


SEEN = "-0.01, 99.4% interval -0.05 to +0.02, from"
ON = "on requests of SIMPLE (239), no tier (1), “cheap” beside “strong”"


@pytest.mark.parametrize(
    ("answer", "pairs", "looked", "missing", "sentence"),
    [
        (
            "yes", 479, 240, 0,
            f"Yes: 5 of 9; {ON} is not worse by more than 0.05 ({SEEN} the first 240 of 479 pairs).",
        ),
        ("no", 240, 240, 0, f"No: 5 of 9; {ON} is worse by more than 0.05 ({SEEN} 240 pairs)."),
        ("not known yet", 240, 240, 9, f"needs about 9 more pairs ({SEEN} 240 pairs)."),
        (
            "not known yet", 4_000, 3_840, 0,
            f"was not decided at the last look ({SEEN} the first 3,840 of 4,000 pairs).",
        ),
        ("not known yet", 29, 0, 1, "needs about 1 more pairs (29 of the 30 that the first look takes)."),
    ],
)  # fmt: skip
def test_the_sentence_names_what_was_compared(
    answer: Literal["yes", "no", "not known yet"], pairs: int, looked: int, missing: int, sentence: str
) -> None:
    found = GoodEnough(answer, "cheap", "strong", pairs, looked, -0.014, -0.0451, 0.02, missing=missing)
    if answer == "not known yet":
        assert found.sentence("5 of 9") == f"Not known yet: 5 of 9; “cheap” beside “strong” {sentence}"
    else:
        tiers = msgspec.structs.replace(found, tiers="SIMPLE (239), no tier (1)")
        assert tiers.sentence("5 of 9") == sentence
    assert found.sentence() == found.sentence("5 of 9").replace("5 of 9; ", "")


def test_more_pairs_are_asked_for_by_how_many_of_those_seen_differed() -> None:
    found = decided("cheap", "strong", [1.0] * 6 + [-1.0] * 2 + [0.0] * 22)
    assert (found.low, found.difference, found.high) == pytest.approx((-0.1532, 4 / 30, 0.4066), abs=1e-4)
    assert found.missing == 90  # (z + 0.84)² * 8/30 / (4/30 + 0.05)² = 101.4: the look at 120


@pytest.mark.parametrize(("loss", "win"), [(0.05, 0.0), (0.10, 0.05), (0.30, 0.25)])
def test_at_the_margin_yes_is_rarely_ever_said(loss: float, win: float) -> None:
    """Of 400 agents read after every pair up to 1,000; of 4,000, "yes" was said to 0.2, 0.8 and 1.4 %."""
    draw, wrong = random.Random(7), 0
    for _ in range(400):
        chances = [draw.random() for _ in range(1_000)]
        differences = [-1.0 if each < loss else float(each < loss + win) for each in chances]
        looks = [decided("cheap", "strong", differences[:look]) for look in LOOKS if look <= 1_000]
        wrong += any(found.answer == "yes" for found in looks)
    assert wrong <= 10  # 2.5 %


def test_comparisons_of_one_table_share_their_level() -> None:
    """Of 200 ledgers with nine cheap models at the margin; 2 had a false "yes", and 11 at the whole level."""
    draw, wrong = random.Random(7), {1: 0, 9: 0}
    for _ in range(200):
        strong = [draw.random() < 0.9 for _ in range(480)]
        cheap = [[(draw.random() < 0.85) - each for each in strong] for _ in range(9)]
        for tries in wrong:
            looks = (
                decided("cheap", "strong", [float(each) for each in differences[:look]], level=LEVEL / tries)
                for differences in cheap
                for look in LOOKS[:5]
            )
            wrong[tries] += any(found.answer == "yes" for found in looks)
    assert wrong[9] <= 9  # 2.5 %, of which more are seen once in 50
    assert wrong[1] > wrong[9]


def test_a_table_of_several_pairs_of_models_states_the_level_of_each() -> None:
    models = {
        **MODELS,
        "other": ModelSpec("other", "main", "other", input_per_million=2.0, output_per_million=2.0),
    }
    records = []
    for number in range(80):
        name, second = f"d-{number}", "strong" if number < 50 else "other"
        said = (Outcome(decision=name, score=1.0), Outcome(decision=name, score=1.0, model=second))
        answer = an_answer(name, model="cheap")
        records.append(Record(a_decision(name, session=f"s-{number}"), (answer,), said, None))
    both, alone = quality_report(records, models).found, good_enough(records, models)
    assert [(each.strong, each.level) for each in both] == [("strong", LEVEL / 2), ("other", LEVEL / 2)]
    assert (alone.strong, alone.level) == ("strong", LEVEL)
    assert both[0].low < alone.low
    assert "99.7% interval" in both[0].sentence()


def test_models_without_a_pair_take_no_share_of_the_level() -> None:
    records = []
    for number in range(40):
        name, second = (
            f"d-{number}",
            "strong" if number < 30 else "",
        )  # the last ten: two scores of one answer
        said = (Outcome(decision=name, score=1.0), Outcome(decision=name, score=1.0, model=second))
        answer = an_answer(name, model="cheap")
        records.append(Record(a_decision(name, session=f"s-{number}"), (answer,), said, None))
    third = ModelSpec("third", "main", "third", input_per_million=2.0, output_per_million=2.0)
    answers = ScoredAnswers({**MODELS, "third": third})
    assert list(answers.noted(records)) == records
    moves = {("cheap", "strong"): [f"d-{each}" for each in range(30)], ("cheap", "third"): ["d-30", "d-31"]}
    assert answers.together(moves)["cheap", "strong"].level == LEVEL


def test_a_table_without_a_pair_says_what_was_left_out() -> None:
    records = []
    for number in range(3):
        name = f"d-{number}"
        said = tuple(
            Outcome(decision=name, score=0.5, model=model, source="judge:large") for model in ("", "strong")
        )
        records.append(Record(a_decision(name, session=name), (an_answer(name, model="cheap"),), said, None))
    found = quality_report(records, MODELS, 0.2)
    lines = [str(each) for each in found.blocks()]
    assert lines[-2] == "left out: 3 pairs with a score that only a judge or an implicit sign gave"
    assert lines[-1].startswith("[shadow] model keeps a second answer")
    assert found.found == (GoodEnough("not known yet", left_out=3, margin=0.2),)
    one = Record(a_decision("d"), (an_answer("d", model="cheap"),), records[0].outcomes[:1] * 2, None)
    assert quality_report([one], MODELS).found == (GoodEnough("not known yet"),)  # two scores of one answer
    pair = tuple(Outcome(decision="d", score=0.5, model=model) for model in ("", "strong"))
    with_pair = quality_report([msgspec.structs.replace(one, outcomes=pair), *records], MODELS)
    (legend,) = list(with_pair.blocks())[2:]
    assert str(legend).startswith("pairs: one of each session; looked: the first, that decided;")
    assert with_pair.to_json() == [
        {"sentence": each.sentence(), **msgspec.structs.asdict(each)} for each in with_pair.found
    ]
    assert [(each.pairs, each.left_out, each.cheap) for each in with_pair.found] == [(1, 3, "cheap")]


def test_equal_models_are_rarely_called_worse_and_worse_ones_rarely_good_enough() -> None:
    """Of 200 draws each: at the margin itself, "yes" is an error of at most 2.5 %."""
    draw = random.Random(1)
    at_margin = [judged(_draw(draw, 0.75, 0.80)).answer for _ in range(200)]
    equal = [judged(_draw(draw, 0.8, 0.8)).answer for _ in range(200)]
    assert at_margin.count("yes") <= 5
    assert equal.count("no") <= 4  # expected 0.3


def _draw(draw: random.Random, cheap: float, strong: float) -> list[tuple[float, float]]:
    return [(float(draw.random() < cheap), float(draw.random() < strong)) for _ in range(120)]


def test_pairs_labelled_in_the_order_of_the_queue_are_a_sample() -> None:
    """With those in trouble first, a cheap model that solves .1 less was good enough after 30 pairs."""
    draw, records, solved = random.Random(7), {}, {}
    for number in range(600):
        name = f"d-{number}"
        solved[name] = strong, _ = draw.random() < 0.85, draw.random() < 0.75
        trouble = (Reason("guidance.stuck", "…"),) * (draw.random() < (0.1 if strong else 0.6))
        shadow = ShadowAnswer(decision=name, at=0.0, model="cheap", upstream="u", text="a", beside_text="b")
        decision = msgspec.structs.replace(a_decision(name, session=f"s-{number}"), reasons=trouble)
        records[name] = Record(decision, (an_answer(name, model="strong"),), (), "Fix it.", (shadow,))
    asked = queue(records.values())
    assert len(asked) == len(records)
    labelled = []
    for each in asked[:240]:
        strong, cheap = solved[each.decision]
        said = (
            Outcome(decision=each.decision, score=float(strong)),
            Outcome(decision=each.decision, score=float(cheap), model="cheap"),
        )
        labelled.append(msgspec.structs.replace(records[each.decision], outcomes=said))
    answers = [good_enough(labelled[:count], MODELS) for count in (30, 60, 120, 240)]
    assert [found.answer for found in answers if found.answer == "yes"] == []
    assert answers[-1].difference == pytest.approx(-0.1, abs=0.07)
