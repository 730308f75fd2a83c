"""Model profiles: the domains whose enrichment is disabled for a model, read from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.domains.data import DomainSet
from pointsman.errors import ConfigError

__all__ = ["PERMISSIVE", "ModelProfile", "disabled_domains", "parse_profile"]


class ModelProfile(msgspec.Struct, frozen=True):
    """What is known about one model's response to enrichment."""

    model: str = ""
    disabled: frozenset[str] = frozenset()  # domains whose enrichment is off, by their own names


#: A model without a profile gets all enrichment. Source: docs/sources/compound-domains.md, "Model profile
#: loading".
PERMISSIVE: Final = ModelProfile()


def parse_profile(
    text: str | bytes, domains: DomainSet, *, model: str = "", place: str = "profile"
) -> ModelProfile:
    """Read a profile. ``bst.disabled_domains`` is read first, then a top-level ``disabled_domains``.

    Raises:
        ConfigError: the text is no profile. Callers warn and go on with ``PERMISSIVE``.
    """
    try:
        profile = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", place=place) from error
    if not isinstance(profile, dict):
        raise ConfigError("a model profile is a JSON object", place=place)
    try:
        names = disabled_domains(profile)
    except TypeError as error:
        raise ConfigError(str(error), place=place) from error
    return ModelProfile(model, frozenset(domains.resolve(name) for name in names))


def disabled_domains(profile: Mapping[str, object]) -> list[str]:
    """The domain names a decoded profile disables, as written.

    Raises:
        TypeError: they are not a list of strings.
    """
    section = profile.get("bst")
    places = (section, profile) if isinstance(section, Mapping) else (profile,)
    names = next((place["disabled_domains"] for place in places if "disabled_domains" in place), [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError('"disabled_domains" must be a list of domain names')
    return names
