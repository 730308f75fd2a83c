"""Fills what a configuration does not say of a model, and tells where each value comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.catalogue._entry import Catalogue, CatalogueEntry
from pointsman.vocabulary import ModelSpec

__all__ = ["OWN", "Fact", "facts", "filled"]

OWN: Final = "configuration"

#: Prices belong together, with their date: own ones may be in another currency.
_PRICES: Final = (
    "input_per_million",
    "output_per_million",
    "cached_input_per_million",
    "cache_write_per_million",
)
_OTHERS: Final = ("context_window", "max_output_tokens", "features", "cache_seconds")


class Fact(NamedTuple):
    """A value, and where it comes from."""

    value: object
    origin: str


def facts(model: ModelSpec, provider: str, catalogues: Sequence[Catalogue]) -> dict[str, Fact]:
    """Return what is known of a model, by field. A field of which nothing is known is left out.

    Prices are taken all from one place, since they may be in different currencies: where the configuration
    has one of its own, none comes from a catalogue.

    Args:
        model: As the configuration has it.
        provider: Who serves it.
        catalogues: The first goes before the others.
    """
    known = {
        name: Fact(value, OWN)
        for name in (*_PRICES, "prices_as_of", *_OTHERS)
        if (value := getattr(model, name)) is not None
    }
    has_own_prices = any(name in known for name in _PRICES)
    for catalogue in catalogues:
        match = catalogue.find(provider, model.id)
        if match is None:
            continue
        origin = _origin(match.entry, catalogue)
        _take(known, match.entry, _OTHERS, origin)
        if match.has_its_prices and match.entry.is_priced and not has_own_prices:
            has_own_prices = True
            _take(known, match.entry, _PRICES, origin)
            known.setdefault("prices_as_of", Fact(match.entry.prices_as_of or catalogue.as_of, origin))
    return known


def filled(model: ModelSpec, provider: str, catalogues: Sequence[Catalogue]) -> ModelSpec:
    """Return a model with what the catalogues know of it; its own values stay."""
    found = facts(model, provider, catalogues)
    return msgspec.structs.replace(model, **{name: fact.value for name, fact in found.items()})


def _take(known: dict[str, Fact], entry: CatalogueEntry, names: Sequence[str], origin: str) -> None:
    for name in names:
        if (value := getattr(entry, name)) is not None:
            known.setdefault(name, Fact(value, origin))


def _origin(entry: CatalogueEntry, catalogue: Catalogue) -> str:
    return f"catalogue of {entry.prices_as_of or catalogue.as_of}: {entry.origin or catalogue.origin}"
