"""The models of each tier, and those to try for a request: that can serve it, tier by tier."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.model_choice.fitness import TOO_LONG, UNABLE, Requirements, lacks
from pointsman.vocabulary import TIERS, ModelSpec, Parameters, Reason, Tier, WireFormat

__all__ = [
    "FALLBACK_CHAIN",
    "LOWER_TIER",
    "Choice",
    "Pool",
    "Served",
    "Shares",
    "TierModel",
    "TierModels",
    "chances_of",
    "draw_reason",
    "drawn",
    "is_weighted",
    "model_chain",
    "pools",
    "shares",
    "shortfalls",
]


# The models of each tier: in order of preference, or by weight.


#: Code of the reason that says among which models chance chose the first, and how the detail begins.
_DRAWN: Final = "routing.drawn"
_DETAIL: Final = "drawn by weight: "
_SCALE: Final = 2.0**64


class TierModel(Parameters, frozen=True, kw_only=True, omit_defaults=True):
    """A model of a tier, and the parameters it is called with."""

    model: Annotated[str, Meta(description="Name of a configured model.")]
    weight: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Share of the sessions that this model serves first, in proportion to the weights of "
            "the list; 1 where others have a weight. Without any weight: the first that can serve."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse combinations of values that are valid one by one."""
        if self.weight is not None and not 0 < self.weight < math.inf:
            raise ValueError('"weight" must be a positive, finite number')
        super().__post_init__()

    @property
    def parameters(self) -> Parameters | None:
        """The parameters alone; None without parameters."""
        given = {name: getattr(self, name) for name in Parameters.__struct_fields__}
        return Parameters(**given) if any(value is not None for value in given.values()) else None


#: The models of one tier, as they are normalised.
Pool: TypeAlias = tuple[TierModel, ...]

#: The same as it may be written.
Served: TypeAlias = str | TierModel | Sequence[str | TierModel]

#: Which models serve each tier, as it may be written.
TierModels: TypeAlias = Mapping[Tier, Served]


def pools(tier_models: TierModels) -> dict[Tier, Pool]:
    """Return the models of every tier that has one, lowest tier first."""
    return {tier: pool for tier in Tier if tier in tier_models and (pool := _pool(tier_models[tier]))}


def _pool(served: Served) -> Pool:
    entries = (served,) if isinstance(served, str | TierModel) else served
    return tuple(TierModel(model=entry) if isinstance(entry, str) else entry for entry in entries)


def is_weighted(pool: Iterable[TierModel]) -> bool:
    """Whether the first choice is drawn by weight."""
    return any(entry.weight is not None for entry in pool)


class Shares(msgspec.Struct, frozen=True):
    """The models of a pool, and what each draws with where the first is drawn."""

    models: tuple[str, ...]  # in order of preference
    draws: tuple[
        tuple[bytes, float], ...
    ] = ()  # of each model: its salt, its weight; empty: the first is first


def shares(pool: Pool) -> Shares:
    """Return the models of a pool, each once, with their weights if it has any."""
    weights: dict[str, float] = {}
    for entry in pool:
        weights[entry.model] = weights.get(entry.model, 0.0) + (1.0 if entry.weight is None else entry.weight)
    if len(weights) < 2 or not is_weighted(pool):
        return Shares(tuple(weights))
    salts = (
        blake2b(model.encode("utf-8", "surrogatepass"), digest_size=blake2b.SALT_SIZE) for model in weights
    )
    return Shares(
        tuple(weights), tuple(zip((salt.digest() for salt in salts), weights.values(), strict=True))
    )


def draw_reason(first: Shares) -> Reason | None:
    """Say with what chance each model of a pool is drawn; None where the first is first."""
    if not first.draws:
        return None
    whole = sum(weight for _, weight in first.draws)
    chances = {
        model: round(weight / whole, 6) for model, (_, weight) in zip(first.models, first.draws, strict=True)
    }
    return Reason(_DRAWN, _DETAIL + msgspec.json.encode(chances).decode())


def chances_of(reasons: Iterable[Reason]) -> dict[str, float]:
    """By model, the chance with which it was to serve first; empty where chance did not choose."""
    for reason in reasons:
        if reason.code == _DRAWN:
            return msgspec.json.decode(reason.detail.removeprefix(_DETAIL), type=dict[str, float])
    return {}


def drawn(pools: Iterable[Shares], session: str) -> tuple[str, ...]:
    """Return the models of several pools in the order that a session draws, each once.

    A session draws the same in every process and at any time. Each model draws a number, and the smallest is
    first (weighted rendezvous hashing): a missing model moves only the sessions that it served.
    """
    word = session.encode("utf-8", "surrogatepass")
    return tuple(dict.fromkeys(name for pool in pools for name in _order(pool, word)))


