"""The head takes the rules' place where it knows the prompt, and says so; elsewhere the rules stay."""

import msgspec
import pytest

from heads import blank
from pointsman.tiers import HeadPolicy, HeadStage, builtin_profile
from pointsman.tiers.head import Spoke
from pointsman.vocabulary import Stage, Tier
from tiers_support import bench

KNOWN = blank(familiarity=(-1.0, -0.5))  # every prompt is familiar enough
TEXT = "please summarise the attached minutes of the meeting"


def decided(text: str = TEXT, *, boundaries: tuple[float, float, float], head: object = KNOWN) -> object:
    by = bench("default")
    evidence = by.scan(text)
    stage = HeadStage(HeadPolicy(head, boundaries), builtin_profile("default"))
    return stage.after(by.judge.by_rules(evidence), evidence)


@pytest.mark.parametrize(
    ("boundaries", "tier"),
    [
        ((5, 6, 7), Tier.SIMPLE),
        ((-5, 6, 7), Tier.MEDIUM),
        ((-5, -4, 7), Tier.COMPLEX),
        ((-5, -4, -3), Tier.REASONING),
        ((float("-inf"), 6, float("inf")), Tier.MEDIUM),  # two tiers
        ((float("-inf"), -6, float("inf")), Tier.COMPLEX),
    ],
)
def test_the_score_is_cut_into_tiers(boundaries: tuple[float, float, float], tier: Tier) -> None:
    decision = decided(boundaries=boundaries)
    assert (decision.tier, decision.stage) == (tier, Stage.HEAD)
    assert [reason.code for reason in decision.reasons] == ["tiers.head.head"]
    assert not decision.needs_verification


def test_a_score_at_a_boundary_is_unsure() -> None:
    score = decided(boundaries=(5, 6, 7)).score
    at = decided(boundaries=(score, 6, 7))
    assert at.tier is Tier.MEDIUM
    assert at.confidence == 0.5
    assert at.needs_verification


def test_an_unfamiliar_prompt_is_left_to_the_rules() -> None:
    decision = decided(boundaries=(-7, -6, -5), head=blank())
    assert decision.stage is Stage.RULES
    assert decision.tier is bench("default").by_rules(TEXT).tier
    assert decision.reasons[-1].code == "tiers.head.unfamiliar"


def test_a_special_rule_outranks_what_was_learned() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    ruled = msgspec.structs.replace(by.judge.by_rules(evidence), stage=Stage.OVERRIDE)
    stage = HeadStage(HeadPolicy(KNOWN, (5, 6, 7)), builtin_profile("default"))
    assert stage.after(ruled, evidence) is ruled


def test_without_words_the_rules_stay_and_the_reason_is_told() -> None:
    by = bench("default")
    evidence = msgspec.structs.replace(by.scan(TEXT), text="")
    stage = HeadStage(HeadPolicy(KNOWN, (-7, -6, -5)), builtin_profile("default"))
    decision = stage.after(by.judge.by_rules(evidence), evidence)
    assert decision.stage is Stage.RULES
    assert decision.reasons[-1].code == "tiers.head.no-words"


def test_a_recorded_score_stands_in_for_words() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    stage = HeadStage(HeadPolicy(KNOWN, (5, 6, 7)), builtin_profile("default"))
    live = stage.after(by.judge.by_rules(evidence), evidence)
    wordless = msgspec.structs.replace(evidence, text="")
    again = stage.after(by.judge.by_rules(wordless), wordless, recorded=live.head)
    assert again == live
    assert live.head_version == KNOWN.digest() != blank().digest()


def test_what_the_head_said_is_kept_where_the_rules_decide() -> None:
    decision = decided(boundaries=(-7, -6, -5), head=blank())
    assert decision.head is not None
    assert decision.head.spoke is Spoke.PRIOR


def test_the_rules_count_only_beside_the_profile_the_head_was_fitted_with() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    ruled = msgspec.structs.replace(by.judge.by_rules(evidence), score=1.0)
    policy = HeadPolicy(KNOWN, (5, 6, 7))
    same = HeadStage(policy, builtin_profile("default")).after(ruled, evidence)
    other = HeadStage(policy, builtin_profile("seed")).after(ruled, evidence)
    assert same.score == pytest.approx(other.score + KNOWN.rules_slope)


def test_boundaries_must_rise() -> None:
    with pytest.raises(ValueError, match="must rise"):
        HeadPolicy(KNOWN, (1.0, 0.0, 2.0))
