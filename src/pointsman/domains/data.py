"""Domains as data: what a domain is made of, and a set of them.

A *concept* is one thing a person can mention in several phrases ("api", "endpoint", "query"). It counts once,
however many of its phrases occur: with "api" and "query" as two signals, one question about an API query
would outweigh a bug report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pointsman.domains.values import CONVERSATION, DomainClass
from pointsman.evidence import Signal

__all__ = ["CUE_GROUP", "LEXICON", "Concept", "Domain", "DomainSet"]

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
