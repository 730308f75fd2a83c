"""Which models have no price, so that costs are unknown."""

from __future__ import annotations

from collections.abc import Iterable

from pointsman.vocabulary import ModelSpec

__all__ = ["half_priced", "unpriced"]


def unpriced(models: Iterable[ModelSpec]) -> list[str]:
    """Return the names of models without a price; one that is free has prices of 0."""
    return [model.name for model in models if not model.is_priced]


def half_priced(models: Iterable[ModelSpec]) -> list[str]:
    """Return a warning for each model of which a price is set and one that a cost needs is missing."""
    return [
        f'model "{model.name}" has no {missing}, so its costs are unknown'
        for model in models
        if any(price is not None for price in _prices(model)) and not model.is_priced
        for missing in (_missing(model),)
    ]


def _prices(model: ModelSpec) -> tuple[float | None, ...]:
    return (
        model.input_per_million,
        model.output_per_million,
        model.cached_input_per_million,
        model.cache_write_per_million,
    )


def _missing(model: ModelSpec) -> str:
    needed = ("input_per_million", "output_per_million")
    return " and ".join(name for name in needed if getattr(model, name) is None)
