"""The names of the founding document on prompt classification."""

from __future__ import annotations

from pointsman.model_choice.choice import FALLBACK_CHAIN
from pointsman.tiers.decision import TierDecision
from pointsman.vocabulary import Tier

__all__ = ["FALLBACK_CHAIN", "RouterDecision", "Tier"]

#: The document's name of the decision. Its counterfactuals are in ``pointsman.tiers.explain``; the time a
#: decision took is in ``pointsman.Decision.elapsed_us``.
RouterDecision = TierDecision
