"""The tier decision, ``TierDecision``."""

from __future__ import annotations

import msgspec

from pointsman.tiers.kinds import KindShift
from pointsman.tiers.learned_router import LearnedScore
from pointsman.vocabulary import Reason, Stage, Tier

__all__ = ["TierDecision"]


class TierDecision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The tier of one prompt, how it came about and how sure it is."""

    tier: Tier
    score: float
    confidence: float  # 0.5 at a boundary .. 1; of the rules, also after verification
    signals: tuple[str, ...]  # what fired, for a person
    stage: Stage
    needs_verification: bool  # the rules were unsure
    reasons: tuple[Reason, ...]
    learned_router: LearnedScore | None = None  # the learned router's score, also where the rules were kept
    learned_router_version: str = ""  # which learned router that was
    kind: KindShift | None = None  # what the kinds of prompts near this one added to the score
    kinds_version: str = ""  # which file of kinds that was
