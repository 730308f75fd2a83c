"""Forced tiers and the fallback chain, as the seed documents them."""

import pytest

from pointsman.model_choice.choice import FALLBACK_CHAIN
from pointsman.tiers import asks_to_decide, forced_tier
from pointsman.vocabulary import Tier


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("written", ["{}", "claw-llm-router/{}", "pointsman/{}", "Pointsman/{}"])
def test_a_model_id_names_a_tier(tier: Tier, written: str) -> None:
    assert forced_tier(written.format(tier.lower())) is tier
    assert forced_tier(written.format(tier.upper())) is tier


@pytest.mark.parametrize(
    "model",
    ["auto", "pointsman/auto", "", "gpt-5", "simple-model", "other/simple", "pointsman/pointsman/simple"],
)
def test_other_ids_force_nothing(model: str) -> None:
    assert forced_tier(model) is None


@pytest.mark.parametrize(
    ("model", "ours"),
    [
        ("auto", True),
        ("Auto", True),
        ("pointsman/auto", True),
        ("claw-llm-router/auto", True),
        ("pointsman", True),
        ("", True),
        ("simple", False),
        ("automatic", False),
        ("openrouter/auto", False),
    ],
)
def test_ids_that_leave_the_tier_to_us(model: str, ours: bool) -> None:
    assert asks_to_decide(model) is ours


def test_the_fallback_chain_is_the_seeds() -> None:
    assert {tier.value: [step.value for step in chain] for tier, chain in FALLBACK_CHAIN.items()} == {
        "SIMPLE": ["SIMPLE", "MEDIUM", "COMPLEX"],
        "MEDIUM": ["MEDIUM", "COMPLEX"],
        "COMPLEX": ["COMPLEX", "REASONING"],
        "REASONING": ["REASONING"],
    }
