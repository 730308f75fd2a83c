"""The seed profile against what the original prints for 632 prompts."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pointsman.evidence import ReMatcher, Scanner, SignalTable
from pointsman.tiers import TierJudge, TierProfile, builtin_profile, load_profile

SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
REFERENCE = SHARED / "data" / "tiers" / "reference_outputs.jsonl.gz"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not REFERENCE.exists(), reason="needs ../shared/data or POINTSMAN_SHARED"),
]


def rows() -> list[dict[str, Any]]:
    with gzip.open(REFERENCE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def judge_and_scanner(profile: TierProfile) -> tuple[TierJudge, Scanner]:
    table = SignalTable(profile.signals())
    return TierJudge(profile, table), Scanner(table, ReMatcher(table))


def test_tier_score_confidence_and_signals_are_the_originals() -> None:
    judge, scanner = judge_and_scanner(builtin_profile("seed"))
    for row in rows():
        decision, expected = judge.by_rules(scanner.scan(row["prompt"])), row["seed"]
        assert decision.tier == expected["tier"], row["id"]
        assert decision.score == pytest.approx(expected["score"], abs=1e-6), row["id"]
        assert decision.confidence == pytest.approx(expected["confidence"], abs=1e-6), row["id"]
        assert list(decision.signals) == expected["signals"], row["id"]
        assert decision.needs_verification == expected["needs_llm"], row["id"]


def test_other_boundaries_are_only_other_data() -> None:
    from importlib import resources

    text = (resources.files("pointsman.tiers") / "profiles" / "seed.toml").read_text(encoding="utf-8")
    later = text.replace("boundaries = [0.0, 0.15, 0.35]", "boundaries = [0.0, 0.30, 0.50]")
    assert later != text
    judge, scanner = judge_and_scanner(load_profile(later, "later.toml"))
    for row in rows():
        decision, expected = judge.by_rules(scanner.scan(row["prompt"])), row["boundaries_0_30_50"]
        assert decision.tier == expected["tier"], row["id"]
        assert decision.confidence == pytest.approx(expected["confidence"], abs=1e-6), row["id"]