def _order(pool: Shares, session: bytes) -> tuple[str, ...]:
    if not pool.draws:
        return pool.models
    waits = [_wait(session, salt) / weight for salt, weight in pool.draws]
    return pool.models[waits.index(min(waits))], *pool.models


def _wait(session: bytes, salt: bytes) -> float:
    """Draw a time until the first event, at one event per unit: of several, each is first by its rate."""
    digest = blake2b(session, digest_size=8, salt=salt, person=b"weights").digest()
    return -math.log((int.from_bytes(digest) + 0.5) / _SCALE)


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


class Choice(msgspec.Struct, frozen=True):
    """Configured model names to try in order, and why others are missing."""

    models: tuple[str, ...]  # empty: no tier has a model, or all are known to be unable (``refused``)
    reasons: tuple[Reason, ...] = ()
    refused: bool = False  # ``reasons`` say why each model is unable
    doubtful: bool = False  # nothing but an estimate of tokens speaks against those tried
    parameters: Mapping[str, Parameters] = {}  # by model, for those that have any
    weighted: tuple[Shares, ...] = ()  # the same models by tier, where a first choice is drawn by weight
    draw: tuple[Reason, ...] = ()  # with what chance each model of the first tier is drawn


def model_chain(
    tier: Tier,
    tier_models: TierModels,
    models: Mapping[str, ModelSpec],
    needed: Requirements,
    *,
    forced: bool = False,
) -> Choice:
    """The models for a tier: in the order of its list, but of equal prices the native format first.

    If no model of the fallback chain can serve, lower tiers are tried, nearest first, then tiers above the
    chain; ``reasons`` lists them. Models that only the estimate of tokens excludes are tried last, because
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
        return Choice(())
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
    return Choice((), judge.reasons() or (nothing,), refused=True)


def _ways(tier: Tier, of: Mapping[Tier, Pool], *, forced: bool) -> list[tuple[tuple[Tier, ...], str]]:
    """The tiers to look among, in order of preference, and how going there is called."""
    chain = FALLBACK_CHAIN[tier]
    above = TIERS[chain[-1].rank + 1 :]
    if not forced:
        return [(chain, ""), (TIERS[: tier.rank][::-1], LOWER_TIER), (above, _ONLY_HIGHER)]
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


def _chain(groups: Mapping[Tier, Pool], skipped: tuple[Reason, ...], *, doubtful: bool = False) -> Choice:
    entries = [entry for pool in groups.values() for entry in pool]
    parameters: dict[str, Parameters | None] = {}
    for entry in entries:
        parameters.setdefault(entry.model, entry.parameters)
    weighted = tuple(map(shares, groups.values())) if any(map(is_weighted, groups.values())) else ()
    draw = draw_reason(weighted[0]) if weighted else None
    return Choice(
        tuple(parameters),
        skipped,
        doubtful=doubtful,
        weighted=weighted,
        parameters={model: given for model, given in parameters.items() if given is not None},
        draw=(draw,) if draw else (),
    )


# Requests that the tiers of a configuration cannot serve: they fall to a lower tier, or fail.


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
                kind = (None if chain.refused else tier, feature, _why_missing(chain))
                formats = kinds.setdefault(kind, [])
                if wire not in formats:
                    formats.append(wire)
    lines = [_line(*kind, formats) for kind, formats in kinds.items()]
    if empty:
        lines.append(f"no model is configured for {', '.join(empty)}: a lower tier serves")
    return lines


def _falling(
    tier: Tier, tier_models: TierModels, models: Mapping[str, ModelSpec], wire: WireFormat
) -> Iterator[tuple[str, Choice]]:
    for feature in _FEATURES:
        needed = Requirements(features=frozenset({feature} - {""}), format=wire)
        chain = model_chain(tier, tier_models, models, needed)
        if chain.refused or any(reason.code == LOWER_TIER for reason in chain.reasons):
            yield feature, chain
            if not feature:
                return


def _why_missing(chain: Choice) -> str:
    """Why each model is left out; the same models in the same order, whatever tier asks."""
    details = [reason.detail for reason in chain.reasons]
    return "; ".join(sorted(details) if chain.refused else details)


def _line(tier: Tier | None, feature: str, why: str, formats: list[WireFormat]) -> str:
    kind = f" with {feature}" if feature else ""
    where = "" if len(formats) == len(WireFormat) else f" in format {' or '.join(formats)}"
    if tier is None:
        return f"no model can serve a request{kind}{where}: {why}"
    return f"a request of tier {tier}{kind}{where} falls to a lower tier: {why}"
