"""The models of each tier: in order of preference, or by weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.vocabulary import Parameters, Reason, Tier

__all__ = [
    "Pool", "Served", "Shares", "TierModel", "TierModels", "chances_of", "draw_reason", "drawn",
    "is_weighted", "pools", "shares",
]  # fmt: skip

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
    return Shares(tuple(weights), tuple((_salt(model), weight) for model, weight in weights.items()))


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


def _salt(model: str) -> bytes:
    return blake2b(model.encode("utf-8", "surrogatepass"), digest_size=blake2b.SALT_SIZE).digest()


def drawn(pools: Iterable[Shares], session: str) -> tuple[str, ...]:
    """Return the models of several pools in the order that a session draws, each once.

    A session draws the same in every process and at any time. Each model draws a number, and the smallest is
    first (weighted rendezvous hashing): a missing model moves only the sessions that it served.
    """
    word = session.encode("utf-8", "surrogatepass")
    return tuple(dict.fromkeys(chain.from_iterable(_order(pool, word) for pool in pools)))


def _order(pool: Shares, session: bytes) -> tuple[str, ...]:
    if not pool.draws:
        return pool.models
    waits = [_wait(session, salt) / weight for salt, weight in pool.draws]
    return pool.models[waits.index(min(waits))], *pool.models


def _wait(session: bytes, salt: bytes) -> float:
    """Draw a time until the first event, at one event per unit: of several, each is first by its rate."""
    digest = blake2b(session, digest_size=8, salt=salt, person=b"weights").digest()
    return -math.log((int.from_bytes(digest) + 0.5) / _SCALE)
