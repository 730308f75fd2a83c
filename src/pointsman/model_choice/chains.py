"""The models to try for a tier: those that can serve the request, tier by tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from pointsman.model_choice.fitness import TOO_LONG, UNABLE, Requirements, lacks
from pointsman.model_choice.pools import Pool, Shares, TierModels, draw_reason, is_weighted, pools, shares
from pointsman.vocabulary import ModelSpec, Parameters, Reason, Tier

__all__ = ["FALLBACK_CHAIN", "LOWER_TIER", "Chain", "model_chain"]

#: Tier -> tiers tried in turn when a provider fails. Source: docs/sources/prompt-classifier.md, "Fallback
#: chain".
FALLBACK_CHAIN: Final = {
    Tier.SIMPLE: (Tier.SIMPLE, Tier.MEDIUM, Tier.COMPLEX),
    Tier.MEDIUM: (Tier.MEDIUM, Tier.COMPLEX),
    Tier.COMPLEX: (Tier.COMPLEX, Tier.REASONING),
    Tier.REASONING: (Tier.REASONING,),
}

#: The reason of a request that a model of a lower tier serves.
LOWER_TIER: Final = "routing.lower-tier"
_ONLY_HIGHER: Final = "routing.only-dearer"
_DOUBTFUL: Final = "routing.none-able"

_TIERS: Final = tuple(Tier)


class Chain(msgspec.Struct, frozen=True):
    """Configured model names to try in order, and why others are missing."""

    models: tuple[str, ...]  # empty: no tier has a model, or all are known to be unable (``refused``)
    skipped: tuple[Reason, ...] = ()
    refused: bool = False  # every model is known to be unable
    doubtful: bool = False  # nothing but an estimate of tokens speaks against those tried
    weighted: tuple[Shares, ...] = ()  # the same models by tier, where a first choice is drawn by weight
    parameters: Mapping[str, Parameters] = {}  # by model, for those that have any
    draw: tuple[Reason, ...] = ()  # with what chance each model of the first tier is drawn


def model_chain(
    tier: Tier,
    tier_models: TierModels,
    models: Mapping[str, ModelSpec],
    needed: Requirements,
    *,
    forced: bool = False,
) -> Chain:
    """The models for a tier: in the order of its list, but of equal prices the native format first.

    If no model of the fallback chain can serve, lower tiers are tried, nearest first, then tiers above the
    chain; ``skipped`` lists them. Models that only the estimate of tokens excludes are tried last, because
    an error of the provider is more precise than a refusal by Pointsman.

    Args:
        tier: The tier decided.
        tier_models: The models of each tier.
        models: The configured models, by name.
        needed: The requirements of the request.
        forced: The caller named the tier: its models serve, or the models of a higher tier if it is empty.
    """
    of = pools(tier_models)
    if not of:
        return Chain(())
    judge = _Judge(of, models, needed)
    ways = _ways(tier, of, forced=forced)
    for tiers, code in ways:
        if judge.able(tiers):
            # A provider may fail: what else of the chain is able comes behind the tier that was asked for.
            groups = judge.able(FALLBACK_CHAIN[tier] if forced and tiers == (tier,) else tiers)
            return _chain(groups, judge.reasons(_why(code, tier, next(iter(groups)), of)))
    for tiers, _ in ways:
        if groups := judge.able(tiers, doubtful=True):
            why = "no model's context window is known to hold this request; tried nevertheless"
            return _chain(groups, judge.reasons(Reason(_DOUBTFUL, why)), doubtful=True)
    nothing = Reason(f"{UNABLE}no-model", f"no tier of {tier} or above has a model")
    return Chain((), judge.reasons() or (nothing,), refused=True)


def _ways(tier: Tier, of: Mapping[Tier, Pool], *, forced: bool) -> list[tuple[tuple[Tier, ...], str]]:
    """The tiers to look among, in order of preference, and how going there is called."""
    chain = FALLBACK_CHAIN[tier]
    above = _TIERS[chain[-1].rank + 1 :]
    if not forced:
        return [(chain, ""), (_TIERS[: tier.rank][::-1], LOWER_TIER), (above, _ONLY_HIGHER)]
    return [((tier,), "")] if tier in of else [(chain, ""), (above, _ONLY_HIGHER)]


class _Judge:
    """Judges every model once, and remembers why not."""

    def __init__(
        self, of: Mapping[Tier, Pool], models: Mapping[str, ModelSpec], needed: Requirements
    ) -> None:
        self._of = of
        self._models = models
        self._needed = needed
        self._missing: dict[str, list[Reason]] = {}  # by model, in the order of judging

    def able(self, tiers: Iterable[Tier], *, doubtful: bool = False) -> dict[Tier, Pool]:
        """The models of each tier that can serve, or only seem too small; no tier without any."""
        found = {}
        for tier in tiers:
            pool = self._of.get(tier, ())
            if able := tuple(entry for entry in pool if self._is_able(entry.model, doubtful=doubtful)):
                found[tier] = self._native_first(able)
        return found

    def _native_first(self, pool: Pool) -> Pool:
        """Of models with the same prices, put those first that speak the request's format natively.

        Translation costs them cache markers and signed reasoning, and buys nothing. Where a weight draws the
        first choice, that choice is final.
        """
        spoken = self._needed.format
        if spoken is None or len(pool) < 2 or is_weighted(pool):
            return pool
        specs = [self._models[entry.model] for entry in pool]
        prices: list[tuple[float | None, ...]] = [
            (spec.input_per_million, spec.output_per_million) if spec.is_priced else (place,)
            for place, spec in enumerate(specs)
        ]
        order = sorted(
            range(len(pool)),
            key=lambda place: (prices.index(prices[place]), spoken not in specs[place].formats, place),
        )
        return tuple(pool[place] for place in order)

    def _is_able(self, model: str, *, doubtful: bool) -> bool:
        missing = self._missing.get(model)
        if missing is None:
            missing = self._missing[model] = list(lacks(self._models[model], self._needed))
        return not missing or (doubtful and all(reason.code == TOO_LONG for reason in missing))

    def reasons(self, last: Reason | None = None) -> tuple[Reason, ...]:
        """Why models are left out, and one more reason."""
        missing = [reason for reasons in self._missing.values() for reason in reasons]
        return (*missing, last) if last else tuple(missing)


def _why(code: str, tier: Tier, found: Tier, of: Mapping[Tier, Pool]) -> Reason | None:
    """Say why another tier serves than the fallback chain has."""
    if not code:
        return None
    chain = FALLBACK_CHAIN[tier]
    if code != LOWER_TIER:
        them, has = f"the tiers up to {chain[-1]}", "have"
    elif chain == (tier,):
        them, has = f"tier {tier}", "has"
    else:
        them, has = f"the tiers {tier} to {chain[-1]}", "have"
    cannot = "cannot serve this request" if any(step in of for step in chain) else f"{has} no model"
    return Reason(code, f"{them} {cannot}: {found} comes next")


def _chain(groups: Mapping[Tier, Pool], skipped: tuple[Reason, ...], *, doubtful: bool = False) -> Chain:
    entries = [entry for pool in groups.values() for entry in pool]
    parameters: dict[str, Parameters | None] = {}
    for entry in entries:
        parameters.setdefault(entry.model, entry.parameters)
    weighted = tuple(map(shares, groups.values())) if any(map(is_weighted, groups.values())) else ()
    draw = draw_reason(weighted[0]) if weighted else None
    return Chain(
        tuple(parameters),
        skipped,
        doubtful=doubtful,
        weighted=weighted,
        parameters={model: given for model, given in parameters.items() if given is not None},
        draw=(draw,) if draw else (),
    )
