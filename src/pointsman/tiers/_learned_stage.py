"""The learned stage: replaces the rules for prompts that are not out of distribution."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from pointsman.tiers.decision import TierDecision
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, LearnedScorer, ScoreSource
from pointsman.tiers.policy import LearnedRouterSettings
from pointsman.tiers.profile import TierProfile
from pointsman.vocabulary import Encoder, Evidence, Reason, Stage, Tier

_TIERS: Final = tuple(Tier)


class LearnedRouterPolicy(LearnedRouterSettings, frozen=True, kw_only=True):
    """A router, and where its score is cut into tiers. Equal neighbours, or infinity, leave a tier out."""

    learned_router: LearnedRouter


class LearnedStage:
    """A router made ready to decide with one profile. Holds no state between prompts; safe to share."""

    def __init__(
        self, policy: LearnedRouterPolicy, profile: TierProfile, encoder: Encoder | None = None
    ) -> None:
        """Unpack the learned router.

        Raises:
            ConfigError: the learned router is damaged, or the encoder is not the one it was trained with.
        """
        self._scorer = LearnedScorer(policy.learned_router, encoder)
        self._boundaries = policy.boundaries
        self._profile = profile
        self.version = policy.learned_router.digest()
        self._same_rules = policy.learned_router.rules == profile.name

    def after(
        self,
        ruled: TierDecision,
        evidence: Evidence,
        domain: str = "",
        *,
        rules: float | None = None,
        recorded: LearnedScore | None = None,
    ) -> TierDecision:
        """Decide after the rules.

        The decision of the rules holds if an override made it, if the prompt is unlike the training
        data, or if neither its words nor a score are at hand.

        Args:
            ruled: the decision of the rules.
            evidence: the scan of the prompt.
            domain: selects the learned router's offset.
            rules: the score that the profile gives to a prompt without tools, with which a router is
                trained; default: that of ``ruled``.
            recorded: the score of this learned router when the turn was live; replaces words that were not
                stored.
        """
        if ruled.stage is Stage.OVERRIDE:
            return ruled
        if evidence.text or not evidence.characters:
            beside = (ruled.score if rules is None else rules) if self._same_rules else None
            said = self._scorer.score(evidence.text, rules=beside, domain=domain)
        elif recorded:
            said = recorded
        else:
            return _kept(
                ruled, "tiers.learned.no-words", "the prompt's words are not at hand for the learned router"
            )
        if said.source is ScoreSource.PRIOR:
            why = f"unlike what the learned router has learned from: {_told(said)}"
            kept = _kept(ruled, "tiers.learned.unfamiliar", why)
            return msgspec.structs.replace(kept, learned_router=said, learned_router_version=self.version)
        return self._decided(ruled, said)

    def _decided(self, ruled: TierDecision, said: LearnedScore) -> TierDecision:
        rank = sum(said.score >= boundary for boundary in self._boundaries)
        distance = min(abs(said.score - boundary) for boundary in self._boundaries)
        # The same curve as for the rules: 1 / (1 + exp(-steepness * distance)), written not to overflow.
        confidence = 0.5 * (1.0 + math.tanh(0.5 * self._profile.steepness * distance))
        reason = Reason(
            f"tiers.learned.{said.source.name.lower()}", f"learned router {said.score:+.3f}: {_told(said)}"
        )
        return TierDecision(
            tier=_TIERS[rank],
            score=said.score,
            confidence=confidence,
            signals=(*ruled.signals, f"learned router ({said.score:+.3f})"),
            stage=Stage.LEARNED,
            needs_verification=confidence < self._profile.escalation.below,
            reasons=(reason,),
            learned_router=said,
            learned_router_version=self.version,
        )


def _kept(ruled: TierDecision, code: str, why: str) -> TierDecision:
    return msgspec.structs.replace(ruled, reasons=(*ruled.reasons, Reason(code, why)))


def _told(said: LearnedScore) -> str:
    near = f"similarity {said.similarity:.2f}"
    if said.source is ScoreSource.PRIOR:
        return f"how often the models serve such a prompt is not known; {near}"
    weak, strong = (
        f"{chance:.2f} ± {error:.2f}"
        for chance, error in ((said.p_weak, said.weak_error), (said.p_strong, said.strong_error))
    )
    return f"the weak model serves it with {weak}, the strong with {strong}; {near}"
