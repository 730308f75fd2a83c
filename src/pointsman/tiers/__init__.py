"""Floor 3: which model tier should serve a prompt."""

from __future__ import annotations

from pointsman.tiers.budget import Spending, VerificationBudget
from pointsman.tiers.counterfactual import Change
from pointsman.tiers.decision import RouterDecision, TierDecision
from pointsman.tiers.explanation import Contribution, Explanation, explain
from pointsman.tiers.head import Head, HeadScore, HeadScorer, read_head
from pointsman.tiers.head_stage import HeadPolicy, HeadStage
from pointsman.tiers.judge import Scored, TierJudge
from pointsman.tiers.ladder import asks_to_decide, forced_tier
from pointsman.tiers.loading import BUILTIN_PROFILES, builtin_profile, load_profile
from pointsman.tiers.profile import TierProfile
from pointsman.tiers.verification import cache_key, parse_tier

__all__ = [
    "BUILTIN_PROFILES",
    "Change",
    "Contribution",
    "Explanation",
    "Head",
    "HeadPolicy",
    "HeadScore",
    "HeadScorer",
    "HeadStage",
    "RouterDecision",
    "Scored",
    "Spending",
    "TierDecision",
    "TierJudge",
    "TierProfile",
    "VerificationBudget",
    "asks_to_decide",
    "builtin_profile",
    "cache_key",
    "explain",
    "forced_tier",
    "load_profile",
    "parse_tier",
    "read_head",
]
