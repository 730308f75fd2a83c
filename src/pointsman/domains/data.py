"""Domains as data: the parts of a domain, and a set of them.

A *concept* is one thing a person can mention in several phrases ("api", "endpoint", "query"). It counts once,
however many of its phrases occur: with "api" and "query" as two signals, one question about an API query
would outweigh a bug report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pointsman.domains.values import CONVERSATION, DomainClass
from pointsman.errors import ConfigError
from pointsman.evidence import Signal

__all__ = [
    "CUE_GROUP",
    "LEXICON",
    "PERMISSIVE",
    "Concept",
    "Domain",
    "DomainSet",
    "ModelProfile",
    "disabled_domains",
    "parse_profile",
]

#: The lexicon name of every domain signal in the signal table.
LEXICON: Final = "domains"

#: The group of phrases that announce a change of subject. No domain can have this name: names are words.
CUE_GROUP: Final = "(switch)"


class Concept(msgspec.Struct, frozen=True):
    """One thing that counts once."""

    name: str
    signals: tuple[Signal, ...]
    phrases: tuple[str, ...] = ()  # as the file has them; what the signals stand for, patterns left out


class Domain(msgspec.Struct, frozen=True):
    """One task domain."""

    name: str
    kind: DomainClass
    priority: int = 99  # breaks ties; the smaller number wins
    concepts: tuple[Concept, ...] = ()
    brief_description: str = ""  # the one line injected when the domain is secondary
    enrichment_template: str = ""  # the guidance injected when it is primary
    aliases: tuple[str, ...] = ()  # other names model profiles use for it
    examples: tuple[str, ...] = ()  # utterances for example-based matching


class DomainSet:
    """Domains in order of priority, with the phrases that announce a change of subject.

    A set without a null domain is given an empty ``conversation``.
    """

    def __init__(self, domains: Mapping[str, Domain], cues: tuple[Signal, ...] = ()) -> None:
        known = dict(domains)
        if not any(domain.kind is DomainClass.NULL for domain in known.values()):
            known[CONVERSATION] = Domain(CONVERSATION, DomainClass.NULL)
        ordered = sorted(known.values(), key=lambda domain: (domain.priority, domain.name))
        self.domains: Final[Mapping[str, Domain]] = {domain.name: domain for domain in ordered}
        self.cues: Final = cues
        self.null: Final = next(domain.name for domain in ordered if domain.kind is DomainClass.NULL)
        self._aliases: Final = {alias: domain.name for domain in ordered for alias in domain.aliases}

    def __iter__(self) -> Iterator[Domain]:
        return iter(self.domains.values())

    def __contains__(self, name: object) -> bool:
        return name in self.domains

    def __getitem__(self, name: str) -> Domain:
        return self.domains[name]

    def resolve(self, name: str) -> str:
        """The domain's own name for one of its aliases; an unknown name comes back unchanged."""
        return name if name in self.domains else self._aliases.get(name, name)

    def signals(self) -> Iterator[Signal]:
        """Every signal the set needs in the signal table."""
        for domain in self:
            for concept in domain.concepts:
                yield from concept.signals
        yield from self.cues


# Model profiles: the domains whose enrichment is disabled for a model, read from JSON.


class ModelProfile(msgspec.Struct, frozen=True):
    """Known effects of enrichment on one model."""

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
        ConfigError: the text is no profile. Callers warn and use ``PERMISSIVE``.
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
