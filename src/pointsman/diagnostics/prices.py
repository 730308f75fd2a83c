"""Which models have no price, so that costs are unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pointsman.catalogue import ANY, installed
from pointsman.config import Config
from pointsman.config.load import provider
from pointsman.decision.permission import is_permitted
from pointsman.upstreams.port import UpstreamSpec
from pointsman.vocabulary import ModelSpec

__all__ = ["half_priced", "price_hint", "provider_hint", "refused_by_price", "unpriced"]

#: Names of keys that a warning shows.
_SHOWN: Final = 5
_SET: Final = "set input_per_million and output_per_million; 0 for a model that is free"


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


def refused_by_price(config: Config) -> list[str]:
    """Return a warning for each model that keys with a budget may use and that is refused for them."""
    from pointsman.access import grants  # brings asyncio, which most commands do without

    kept = {name: grant.permission for name, grant in grants(config.keys, config.teams).items()}
    found = []
    for model in unpriced(config.models.values()):
        keys = [name for name, each in kept.items() if each and each.priced and is_permitted(model, each)]
        if keys:
            shown = ", ".join(keys[:_SHOWN]) + (", …" if len(keys) > _SHOWN else "")
            found.append(f'the price of "{model}" is unknown: it is refused for keys with a budget ({shown})')
    return found


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


def price_hint(config: Config) -> str:
    """Return the way out for models without a price."""
    missing = [model for model in config.models.values() if not model.is_priced]
    return provider_hint(missing, config.upstreams) or _SET


def provider_hint(models: Iterable[ModelSpec], upstreams: Mapping[str, UpstreamSpec]) -> str:
    """Return the line that gives models the catalogue's values at an address of one's own.

    Empty where the catalogue knows none of the models, or the configuration says who serves them.
    """
    found: dict[str, str] = {}
    for model in models:
        upstream = upstreams.get(model.upstream)
        if upstream and upstream.provider is None and not provider(upstream):
            found[model.upstream] = found.get(model.upstream) or _maker(model.id)
    lines = [f'provider = "{maker}" under [upstreams.{name}]' for name, maker in found.items() if maker]
    return f"{', '.join(lines)}: prices and windows then come from the catalogue" if lines else ""


def _maker(id_: str) -> str:
    """The provider that has a model of this id and asks a price for it; empty for none."""
    catalogues = installed()
    makers = dict.fromkeys(entry.provider for each in catalogues for entry in each.entries)
    for maker in makers:
        matches = [each.find(maker, id_) for each in catalogues] if maker != ANY else ()
        if any(
            match and match.has_its_prices and match.entry.provider == maker and match.entry.is_priced
            for match in matches
        ):
            return maker
    return ""
