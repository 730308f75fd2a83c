"""The models of each tier: in order of preference, or by weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from pointsman.vocabulary import Parameters, Tier

__all__ = ["Pool", "Served", "TierModel", "TierModels", "by_weight", "is_weighted", "pools"]

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
        """Refuse what is right value by value and not together."""
        if self.weight is not None and not 0 < self.weight < math.inf:
            raise ValueError('"weight" must be a positive, finite number')
        super().__post_init__()

    @property
    def parameters(self) -> Parameters | None:
        """The parameters alone; None where there are none."""
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


def by_weight(groups: Iterable[Pool], session: str) -> Iterator[TierModel]:
    """Yield the models of each pool: the one that the session draws first, then the others in order.

    A session draws the same in every process and at any time, for the same pool.
    """
    digest = blake2b(session.encode("utf-8", "surrogatepass"), digest_size=8, person=b"weights").digest()
    drawn = int.from_bytes(digest) / _SCALE
    for pool in groups:
        first = _drawn(pool, drawn) if is_weighted(pool) else pool[0]
        yield first
        yield from (entry for entry in pool if entry is not first)


def _drawn(pool: Pool, drawn: float) -> TierModel:
    """Return the model whose share of the line from 0 to 1 holds a point."""
    weights = [1.0 if entry.weight is None else entry.weight for entry in pool]
    left = drawn * math.fsum(weights)
    for entry, weight in zip(pool, weights, strict=True):
        left -= weight
        if left < 0:
            return entry
    return pool[-1]  # rounding
