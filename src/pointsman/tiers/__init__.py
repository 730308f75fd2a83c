"""Floor 3: the model tier of a prompt."""

from __future__ import annotations

from pointsman.tiers.counterfactual import Change
from pointsman.tiers.decision import TierDecision
from pointsman.tiers.explanation import Contribution, Explanation, explain
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, LearnedScorer, read_learned_router
from pointsman.tiers.learned_stage import LearnedRouterPolicy, LearnedStage
from pointsman.tiers.loading import BUILTIN_PROFILES, builtin_profile, load_profile
from pointsman.tiers.model_ids import asks_to_decide, forced_tier
from pointsman.tiers.policy import LearnedRouterSettings, Spending, Verification
from pointsman.tiers.profile import TierProfile
from pointsman.tiers.scorer import Scored, TierScorer
from pointsman.tiers.verification import cache_key, parse_tier

__all__ = [
    "BUILTIN_PROFILES",
    "Change",
    "Contribution",
    "Explanation",
    "LearnedRouter",
    "LearnedRouterPolicy",
    "LearnedRouterSettings",
    "LearnedScore",
    "LearnedScorer",
    "LearnedStage",
    "Scored",
    "Spending",
    "TierDecision",
    "TierProfile",
    "TierScorer",
    "Verification",
    "asks_to_decide",
    "builtin_profile",
    "cache_key",
    "explain",
    "forced_tier",
    "load_profile",
    "parse_tier",
    "read_learned_router",
]
