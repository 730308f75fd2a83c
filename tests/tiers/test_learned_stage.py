"""The router takes the rules' place where it knows the prompt, and says so; elsewhere the rules stay."""

import msgspec
import pytest

from pointsman.tiers import LearnedRouterPolicy, LearnedStage, TierDecision, builtin_profile
from pointsman.tiers.learned_router import LearnedRouter, ScoreSource
from pointsman.vocabulary import Stage, Tier
from support.learned_routers import blank
from support.tier_profiles import bench

KNOWN = blank(similarity=(-1.0, -0.5))  # every prompt is familiar enough
TEXT = "please summarise the attached minutes of the meeting"


def decided(
    text: str = TEXT, *, boundaries: tuple[float, float, float], learned_router: LearnedRouter = KNOWN
) -> TierDecision:
    by = bench("default")
    evidence = by.scan(text)
    stage = LearnedStage(
        LearnedRouterPolicy(learned_router=learned_router, boundaries=boundaries), builtin_profile("default")
    )
    return stage.after(by.scorer.by_rules(evidence), evidence)


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
    assert (decision.tier, decision.stage) == (tier, Stage.LEARNED)
    assert [reason.code for reason in decision.reasons] == ["tiers.learned.ngrams"]
    assert not decision.needs_verification


def test_a_score_at_a_boundary_is_unsure() -> None:
    score = decided(boundaries=(5, 6, 7)).score
    at = decided(boundaries=(score, 6, 7))
    assert at.tier is Tier.MEDIUM
    assert at.confidence == 0.5
    assert at.needs_verification


def test_an_unfamiliar_prompt_is_left_to_the_rules() -> None:
    decision = decided(boundaries=(-7, -6, -5), learned_router=blank())
    assert decision.stage is Stage.RULES
    assert decision.tier is bench("default").by_rules(TEXT).tier
    assert decision.reasons[-1].code == "tiers.learned.unfamiliar"


def test_a_special_rule_outranks_what_was_learned() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    ruled = msgspec.structs.replace(by.scorer.by_rules(evidence), stage=Stage.OVERRIDE)
    stage = LearnedStage(
        LearnedRouterPolicy(learned_router=KNOWN, boundaries=(5, 6, 7)), builtin_profile("default")
    )
    assert stage.after(ruled, evidence) is ruled


def test_without_words_the_rules_stay_and_the_reason_is_told() -> None:
    by = bench("default")
    evidence = msgspec.structs.replace(by.scan(TEXT), text="")
    stage = LearnedStage(
        LearnedRouterPolicy(learned_router=KNOWN, boundaries=(-7, -6, -5)), builtin_profile("default")
    )
    decision = stage.after(by.scorer.by_rules(evidence), evidence)
    assert decision.stage is Stage.RULES
    assert decision.reasons[-1].code == "tiers.learned.no-words"


def test_a_recorded_score_stands_in_for_words() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    stage = LearnedStage(
        LearnedRouterPolicy(learned_router=KNOWN, boundaries=(5, 6, 7)), builtin_profile("default")
    )
    live = stage.after(by.scorer.by_rules(evidence), evidence)
    wordless = msgspec.structs.replace(evidence, text="")
    again = stage.after(by.scorer.by_rules(wordless), wordless, recorded=live.learned_router)
    assert again == live
    assert live.learned_router_version == KNOWN.digest() != blank().digest()


def test_what_the_head_said_is_kept_where_the_rules_decide() -> None:
    decision = decided(boundaries=(-7, -6, -5), learned_router=blank())
    assert decision.learned_router is not None
    assert decision.learned_router.source is ScoreSource.PRIOR


def test_the_rules_count_only_beside_the_profile_the_head_was_fitted_with() -> None:
    by = bench("default")
    evidence = by.scan(TEXT)
    ruled = msgspec.structs.replace(by.scorer.by_rules(evidence), score=1.0)
    policy = LearnedRouterPolicy(learned_router=KNOWN, boundaries=(5, 6, 7))
    same = LearnedStage(policy, builtin_profile("default")).after(ruled, evidence)
    other = LearnedStage(policy, builtin_profile("seed")).after(ruled, evidence)
    assert same.score == pytest.approx(other.score + KNOWN.rules_slope)


def test_boundaries_must_rise() -> None:
    with pytest.raises(ValueError, match="must not fall"):
        LearnedRouterPolicy(learned_router=KNOWN, boundaries=(1.0, 0.0, 2.0))
