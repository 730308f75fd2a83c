"""Explanations add up, and every change they name really changes the tier."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.tiers import Change, TierProfile, TierScorer, _counterfactual, builtin_profile, explain
from pointsman.tiers.decision import TierDecision
from pointsman.tiers.profile import Dimension, Measure, Saturation, Step
from pointsman.vocabulary import Evidence, Tier
from support.examples import share
from support.tier_profiles import Bench, bench


def changes_of(profile: str, text: str) -> dict[str, Change]:
    found = explain(bench(profile).scorer, bench(profile).scan(text)).changes
    return {"without" if c.without else "longer" if c.tokens > 0 else "shorter": c for c in found}


@pytest.mark.parametrize("profile", ["seed", "default"])
@pytest.mark.parametrize(
    "text", ["", "What is a proof?", "Design a distributed database. First plan, then build.", "x" * 9_000]
)
def test_contributions_add_up_to_the_score(profile: str, text: str) -> None:
    explained = explain(bench(profile).scorer, bench(profile).scan(text))
    names = [part.dimension for part in explained.contributions if part.dimension != "saturation"]
    assert names == [each.name for each in bench(profile).scorer.profile.dimensions]
    for part in explained.contributions:
        assert part.contribution == pytest.approx(part.score * part.weight)
    total = math.fsum(part.contribution for part in explained.contributions)
    assert total == pytest.approx(explained.decision.score)


def test_a_contribution_names_its_keywords() -> None:
    explained = explain(bench("seed").scorer, bench("seed").scan("import a class, define it"))
    by_name = {part.dimension: part for part in explained.contributions}
    assert by_name["codePresence"].keywords == ("class", "import", "def")
    assert (by_name["codePresence"].measure, by_name["codePresence"].score) == (3, 1.0)
    assert by_name["tokenCount"].measure == 6
    assert by_name["technicalTerms"].contribution == 0.0


def test_one_keyword_less() -> None:
    changes = changes_of("seed", "prove it formally")
    assert changes["without"] == Change(Tier.MEDIUM, without=("formally",))
    assert str(changes["without"]) == "without “formally”: MEDIUM"


def test_a_word_in_two_lists_goes_from_both() -> None:
    changes = changes_of("seed", "deploy, build, create. 1. go")
    assert changes["without"].without in {("build",), ("create",), ("deploy",)}


def test_two_keywords_where_one_is_not_enough() -> None:
    changes = changes_of("seed", "prove it formally with a proof")
    assert len(changes["without"].without) == 2


def test_of_very_many_keywords_fewer_sets_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = bench("default")
    lists = [words for each in judge.scorer.profile.dimensions for words in each.keywords.values()]
    words = [word for each in lists for word in each]
    found = judge.scan(" ".join(words[:600]))
    tried: list[Evidence] = []
    by_rules = TierScorer.by_rules

    def counted(scorer: TierScorer, evidence: Evidence, domain: str = "") -> TierDecision:
        tried.append(evidence)
        return by_rules(scorer, evidence, domain)

    monkeypatch.setattr(TierScorer, "by_rules", counted)
    explain(judge.scorer, found)
    assert len({evidence.hits for evidence in tried}) < 400


def test_lengths() -> None:
    changes = changes_of("seed", "w" * 200)
    assert changes["shorter"] == Change(Tier.SIMPLE, tokens=-1)
    assert str(changes["shorter"]) == "1 token shorter: SIMPLE"
    assert changes_of("seed", "w" * 196)["longer"] == Change(Tier.MEDIUM, tokens=1)


def test_question_marks_and_patterns_can_go_too() -> None:
    stepped = changes_of("seed", "theorem 1. " + "w" * 200)
    assert stepped["without"].without == ("the pattern of multiStepPatterns",)
    asked = changes_of("seed", "theorem within ? ? ? ? " + "w" * 200)
    assert asked["without"].without == ("question marks",)


def test_nothing_to_change_is_an_empty_answer() -> None:
    assert changes_of("default", "prove proof theorem lemma corollary axiom " * 3).get("shorter") is None


@settings(max_examples=share(0.4))
@given(
    st.lists(st.sampled_from(["prove", "formally", "let", "build", "what is", "json", "?", "1. ", "x" * 60]))
)
def test_every_change_holds_and_is_smallest(words: list[str]) -> None:
    judged: Bench = bench("seed")
    evidence = judged.scan(" ".join(words))
    tier = judged.scorer.by_rules(evidence).tier
    for change in explain(judged.scorer, evidence).changes:
        assert change.tier is not tier
        if change.tokens:
            units = 4 * (evidence.utf16_units // 4 + change.tokens)
            changed = msgspec.structs.replace(evidence, utf16_units=units)
            assert judged.scorer.by_rules(changed).tier is change.tier
            nearer = msgspec.structs.replace(
                evidence, utf16_units=units - 4 * (1 if change.tokens > 0 else -1)
            )
            assert judged.scorer.by_rules(nearer).tier is tier


SCORES = st.floats(-1.0, 1.0).map(lambda each: round(each, 3))
POINTS = st.lists(st.integers(1, 3_000), min_size=1, max_size=4, unique=True).map(sorted)


@st.composite
def by_length(draw: st.DrawFn, name: str) -> Dimension:
    """A dimension of the length: a curve that rises and falls, or steps."""
    points = draw(POINTS)
    weight = draw(st.sampled_from([0.5, 1.0, -0.7]))
    if draw(st.booleans()):
        curve = tuple((at, draw(SCORES)) for at in points)
        return Dimension(name=name, weight=weight, measure=Measure.TOKENS, curve=curve)
    steps = tuple(Step(at=at, score=draw(SCORES)) for at in points)
    return Dimension(name=name, weight=weight, measure=Measure.TOKENS, steps=steps)


@st.composite
def profiles(draw: st.DrawFn) -> TierProfile:
    """The default profile with other curves of the length, limits of keywords, boundaries and overrides."""
    found = builtin_profile("default")
    saturation = Saturation(
        most=draw(st.sampled_from([0.1, 0.6, 9.0])),
        fades_from=draw(st.sampled_from([1, 50, 700])),
        power=draw(st.sampled_from([0.0, 1.0, 5.0])),
    )
    others = tuple(each for each in found.dimensions if each.measure is not Measure.TOKENS)
    overrides = tuple(
        msgspec.structs.replace(
            each,
            tokens_above=draw(st.none() | st.integers(0, 2_500))
            if each.count_of
            else draw(st.integers(0, 2_500)),
            one_more_every=each.one_more_every and draw(st.integers(1, 900)),
        )
        for each in found.overrides
    )
    return msgspec.structs.replace(
        found,
        dimensions=(draw(by_length("length")), *others, draw(by_length("size"))),
        saturation=draw(st.none() | st.just(saturation)),
        boundaries=tuple(sorted(draw(st.lists(SCORES, min_size=3, max_size=3)))),
        overrides=overrides,
    )


@settings(max_examples=share(0.2), deadline=None)
@given(
    profiles(),
    st.lists(
        st.sampled_from(["prove", "formally", "hello", "what is", "json", "?", "x" * 200, "ж" * 90]),
        max_size=8,
    ),
)
def test_the_nearest_length_is_that_of_trying_every_one(profile: TierProfile, words: list[str]) -> None:
    judged = bench("default")
    scorer, evidence = TierScorer(profile, judged.table), judged.scan(" ".join(words))
    tier, now = scorer.by_rules(evidence).tier, scorer.tokens(evidence)
    found = {change.tokens > 0: change for change in explain(scorer, evidence).changes if change.tokens}
    for sign in (-1, 1):
        lengths = range(1, (min(now, 2_000) if sign < 0 else 2_000) + 1)
        tried = (
            (
                sign * each,
                scorer.by_rules(_counterfactual._at_length(scorer, evidence, now + sign * each)).tier,
            )
            for each in lengths
        )
        nearest = next(((tokens, other) for tokens, other in tried if other is not tier), None)
        change = found.get(sign > 0)
        assert (change and (change.tokens, change.tier)) == nearest


@pytest.mark.parametrize(("text", "letter"), [("hello there", "z"), ("privet", "z"), ("привет", "ы")])
def test_a_longer_text_has_the_tier_that_is_named(text: str, letter: str) -> None:
    change = changes_of("default", text)["longer"]
    judged, tail = bench("default"), letter * 4 * change.tokens
    assert judged.by_rules(text).tier is not change.tier
    assert judged.by_rules(f"{text} {tail}").tier is change.tier
