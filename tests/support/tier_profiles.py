"""Judges and scanners of the built-in profiles, built once; where the evaluation data is."""

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pointsman.evidence import PatternSet, Reading, Scanner, SignalTable, build_matcher
from pointsman.tiers import TierDecision, TierProfile, TierScorer, builtin_profile
from pointsman.vocabulary import Evidence

DATA = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "tiers"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data or POINTSMAN_SHARED")


class Bench:
    """One profile with its scanner."""

    def __init__(self, profile: TierProfile) -> None:
        self.table = SignalTable(profile.signals())
        self.scorer = TierScorer(profile, self.table)
        reading = Reading(self.table, profile.name, profile.lowering) if profile.normalise else None
        self._scanner = Scanner(self.table, build_matcher(PatternSet(self.table)), reading=reading)

    def scan(self, text: str) -> Evidence:
        return self._scanner.scan(text)

    def by_rules(self, text: str) -> TierDecision:
        return self.scorer.by_rules(self.scan(text))


@cache
def bench(name: str) -> Bench:
    return Bench(builtin_profile(name))


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
