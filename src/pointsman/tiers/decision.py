"""The tier decision, and what may replace that of the rules: a learned router, a model that verifies.

The structs of policies are tables of the configuration: their docstrings are printed in its reference.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from pointsman.remembering import remembered
from pointsman.tiers.kinds import KindShift
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, LearnedScorer, ScoreSource
from pointsman.tiers.profile import Margin, TierProfile, VerificationPrompt
from pointsman.vocabulary import (
    DAY,
    TIERS,
    Encoder,
    Evidence,
    ModelQuery,
    ModelReply,
    Reason,
    Share,
    Stage,
    Tier,
)

__all__ = ["LearnedRouterSettings", "Spending", "TierDecision", "Verification"]


class Spending(msgspec.Struct, frozen=True, gc=False):
    """Questions and money since ``opened_at``."""

    opened_at: float = 0.0  # seconds since the epoch
    requests: int = 0
    asked: int = 0
    money: float = 0.0  # in US dollars
    others: dict[str, float] = {}  # the same for questions of other kinds, by kind


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """When a cheap model verifies a tier, and its budget. Without this table no model is asked."""

    model: Annotated[
        str, Meta(description="Name of the model to ask; default: the first model of tier SIMPLE.")
    ] = ""  # source: docs/sources/prompt-classifier.md, "Configuration"
    # The profile `default` has 0.04: asks about 14 % of MMLU, 7 % of GSM8K (docs/explanation/tiers.md).
    margin: Annotated[
        Share | None,
        Meta(
            description="Ask only if the confidence is this close to .50, its value at a boundary. "
            "Default: the profile's rule, 0.04 in `default` and 0.20 in `seed`."
        ),
    ] = None
    # sources: docs/notebook/0023, docs/notebook/0083
    share: Annotated[Share, Meta(description="Budget: ask for at most this share of requests.")] = 0.15
    timeout_ms: Annotated[int, Meta(ge=1, description="Timeout in milliseconds; then the rules decide.")] = (
        500
    )
    money_per_day: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="Budget: maximum cost per day, in US dollars."),
    ] = None
    cache: Annotated[
        int, Meta(ge=0, description="Cache size: answers kept, so that no text is asked about twice.")
    ] = 4_096  # entries of a hash and a label: under 1 MB

    def request(self, spending: Spending, now: float) -> Spending:
        """Count a request, whether or not it asks: once each, before ``refuses``."""
        if now - spending.opened_at >= DAY:  # counting starts again
            spending = Spending(opened_at=now)
        return msgspec.structs.replace(spending, requests=spending.requests + 1)

    def refuses(self, spending: Spending, price: float | None) -> str:
        """Why this request may not ask for ``price`` (None: unknown); empty when it may."""
        if spending.asked >= self.share * spending.requests:
            return f"{spending.asked} of {spending.requests} requests have asked, the share is {self.share:g}"
        if self.money_per_day is None:
            return ""
        if price is None:
            return f'the price of "{self.model}" is unknown, and {self.money_per_day:g} a day is the most'
        if spending.money + price > self.money_per_day:
            return f"{spending.money:.4f} of {self.money_per_day:g} is spent"
        return ""

    def ask(self, spending: Spending, price: float | None) -> Spending:
        """Count a question and its price, if known."""
        money = spending.money + (price or 0.0)
        return msgspec.structs.replace(spending, asked=spending.asked + 1, money=money)


class LearnedRouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A router trained on recorded outcomes. The profile decides prompts that are out of distribution."""

    boundaries: Annotated[
        tuple[float, float, float],
        Meta(
            description="Scores of the router at which MEDIUM, COMPLEX and REASONING begin, as "
            "`pointsman fit policy` writes them; `inf` leaves a tier out."
        ),
    ]

    def __post_init__(self) -> None:
        medium, complex_, reasoning = self.boundaries
        if not medium <= complex_ <= reasoning:  # nor where one of them is no number
            raise ValueError("boundaries must not fall from one tier to the next")


# From model ids to the tiers they name.

#: The id that leaves the tier to us.
AUTO: Final = "auto"

#: Prefixes of a model id that names a tier. Source of the second: docs/sources/prompt-classifier.md,
#: "Forced tier override".
_PREFIXES: Final = ("pointsman/", "claw-llm-router/")

