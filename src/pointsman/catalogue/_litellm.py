"""Reads the price map of LiteLLM (``model_prices_and_context_window.json``) as a catalogue.

Its prices are per token. Of its window it gives the input, which is the safe side. A model whose prices are
both zero is taken to have none: there they also stand for a subscription, or for a price that nobody entered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

import msgspec

from pointsman.catalogue._entry import HIGHEST_PRICE, Catalogue, CatalogueEntry
from pointsman.catalogue._files import ENTRIES
from pointsman.errors import ConfigError

__all__ = ["from_litellm"]

#: Kinds of models that serve the requests decided here.
_MODES: Final = frozenset({"chat", "completion", "responses"})
#: Its names of providers that are called otherwise here.
_PROVIDERS: Final[Mapping[str, str]] = {"gemini": "google", "text-completion-openai": "openai"}

_PRICES: Final[Mapping[str, str]] = {
    "input_cost_per_token": "input_per_million",
    "output_cost_per_token": "output_per_million",
    "cache_read_input_token_cost": "cached_input_per_million",
    "cache_creation_input_token_cost": "cache_write_per_million",
}
_LENGTHS: Final[Mapping[str, str]] = {
    "max_input_tokens": "context_window",
    "max_output_tokens": "max_output_tokens",
}
_FEATURES: Final[Mapping[str, str]] = {
    "supports_function_calling": "tools",
    "supports_vision": "vision",
    "supports_response_schema": "structured",
}


def from_litellm(models: Mapping[str, Any], *, place: str, as_of: date, origin: str) -> Catalogue:
    """Return a price map as a catalogue.

    Args:
        models: Information by id, as decoded from JSON.
        place: What messages name the file by.
        as_of: Date of the map, which does not say it itself.
        origin: Where it comes from.

    Raises:
        ConfigError: an entry is wrong; the message names it.
    """
    if len(models) > ENTRIES:
        raise ConfigError(f"a catalogue has at most {ENTRIES:,} models, not {len(models):,}", place=place)
    found: dict[tuple[str, str], CatalogueEntry] = {}
    for id_, info in models.items():
        if id_ == "sample_spec":  # describes the keys
            continue
        entry = _entry(id_, info, place)
        if entry is not None:
            found.setdefault((entry.provider, entry.id), entry)
    return Catalogue(tuple(found.values()), as_of=as_of, origin=origin)


def _entry(id_: str, info: Any, place: str) -> CatalogueEntry | None:
    if not isinstance(info, dict):
        raise ConfigError(f'"{id_}" is not an object', place=place)
    provider = info.get("litellm_provider")
    if not isinstance(provider, str) or info.get("mode", "chat") not in _MODES:
        return None
    values = {
        **_scaled(info),
        **{ours: info[theirs] for theirs, ours in _LENGTHS.items() if info.get(theirs)},
        "id": id_.removeprefix(f"{provider}/").lower(),
        "provider": _PROVIDERS.get(provider, provider),
    }
    features = [ours for theirs, ours in _FEATURES.items() if info.get(theirs)]
    if any(theirs in info for theirs in _FEATURES):
        values["features"] = features
    try:
        return msgspec.convert(values, CatalogueEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(f'"{id_}": {error}', place=place) from None


def _per_million(price: float) -> float:
    """A price per token as one per million tokens; infinite where no float holds it, which is refused."""
    return round(float(price) * 1e6, 6) if abs(price) <= HIGHEST_PRICE else math.inf


def _scaled(info: Mapping[str, Any]) -> dict[str, Any]:
    """The prices per million tokens. What is no number is left as it is, for the check of types."""
    found: dict[str, Any] = {}
    for theirs, ours in _PRICES.items():
        value = info.get(theirs)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None:
            found[ours] = _per_million(value) if is_number else value
    for ours in ("cached_input_per_million", "cache_write_per_million"):
        if found.get(ours) == 0:
            del found[ours]
    if not any(found.values()):
        return {}
    return found
