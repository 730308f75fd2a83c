"""The fallback chain: the models that may serve a tier, in order.

What a request needs is checked before the tier: a model that cannot read the images is no choice, however
cheap. The tier then bounds the price: nothing more expensive than its fallback chain is ever tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat

__all__ = ["FALLBACK_CHAIN", "Chain", "Requirements", "lacks", "model_chain"]

#: Tier -> tiers tried in turn when a provider fails. Source: docs/sources/prompt-classifier.md, "Fallback
#: chain".
FALLBACK_CHAIN: Final = {
    Tier.SIMPLE: (Tier.SIMPLE, Tier.MEDIUM, Tier.COMPLEX),
    Tier.MEDIUM: (Tier.MEDIUM, Tier.COMPLEX),
    Tier.COMPLEX: (Tier.COMPLEX, Tier.REASONING),
    Tier.REASONING: (Tier.REASONING,),
}

_TIERS: Final = tuple(Tier)


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """What a request asks of a model."""

    tokens: int = 0  # estimate of everything sent, plus the room asked for the answer
    features: frozenset[str] = frozenset()  # of "tools", "vision", "structured"
    format: WireFormat | None = None  # None: any


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Configured model names to try in order, and why others are missing."""

    models: tuple[str, ...]  # empty only when no tier has a model
    skipped: tuple[Reason, ...] = ()


def model_chain(
    tier: Tier, tier_models: Mapping[Tier, str], models: Mapping[str, ModelSpec], needed: Requirements
) -> Chain:
    """The models for a tier.

    When none of the fallback chain can serve, cheaper tiers are tried, nearest first. When those cannot
    either, the chain is left unfiltered: what we know of a model may be wrong, and its own error says more
    than a refusal of ours. Only where no tier up to the chain's last has a model at all, the next more
    expensive one serves: an operator who configured a single model means it.
    """
    named = _named(FALLBACK_CHAIN[tier], tier_models)
    cheaper = _named(reversed(_TIERS[: tier.rank]), tier_models)
    skipped: list[Reason] = []
    for names in (named, cheaper):
        able = []
        for name in names:
            missing = list(lacks(models[name], needed))
            skipped += missing
            if not missing:
                able.append(name)
        if able:
            return Chain(tuple(able), tuple(skipped))
    if unable := named or cheaper:
        skipped.append(Reason("routing.none-able", "no model can serve this request; tried nevertheless"))
        return Chain(unable, tuple(skipped))
    dearer = _named(_TIERS[tier.rank :], tier_models)[:1]
    if not dearer:
        return Chain(())
    return Chain(dearer, (Reason("routing.only-dearer", f"no tier up to {tier} has a model"),))


def _named(tiers: Iterable[Tier], tier_models: Mapping[Tier, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tier_models[tier] for tier in tiers if tier in tier_models))


def lacks(model: ModelSpec, needed: Requirements) -> Iterator[Reason]:
    """Why a model cannot serve. What is not known of a model is not held against it."""
    if model.context_window is not None and needed.tokens > model.context_window:
        fits = f"{needed.tokens} tokens do not fit its context window of {model.context_window}"
        yield Reason("routing.skipped.context_window", f'"{model.name}": {fits}')
    if model.features is not None and (missing := needed.features - model.features):
        yield Reason("routing.skipped.feature", f'"{model.name}" has no {", ".join(sorted(missing))}')
    if needed.format is not None and needed.format not in model.formats:
        yield Reason("routing.skipped.format", f'"{model.name}" does not speak {needed.format}')
