"""Requests that the tiers of a configuration cannot serve: they fall to a lower tier, or fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pointsman.model_choice.chains import FALLBACK_CHAIN, LOWER_TIER, Chain, model_chain
from pointsman.model_choice.fitness import Requirements
from pointsman.model_choice.pools import TierModels, pools
from pointsman.vocabulary import ModelSpec, Tier, WireFormat

__all__ = ["shortfalls"]

#: What is asked for beyond text; the first stands for nothing beyond it.
_FEATURES: Final = ("", "tools", "vision", "structured")


def shortfalls(tier_models: TierModels, models: Mapping[str, ModelSpec]) -> list[str]:
    """Return a line for each kind of request that a lower tier serves, or no model at all.

    A kind is a tier, a feature and the wire formats for which the same is true. A format with plain
    requests that already fall is not listed again for each feature.
    """
    of = pools(tier_models)
    if not of:
        return []
    empty = [
        tier
        for tier in Tier
        if tier.rank > min(step.rank for step in of) and not of.keys() & FALLBACK_CHAIN[tier]
    ]
    kinds: dict[tuple[Tier | None, str, str], list[WireFormat]] = {}
    for tier in Tier:
        for wire in WireFormat:
            for feature, chain in _falling(tier, of, models, wire):
                if tier in empty and not chain.refused:
                    continue
                kind = (None if chain.refused else tier, feature, _why(chain))
                formats = kinds.setdefault(kind, [])
                if wire not in formats:
                    formats.append(wire)
    lines = [_line(*kind, formats) for kind, formats in kinds.items()]
    if empty:
        lines.append(f"no model is configured for {', '.join(empty)}: a lower tier serves")
    return lines


def _falling(
    tier: Tier, tier_models: TierModels, models: Mapping[str, ModelSpec], wire: WireFormat
) -> Iterator[tuple[str, Chain]]:
    for feature in _FEATURES:
        needed = Requirements(features=frozenset({feature} - {""}), format=wire)
        chain = model_chain(tier, tier_models, models, needed)
        if chain.refused or any(reason.code == LOWER_TIER for reason in chain.skipped):
            yield feature, chain
            if not feature:
                return


def _why(chain: Chain) -> str:
    """Why each model is left out; the same models in the same order, whatever tier asks."""
    details = [reason.detail for reason in chain.skipped]
    return "; ".join(sorted(details) if chain.refused else details)


def _line(tier: Tier | None, feature: str, why: str, formats: list[WireFormat]) -> str:
    kind = f" with {feature}" if feature else ""
    where = "" if len(formats) == len(WireFormat) else f" in format {' or '.join(formats)}"
    if tier is None:
        return f"no model can serve a request{kind}{where}: {why}"
    return f"a request of tier {tier}{kind}{where} falls to a lower tier: {why}"
