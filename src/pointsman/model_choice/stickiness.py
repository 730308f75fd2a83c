"""Model stickiness: whether a session keeps its model.

Changing the model throws away what the provider has cached of the conversation, and inside a tool loop the
model's own thinking signatures. Source: docs/explanation/tiers.md, "From the tier to a model".
"""

from __future__ import annotations

import msgspec

from pointsman.vocabulary import ModelSpec, Reason

__all__ = ["Load", "Settled", "settle"]

#: Prices are per so many tokens.
_PER = 1_000_000


class Load(msgspec.Struct, frozen=True, gc=False):
    """What the coming turns are expected to send and receive, in tokens."""

    context: int  # the conversation so far: what a cache holds
    fresh: int = 0  # new input a turn
    output: int = 0  # answer a turn
    turns: int = 1  # turns the saving is counted over


class Settled(msgspec.Struct, frozen=True, gc=False):
    """The model to use, and why it is that one."""

    model: str
    reason: Reason


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
    saving, rebuild = _saving(in_use, proposed, load), _rebuild(proposed, load)
    compared = f"saving {saving:.6f}, rebuilding the cache {rebuild:.6f}"
    if saving > rebuild:
        return Settled(proposed.name, Reason("routing.down", compared))
    return Settled(in_use.name, Reason("routing.not-worth", compared))


def _saving(in_use: ModelSpec, proposed: ModelSpec, load: Load) -> float:
    """What the proposed model saves once its cache is warm, in the currency of the prices."""
    return load.turns * (_turn(in_use, load) - _turn(proposed, load))


def _rebuild(model: ModelSpec, load: Load) -> float:
    """What it costs to read the conversation uncached once, over what it would cost cached."""
    return load.context * (model.input_per_million - _cached(model)) / _PER


def _turn(model: ModelSpec, load: Load) -> float:
    read = load.context * _cached(model) + load.fresh * model.input_per_million
    return (read + load.output * model.output_per_million) / _PER


def _cached(model: ModelSpec) -> float:
    return (
        model.input_per_million if model.cached_input_per_million is None else model.cached_input_per_million
    )
