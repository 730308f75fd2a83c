"""Floor 3: which model tier should serve a prompt."""

from __future__ import annotations

from pointsman.tiers.decision import TierDecision
from pointsman.tiers.judge import Scored, TierJudge
from pointsman.tiers.loading import BUILTIN_PROFILES, builtin_profile, load_profile
from pointsman.tiers.profile import TierProfile

__all__ = [
    "BUILTIN_PROFILES",
    "Scored",
    "TierDecision",
    "TierJudge",
    "TierProfile",
    "builtin_profile",
    "load_profile",
]
