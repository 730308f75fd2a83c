"""The seed profile against what the original prints for 632 prompts."""

from importlib import resources

import pytest

from pointsman.tiers import load_profile
from support.tier_profiles import Bench, bench, needs_data, rows

pytestmark = [pytest.mark.data, needs_data]


def test_tier_score_confidence_and_signals_are_the_originals() -> None:
    reference = rows("reference_outputs")
    assert len(reference) == 632
    for row in reference:
        decision, expected = bench("seed").by_rules(row["prompt"]), row["seed"]
        assert decision.tier == expected["tier"], row["id"]
        assert decision.score == pytest.approx(expected["score"], abs=1e-6), row["id"]
        assert decision.confidence == pytest.approx(expected["confidence"], abs=1e-6), row["id"]
        assert list(decision.signals) == expected["signals"], row["id"]
        assert decision.needs_verification == expected["needs_llm"], row["id"]


def test_other_boundaries_are_only_other_data() -> None:
    text = (resources.files("pointsman.tiers") / "profiles" / "seed.toml").read_text(encoding="utf-8")
    later = text.replace("boundaries = [0.0, 0.15, 0.35]", "boundaries = [0.0, 0.30, 0.50]")
    assert later != text
    judged = Bench(load_profile(later, "later.toml"))
    for row in rows("reference_outputs"):
        decision, expected = judged.by_rules(row["prompt"]), row["boundaries_0_30_50"]
        assert decision.tier == expected["tier"], row["id"]
        assert decision.confidence == pytest.approx(expected["confidence"], abs=1e-6), row["id"]
