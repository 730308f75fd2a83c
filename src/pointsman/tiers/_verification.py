"""Verification of a tier by a model: the query, parsing the reply, and the fallback."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from pointsman.tiers.decision import TierDecision
from pointsman.tiers.policy import Verification
from pointsman.tiers.profile import Margin, TierProfile, VerificationPrompt
from pointsman.vocabulary import ModelQuery, ModelReply, Reason, Stage, Tier

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
