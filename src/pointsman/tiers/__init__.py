"""Floor 3: the model tier of a prompt."""

from __future__ import annotations

from pointsman.tiers._counterfactual import Change, Contribution, Explanation, explain
from pointsman.tiers._scorer import Scored, TierScorer
from pointsman.tiers.decision import (
    LearnedRouterPolicy,
    LearnedRouterSettings,
    LearnedStage,
    Spending,
    TierDecision,
    Verification,
    asks_to_decide,
    cache_key,
    forced_tier,
    parse_tier,
    with_margin,
)
from pointsman.tiers.escalation import EscalationPolicy
from pointsman.tiers.kinds import BUILTIN_KINDS, Kinds, KindShift, PromptKinds, read_kinds
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, LearnedScorer, read_learned_router
from pointsman.tiers.profile import BUILTIN_PROFILES, TierProfile, builtin_profile, load_profile
from pointsman.tiers.projects import ProjectPolicy, ProjectSettings, RoleTiers, read_projects

__all__ = [
    "BUILTIN_KINDS",
    "BUILTIN_PROFILES",
    "Change",
    "Contribution",
    "EscalationPolicy",
    "Explanation",
    "KindShift",
    "Kinds",
    "LearnedRouter",
    "LearnedRouterPolicy",
    "LearnedRouterSettings",
    "LearnedScore",
    "LearnedScorer",
    "LearnedStage",
    "ProjectPolicy",
    "ProjectSettings",
    "PromptKinds",
    "RoleTiers",
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
    "read_kinds",
    "read_learned_router",
    "read_projects",
    "with_margin",
]