#: Model ids kept with their meaning: callers ask for the same few again and again.
_KNOWN: Final = 256
_LONGEST: Final = 256  # characters of such an id


def _forced_tier(model: str) -> Tier | None:
    name = _bare(model).upper()
    return Tier(name) if name in Tier.__members__ else None


def _asks_to_decide(model: str) -> bool:
    return _bare(model).lower() in {AUTO, "", "pointsman"}


def _bare(model: str) -> str:
    for prefix in _PREFIXES:
        if model.lower().startswith(prefix):
            return model[len(prefix) :]
    return model


#: The tier a model id names (``simple``, ``pointsman/simple``), in any case; None for other ids.
forced_tier: Final = remembered(_forced_tier, _KNOWN, _LONGEST)
#: Whether a model id leaves the tier to us: ``auto``, ``pointsman/auto``, ``pointsman``, or no id.
asks_to_decide: Final = remembered(_asks_to_decide, _KNOWN, _LONGEST)


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


# The learned stage: replaces the rules for prompts that are not out of distribution.


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
            tier=TIERS[rank],
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


_LABELS: Final = tuple(tier.value for tier in Tier)

#: Errors that mean no call was made; every other error is a call that failed.
#: Source: docs/sources/prompt-classifier.md, "Failure modes".
_SKIPPED: Final = frozenset({"no-key", "budget", "no-model"})


#: Milliseconds a model is waited for where no policy says how long.
_TIMEOUT: Final = Verification().timeout_ms


def with_margin(profile: TierProfile, verification: Verification | None) -> TierProfile:
    """The profile with the margin of a policy in place of its rule, if the policy has one."""
    if verification is None or verification.margin is None:
        return profile
    escalation = Margin(within=verification.margin, signal=profile.escalation.signal)
    return msgspec.structs.replace(profile, escalation=escalation)


def ask(prompt: VerificationPrompt, text: str, *, timeout_ms: int = _TIMEOUT) -> ModelQuery:
    """The question. The text is alone in the data part, between marker lines it cannot contain."""
    cut = text[: prompt.cut]
    marker = _marker(cut)
    return ModelQuery(
        kind="verify_tier",
        system=prompt.rubric.strip(),
        text=f"{marker}\n{cut}\n{marker}",
        labels=_LABELS,
        max_tokens=prompt.max_tokens,
        timeout_ms=timeout_ms,
    )


def parse_tier(reply: str) -> Tier | None:
    """The tier a reply names: exactly, or else the first of the labels it contains.

    Source: docs/sources/prompt-classifier.md, "How the model-based classifier works".
    """
    upper = reply.strip().upper()
    return next((tier for tier in Tier if tier == upper), None) or next((t for t in Tier if t in upper), None)


def settle(prompt: VerificationPrompt, ruled: TierDecision, answer: ModelReply) -> TierDecision:
    """Put the answer, or its failure, in place of the rules' tier."""
    tier = parse_tier(answer.text) if answer.ok else None
    if tier is None:
        return _failed(prompt, ruled, answer)
    verb = "confirmed" if tier is ruled.tier else "overridden"
    reason = Reason(f"tiers.llm-{verb}", f"the rules said {ruled.tier}, the model {tier}")
    return msgspec.structs.replace(ruled, tier=tier, stage=Stage.VERIFIED, reasons=(*ruled.reasons, reason))


def cache_key(need: ModelQuery) -> str:
    """Equal needs have equal keys: 128 bits over everything that shapes the answer."""
    parts = (need.kind, need.model, need.system, need.text)
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _failed(prompt: VerificationPrompt, ruled: TierDecision, answer: ModelReply) -> TierDecision:
    tier = prompt.on_failure or ruled.tier
    if answer.ok:
        code, why = "llm-invalid", "the reply names no tier"
    else:
        code, why = "llm-skipped" if answer.error in _SKIPPED else "llm-failed", answer.error
    reason = Reason(f"tiers.abstained.{code}", f"{why}; {tier} holds")
    return msgspec.structs.replace(ruled, tier=tier, stage=Stage.FALLBACK, reasons=(*ruled.reasons, reason))


def _marker(text: str) -> str:
    """A line the text does not contain: a digest of the text, taken again until it is absent."""
    digest = text
    while True:
        digest = blake2b(digest.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        if digest not in text:
            return f"=== {digest} ==="
