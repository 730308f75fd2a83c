"""Explanations add up, and every change they name really changes the tier."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.tiers import Change, explain
from pointsman.vocabulary import Tier
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
