"""Which models serve a turn, in order: the tier's chain, and whether the session stays with what it has."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pointsman.routing.chain import Requirements, lacks, model_chain
from pointsman.routing.stickiness import Load, settle
from pointsman.types import ModelSpec, Reason, Tier

__all__ = ["Choice", "InUse", "choose_models"]


class InUse(msgspec.Struct, frozen=True, gc=False):
    """The model a session has, and what moving away from it would touch."""

    model: str  # configured name
    in_tool_loop: bool  # this request continues the work on the same user message
    load: Load


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Configured model names, first choice first, and why."""

    models: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()


def choose_models(
    tier: Tier,
    ladder: Mapping[Tier, str],
    models: Mapping[str, ModelSpec],
    needed: Requirements,
    in_use: InUse | None,
) -> Choice:
    """The models to try for a turn. ``in_use`` is None for a new session and for a forced tier."""
    chain = model_chain(tier, ladder, models, needed)
    if in_use is None or in_use.model not in models or not chain.models:
        return Choice(chain.models, chain.skipped)
    settled = settle(
        models[in_use.model],
        models[chain.models[0]],
        up=_rank(chain.models[0], ladder) > _rank(in_use.model, ladder),
        in_tool_loop=in_use.in_tool_loop,
        load=in_use.load,
        able=not any(lacks(models[in_use.model], needed)),
    )
    rest = (name for name in chain.models if name != settled.model)
    return Choice((settled.model, *rest), (*chain.skipped, settled.reason))


def _rank(model: str, ladder: Mapping[Tier, str]) -> int:
    """The highest tier a model serves; below all of them when it serves none."""
    return max((tier.rank for tier, name in ladder.items() if name == model), default=-1)
