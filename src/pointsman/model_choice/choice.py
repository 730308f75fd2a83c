"""Chooses the models of a request: those that fit, the tier's fallback chain, and the session's model.

Whether a model fits a request is judged by ``fitness.lacks`` alone: a model that cannot read the images is no
choice, however cheap. The tier then bounds the price: nothing more expensive than its fallback chain is tried
while anything else can serve. A change of model discards the provider's cache of the
conversation, and inside a tool loop the model's own thinking signatures, so a change must save more than that
(``settle``). Source: docs/explanation/tiers.md, "From the tier to a model".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from pointsman.model_choice.chains import FALLBACK_CHAIN, Choice, Pool, TierModels, drawn, model_chain, pools
from pointsman.model_choice.fitness import BYTES_PER_TOKEN, Barred, Requirements, lacks
from pointsman.prices import dollars
from pointsman.vocabulary import ModelSpec, Parameters, Reason, Tier, WireFormat

__all__ = [
    "BYTES_PER_TOKEN",
    "FALLBACK_CHAIN",
    "Choice",
    "InUse",
    "Load",
    "ModelChooser",
    "Requirements",
    "Switching",
    "lacks",
    "model_chain",
    "settle",
]


#: When a session moves to another tier than that of its start: up at each user message and down where that
#: saves more than it re-writes; down alone; or not at all. Evidence of trouble raises the tier with each.
Switching: TypeAlias = Literal["upward", "weighed", "session"]


class Load(msgspec.Struct, frozen=True, gc=False):
    """Expected tokens of the coming turns, sent and received."""

    context: int  # the conversation so far: what a cache holds
    fresh: int = 0  # new input a turn
    output: int = 0  # answer a turn
    turns: int = 1  # turns the saving is counted over


class InUse(msgspec.Struct, frozen=True, gc=False):
    """The model a session has, and what moving away from it would touch."""

    model: str  # configured name
    in_tool_loop: bool  # this request continues the work on the same user message
    load: Load
    idle: float = 0.0  # seconds since its last request; 0 where unknown
    switching: Switching = "upward"


class ModelChooser:
    """Chooses among configured models. A chain is put together once for each kind of request."""

    def __init__(self, tier_models: TierModels, models: Mapping[str, ModelSpec]) -> None:
        self._pools = pools(tier_models)
        #: The tiers that have a model, the cheapest first.
        self.tiers = tuple(self._pools)
        self._models = models
        windows = [model.context_window for model in models.values() if model.context_window is not None]
        self.smallest_window = min(windows, default=None)  # of those known
        self._chains: dict[tuple[Tier, frozenset[str], WireFormat | None, bool, Barred | None], Choice] = {}
        #: Each model as the highest tier has it that it serves, and that tier's rank.
        entries = [(entry, tier.rank) for tier, pool in self._pools.items() for entry in pool]
        self._ranks = {entry.model: rank for entry, rank in entries}
        self._parameters = {entry.model: entry.parameters for entry, _ in entries}

    def choose(
        self,
        tier: Tier,
        needed: Requirements,
        in_use: InUse | None,
        session: str = "",
        *,
        forced: bool = False,
        begins: bool = False,
    ) -> Choice:
        """The models to try for a turn.

        Args:
            tier: The tier decided.
            needed: The requirements of the request.
            in_use: None for a new session and for a forced tier.
            session: Draws the first choice where a tier's models have weights.
            forced: The caller named the tier.
            begins: The conversation has had no model yet. Only then are the chances of the draw recorded: a
                model in use before may equal the drawn one without being the result of this draw.
        """
        chain = self._chain(tier, needed, forced=forced)
        names, reasons = chain.models, chain.reasons
        if chain.weighted:
            names = drawn(chain.weighted, session)
            reasons = (*reasons, *chain.draw) if begins else reasons
        models, ranks = self._models, self._ranks
        if in_use is None or in_use.model not in models or not names:
            if not chain.weighted:
                return chain
            return Choice(names, reasons, chain.refused, chain.doubtful, chain.parameters)
        if in_use.model == names[0]:
            kept = Reason("routing.first", f'"{names[0]}" is the tier\'s model')
            return Choice(names, (*reasons, kept), doubtful=chain.doubtful, parameters=chain.parameters)
        model, why = settle(
            models[in_use.model],
            models[names[0]],
            rise=ranks.get(names[0], -1) - ranks.get(in_use.model, -1),
            in_tool_loop=in_use.in_tool_loop,
            load=in_use.load,
            idle=in_use.idle,
            switching=in_use.switching,
            able=(chain.doubtful and in_use.model in names) or not any(lacks(models[in_use.model], needed)),
        )
        parameters = chain.parameters
        if model not in names and (given := self._parameters.get(model)):
            parameters = {**parameters, model: given}
        ordered = (model, *(name for name in names if name != model))
        return Choice(ordered, (*reasons, why), doubtful=chain.doubtful, parameters=parameters)

    def next_up(self, tier: Tier) -> Tier:
        """The next tier with another first model or another name; the highest if there is none."""
        here = _first(self._pools.get(tier))
        higher = [step for step in Tier if step.rank > tier.rank and step in self._pools]
        return next((step for step in higher if _first(self._pools[step]) != here), Tier.REASONING)

    def is_higher(self, choice: Choice, other: Choice) -> bool:
        """Tell whether a choice begins with a model of a higher tier, or with the same called otherwise."""
        if not choice.models or not other.models:
            return False
        ours, theirs = choice.models[0], other.models[0]
        if ours == theirs:
            return choice.parameters.get(ours) != other.parameters.get(theirs)
        return self._ranks.get(ours, -1) > self._ranks.get(theirs, -1)

    def _chain(self, tier: Tier, needed: Requirements, *, forced: bool) -> Choice:
        if self.smallest_window is not None and needed.tokens > self.smallest_window:
            return model_chain(tier, self._pools, self._models, needed, forced=forced)
        kind = (tier, needed.features, needed.format, forced, needed.barred)
        chain = self._chains.get(kind)
        if chain is None:
            chain = model_chain(tier, self._pools, self._models, needed, forced=forced)
            self._chains[kind] = chain
        return chain


def _first(pool: Pool | None) -> tuple[str, Parameters | None] | None:
    return (pool[0].model, pool[0].parameters) if pool else None


def settle(
    in_use: ModelSpec,
    proposed: ModelSpec,
    *,
    rise: int,
    in_tool_loop: bool,
    load: Load,
    idle: float = 0.0,
    switching: Switching = "upward",
    able: bool = True,
) -> tuple[str, Reason]:
    """Stay with the model in use, or move to the proposed one, and say why.

    Args:
        in_use: the session's model.
        proposed: the first model of this turn's chain, another one.
        rise: by how many tiers the proposed model is higher; negative: lower.
        in_tool_loop: whether this request answers tool calls rather than a person.
        load: expected tokens, for the saving.
        idle: seconds since the last request to the model in use.
        switching: when a session leaves the tier of its start.
        able: whether the model in use can serve this request at all.
    """
    if not able:
        return proposed.name, Reason("routing.unable", f'"{in_use.name}" cannot serve this request')
    if in_tool_loop:
        return in_use.name, Reason("routing.tool-loop", f'"{in_use.name}" stays within a tool loop')
    if rise > 0 and switching == "upward":
        return proposed.name, Reason("routing.up", "a higher tier is never held back")
    if switching == "session" or rise > 0:
        why = f'"{in_use.name}" stays: the tier is decided at the start; "{proposed.name}" would re-write'
        return in_use.name, Reason("routing.session", f"{why} {_context(proposed, load)}")
    return _weighed(in_use, proposed, load, idle, is_lower=rise < 0)


def _weighed(
    in_use: ModelSpec, proposed: ModelSpec, load: Load, idle: float, *, is_lower: bool
) -> tuple[str, Reason]:
    """Move where the saving is worth more than the cache that is left behind.

    A cache that has expired is no reason to stay: either model writes its own, and the cheaper total wins.
    Without prices the order of the tiers counts: a lower tier is taken for the cheaper one.
    """
    now, then, rebuild = _turn(in_use, load), _turn(proposed, load), proposed.rebuild(load.context)
    again = in_use.rebuild(load.context)
    if now is None or then is None or rebuild is None or again is None:
        unknown = " and ".join(f'"{model.name}"' for model in (in_use, proposed) if not model.is_priced)
        why = f"the price of {unknown} is unknown"
        if is_lower:
            return proposed.name, Reason("routing.down", f"{why}: a lower tier counts as cheaper")
        return in_use.name, Reason("routing.price-unknown", why)
    saving = load.turns * (now - then)
    writes = f"re-write {_context(proposed, load)}"
    if in_use.cache_seconds is not None and idle > in_use.cache_seconds:
        rebuild -= again
        gone = f"expired cache, {idle:.0f} s unused of {in_use.cache_seconds:g}"
        writes = f"{writes} in place of {dollars(again)} ({gone})"
    count = f"{load.turns:,} turn{'s' if load.turns > 1 else ''}"
    turns = f"save {dollars(saving)}" if saving >= 0 else f"cost {dollars(-saving)} more"
    compared = f"{turns} in {count} and {writes}"
    if saving > rebuild:
        why = f'a move to "{proposed.name}" should {compared}'
        return proposed.name, Reason("routing.down", why)
    why = f'"{in_use.name}" stays: a move to "{proposed.name}" would {compared}'
    return in_use.name, Reason("routing.not-worth", why)


def _context(model: ModelSpec, load: Load) -> str:
    """The tokens that a model would write to its cache, and their cost where it is known."""
    cost = model.rebuild(load.context)
    tokens = f"{load.context:,} tokens of context"
    return tokens if cost is None else f"{tokens} for {dollars(cost)}"


def _turn(model: ModelSpec, load: Load) -> float | None:
    """Cost of a turn with a warm cache, in US dollars; None if unknown."""
    return model.cost(load.context + load.fresh, load.context, load.output)
