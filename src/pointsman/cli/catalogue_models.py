"""What ``pointsman models`` shows of the catalogue itself."""

from __future__ import annotations

from pointsman.catalogue import ANY, Catalogue, filled, installed
from pointsman.vocabulary import ModelSpec

__all__ = ["catalogue_models", "makers"]


def catalogue_models() -> list[ModelSpec]:
    """Return the entries in force, by provider and id. The upstream of each is its provider; empty: any."""
    catalogues = installed()
    keys = sorted({(entry.provider, entry.id) for each in catalogues for entry in each.entries})
    return [filled(ModelSpec(id_, provider, id_), provider, catalogues) for provider, id_ in keys]


def makers(id_: str) -> list[str]:
    """Return the providers under which the catalogue has an entry for an id; ``ANY`` where only that has."""
    catalogues = installed()
    providers = sorted({entry.provider for each in catalogues for entry in each.entries} - {ANY})
    found = [provider for provider in providers if any(_has(each, provider, id_) for each in catalogues)]
    return found or [ANY] * any(each.find(ANY, id_) is not None for each in catalogues)


def _has(catalogue: Catalogue, provider: str, id_: str) -> bool:
    match = catalogue.find(provider, id_)
    return match is not None and match.entry.provider == provider
