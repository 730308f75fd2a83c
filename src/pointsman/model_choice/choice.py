"""Chooses the models of a request: those that fit, the tier's fallback chain, and the session's model.

Whether a model fits a request is judged here and nowhere else (``lacks``): a model that cannot read the
images is no choice, however cheap. The tier then bounds the price: nothing more expensive than its fallback
chain is tried. Changing the model throws away what the provider has cached of the conversation, and inside a
tool loop the model's own thinking signatures, so a change must save more than that (``settle``). Source:
docs/explanation/tiers.md, "From the tier to a model".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat

__all__ = [
    "BYTES_PER_TOKEN",
    "FALLBACK_CHAIN",
    "Chain",
    "Choice",
    "InUse",
    "Load",
    "ModelChooser",
    "Requirements",
    "Settled",
    "lacks",
    "model_chain",
    "settle",
]

#: A byte of JSON is a quarter of a token, as everywhere (docs/explanation/evidence.md).
BYTES_PER_TOKEN: Final = 4

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

    @classmethod
    def of(cls, size: int, features: Iterable[str], wire: WireFormat) -> Requirements:
        """What a request of ``size`` bytes asks of a model."""
        return cls(size // BYTES_PER_TOKEN, frozenset(features), wire)


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Configured model names to try in order, and why others are missing."""

    models: tuple[str, ...]  # empty only when no tier has a model
    skipped: tuple[Reason, ...] = ()


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Configured model names, first choice first, and why."""

    models: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()


class Load(msgspec.Struct, frozen=True, gc=False):
    """What the coming turns are expected to send and receive, in tokens."""

    context: int  # the conversation so far: what a cache holds
    fresh: int = 0  # new input a turn
    output: int = 0  # answer a turn
    turns: int = 1  # turns the saving is counted over


class InUse(msgspec.Struct, frozen=True, gc=False):
    """The model a session has, and what moving away from it would touch."""

    model: str  # configured name
    in_tool_loop: bool  # this request continues the work on the same user message
    load: Load


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The model to use, and why it is that one."""

    model: str
    reason: Reason


class ModelChooser:
    """Chooses among configured models. A chain is put together once for each kind of request."""

    def __init__(self, tier_models: Mapping[Tier, str], models: Mapping[str, ModelSpec]) -> None:
        self._tier_models = tier_models
        self._models = models
        windows = [model.context_window for model in models.values() if model.context_window is not None]
        self._fits_all = min(windows, default=None)  # tokens that no window is too small for
        self._chains: dict[tuple[Tier, frozenset[str], WireFormat | None], Chain] = {}
        #: The highest tier each model serves.
        self._ranks = {tier_models[tier]: tier.rank for tier in Tier if tier in tier_models}

    def choose(self, tier: Tier, needed: Requirements, in_use: InUse | None) -> Choice:
        """The models to try for a turn. ``in_use`` is None for a new session and for a forced tier."""
        chain = self._chain(tier, needed)
        models, ranks = self._models, self._ranks
        if in_use is None or in_use.model not in models or not chain.models:
            return Choice(chain.models, chain.skipped)
        settled = settle(
            models[in_use.model],
            models[chain.models[0]],
            up=ranks.get(chain.models[0], -1) > ranks.get(in_use.model, -1),
            in_tool_loop=in_use.in_tool_loop,
            load=in_use.load,
            able=in_use.model == chain.models[0] or not any(lacks(models[in_use.model], needed)),
        )
        rest = (name for name in chain.models if name != settled.model)
        return Choice((settled.model, *rest), (*chain.skipped, settled.reason))

    def _chain(self, tier: Tier, needed: Requirements) -> Chain:
        if self._fits_all is not None and needed.tokens > self._fits_all:
            return model_chain(tier, self._tier_models, self._models, needed)
        kind = (tier, needed.features, needed.format)
        chain = self._chains.get(kind)
        if chain is None:
            chain = self._chains[kind] = model_chain(tier, self._tier_models, self._models, needed)
        return chain


def lacks(model: ModelSpec, needed: Requirements) -> Iterator[Reason]:
    """Why a model cannot serve. What is not known of a model is not held against it."""
    if model.context_window is not None and needed.tokens > model.context_window:
        fits = f"{needed.tokens} tokens do not fit its context window of {model.context_window}"
        yield Reason("routing.skipped.context_window", f'"{model.name}": {fits}')
    if model.features is not None and (missing := needed.features - model.features):
        yield Reason("routing.skipped.feature", f'"{model.name}" has no {", ".join(sorted(missing))}')
    if needed.format is not None and not model.takes(needed.format):
        yield Reason("routing.skipped.format", f'"{model.name}" does not speak {needed.format}')


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


def settle(
    in_use: ModelSpec | None,
    proposed: ModelSpec,
    *,
    up: bool,
    in_tool_loop: bool,
    load: Load,
    able: bool = True,
) -> Settled:
    """Stay with the model in use, or move to the proposed one.

    Args:
        in_use: the session's model; None when it has none yet.
        proposed: the first model of this turn's chain.
        up: whether the proposed model is of a higher tier.
        in_tool_loop: whether this request answers tool calls rather than a person.
        load: what the saving is counted on.
        able: whether the model in use can serve this request at all.
    """
    if in_use is None or in_use.name == proposed.name:
        return Settled(proposed.name, Reason("routing.first", f'"{proposed.name}" is the tier\'s model'))
    if not able:
        return Settled(proposed.name, Reason("routing.unable", f'"{in_use.name}" cannot serve this request'))
    if in_tool_loop:
        return Settled(in_use.name, Reason("routing.tool-loop", f'"{in_use.name}" stays within a tool loop'))
    if up:
        return Settled(proposed.name, Reason("routing.up", "a higher tier is never held back"))
    return _weighed(in_use, proposed, load)


def _weighed(in_use: ModelSpec, proposed: ModelSpec, load: Load) -> Settled:
    """Move where the saving is worth more than the cache that is left behind."""
    now, then, rebuild = _turn(in_use, load), _turn(proposed, load), proposed.rebuild(load.context)
    if now is None or then is None or rebuild is None:
        unknown = " and ".join(f'"{model.name}"' for model in (in_use, proposed) if not model.is_priced)
        return Settled(in_use.name, Reason("routing.price-unknown", f"the price of {unknown} is unknown"))
    saving = load.turns * (now - then)
    compared = f"saving {saving:.6f}, rebuilding the cache {rebuild:.6f}"
    if saving > rebuild:
        return Settled(proposed.name, Reason("routing.down", compared))
    return Settled(in_use.name, Reason("routing.not-worth", compared))


def _turn(model: ModelSpec, load: Load) -> float | None:
    """What a turn costs once the cache is warm, in the currency of the prices; None if unknown."""
    return model.cost(load.context + load.fresh, load.context, load.output)
