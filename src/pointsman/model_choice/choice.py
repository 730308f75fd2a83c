"""Chooses the models of a request: the tier's fallback chain and the session's model."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pointsman.model_choice.fallback import Chain, Requirements, lacks, model_chain
from pointsman.model_choice.stickiness import Load, settle
from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat

__all__ = ["Choice", "InUse", "ModelChooser"]


class InUse(msgspec.Struct, frozen=True, gc=False):
    """The model a session has, and what moving away from it would touch."""

    model: str  # configured name
    in_tool_loop: bool  # this request continues the work on the same user message
    load: Load


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Configured model names, first choice first, and why."""

    models: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()


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
            able=not any(lacks(models[in_use.model], needed)),
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
