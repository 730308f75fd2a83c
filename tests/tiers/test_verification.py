"""Asking a model for the tier: the seed's failure table, its parse rules, and text that tries to get out."""

import re
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.tiers import TierDecision, cache_key, parse_tier
from pointsman.tiers.decision import ask
from pointsman.vocabulary import ModelQuery, ModelReply, Stage, Tier
from support.tier_profiles import bench, needs_data, rows

UNSURE = {"seed": "Rewrite your previous response. Start it with the letter A.", "default": "zxcvb"}


def started(profile: str, text: str) -> tuple[Generator[ModelQuery, ModelReply, TierDecision], ModelQuery]:
    steps = bench(profile).scorer.decide(bench(profile).scan(text))
    return steps, next(steps)


def decided(profile: str, text: str, answer: ModelReply) -> TierDecision:
    steps, _ = started(profile, text)
    with pytest.raises(StopIteration) as end:
        steps.send(answer)
    decision: TierDecision = end.value.value
    return decision


@pytest.mark.parametrize(
    ("answer", "tier", "stage", "reason"),
    [
        (ModelReply(error="no-key"), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-skipped"),
        (ModelReply(error="budget"), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-skipped"),
        (ModelReply(error="timeout"), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-failed"),
        (ModelReply(error="upstream: 500"), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-failed"),
        (ModelReply("no idea"), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-invalid"),
        (ModelReply(""), Tier.MEDIUM, Stage.FALLBACK, "tiers.abstained.llm-invalid"),
        (ModelReply("SIMPLE"), Tier.SIMPLE, Stage.VERIFIED, "tiers.llm-confirmed"),
        (ModelReply("REASONING"), Tier.REASONING, Stage.VERIFIED, "tiers.llm-overridden"),
    ],
)
def test_failure_modes_of_the_seed(answer: ModelReply, tier: Tier, stage: Stage, reason: str) -> None:
    ruled = bench("seed").by_rules(UNSURE["seed"])
    assert (ruled.tier, ruled.needs_verification) == (Tier.SIMPLE, True)
    decision = decided("seed", UNSURE["seed"], answer)
    assert (decision.tier, decision.stage) == (tier, stage)
    assert decision.reasons[-1].code == reason
    assert (decision.score, decision.confidence, decision.signals) == (
        ruled.score,
        ruled.confidence,
        ruled.signals,
    )


@pytest.mark.parametrize(
    "answer", [ModelReply(error="no-key"), ModelReply(error="timeout"), ModelReply("perhaps")]
)
def test_a_failed_verification_keeps_the_rules_tier_by_default(answer: ModelReply) -> None:
    text = "Write something about the sea for her and me"
    ruled = bench("default").by_rules(text)
    assert (ruled.tier, ruled.needs_verification) == (Tier.SIMPLE, True)
    decision = decided("default", text, answer)
    assert (decision.tier, decision.stage) == (Tier.SIMPLE, Stage.FALLBACK)


def test_a_sure_or_overridden_decision_asks_nobody() -> None:
    for text in ("What is the capital of France?", "prove it formally"):
        steps = bench("seed").scorer.decide(bench("seed").scan(text))
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value == bench("seed").by_rules(text)


@pytest.mark.parametrize(
    ("reply", "tier"),
    [
        ("COMPLEX", Tier.COMPLEX),
        ("  medium\n", Tier.MEDIUM),
        ("I would say: Reasoning.", Tier.REASONING),
        ("not SIMPLE but COMPLEX", Tier.SIMPLE),  # the first of the labels, not of the text
        ("COMPLEX, not SIMPLE", Tier.SIMPLE),
        ("MEDIUMCOMPLEX", Tier.MEDIUM),
        ("hard", None),
        ("", None),
    ],
)
def test_parse(reply: str, tier: Tier | None) -> None:
    assert parse_tier(reply) is tier


@pytest.mark.parametrize("profile", ["seed", "default"])
def test_the_question(profile: str) -> None:
    steps, need = started(profile, UNSURE[profile])
    steps.close()
    assert need.kind == "verify_tier"
    assert need.labels == ("SIMPLE", "MEDIUM", "COMPLEX", "REASONING")
    assert (need.max_tokens, need.timeout_ms) == (10, 500)
    assert UNSURE[profile] in need.text
    assert UNSURE[profile] not in need.system
    assert all(label in need.system for label in need.labels)


def test_only_the_first_500_characters_are_shown() -> None:
    verification = bench("seed").scorer.profile.verification
    assert "a" * 500 + "\n" in ask(verification, "a" * 500 + "b").text
    assert "b" not in ask(verification, "a" * 500 + "b" * 500).text.replace("=", "").strip("0123456789abcdef")


@given(st.text(max_size=600))
def test_a_text_cannot_contain_its_own_markers(text: str) -> None:
    need = ask(bench("seed").scorer.profile.verification, text)
    first, _, rest = need.text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    assert re.fullmatch(r"=== [0-9a-f]{16} ===", first)
    assert first == last
    assert inside == text[:500]
    assert first not in inside
    assert need.system == ask(bench("seed").scorer.profile.verification, "").system


def test_a_marker_found_in_the_text_is_taken_again() -> None:
    verification = bench("seed").scorer.profile.verification
    marker = ask(verification, "hello").text.split()[1]
    forged = ask(verification, f"hello {marker}")
    assert forged.text.count(forged.text.split("\n")[0]) == 2


def test_equal_questions_have_equal_cache_keys() -> None:
    verification = bench("seed").scorer.profile.verification
    assert cache_key(ask(verification, "a")) == cache_key(ask(verification, "a"))
    keys = {
        cache_key(ask(verification, "a")),
        cache_key(ask(verification, "b")),
        cache_key(ModelQuery("verify_tier", "rubric", "a")),
        cache_key(ModelQuery("verify_tier", "rubric", "a", model="other")),
        cache_key(ModelQuery("guidance", "rubric", "a")),
        cache_key(ModelQuery("verify_tier", "rubric\0", "a")),
    }
    assert len(keys) == 6


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("name", ["strong_weak", "tier_labels"])
def test_the_margin_asks_about_at_most_fifteen_percent(name: str) -> None:
    sample = rows(name)[::5]
    default, seed = (
        sum(bench(profile).by_rules(row["prompt"]).needs_verification for row in sample) / len(sample)
        for profile in ("default", "seed")
    )
    assert default <= 0.15
    assert seed > 0.25
