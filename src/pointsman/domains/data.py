"""Domains as data: the parts of a domain, and a set of them.

A *concept* is one thing a person can mention in several phrases ("api", "endpoint", "query"). It counts once,
however many of its phrases occur: with "api" and "query" as two signals, one question about an API query
would outweigh a bug report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pointsman.errors import ConfigError
from pointsman.evidence import Signal

__all__ = [
    "CONVERSATION",
    "CUE_GROUP",
    "LEXICON",
    "PERMISSIVE",
    "Compound",
    "Concept",
    "Domain",
    "DomainClass",
    "DomainMemory",
    "DomainSet",
    "ModelProfile",
    "MomentumStep",
    "Pair",
    "Part",
    "Source",
    "disabled_domains",
    "format_signature",
    "parse_profile",
    "parse_signature",
    "restore_from_signature",
]


#: The domain of a message without any signal.
#: Source: docs/sources/compound-domains.md, "Step 2: extract primary and secondary".
CONVERSATION: Final = "conversation"


class DomainClass(StrEnum):
    """Role of a domain in a conversation; declared in the data."""

    TASK = "task"  # what the person wants done
    OPERATIONAL = "operational"  # a chore on the way: shell, files, git, configuration
    NULL = "null"  # small talk; says nothing about the task


class Source(StrEnum):
    """What found a domain in a message."""

    SIGNALS = "signals"
    EXAMPLES = "examples"  # no signal matched; the nearest example utterance decided


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One domain of a result."""

    domain: str
    confidence: int = 0  # concepts of the domain found in this message; 0 when it comes from memory
    signals: tuple[str, ...] = ()  # names of those concepts, in total order; never a pattern's source
    carried: bool = False  # memory put it here, not this message
    source: Source = Source.SIGNALS


class Compound(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A primary domain and at most one more."""

    primary: Part
    secondary: Part | None = None

    @property
    def domains(self) -> tuple[str, str]:
        """Primary and secondary by name; an empty string for no secondary."""
        return self.primary.domain, self.secondary.domain if self.secondary else ""

    @property
    def signature(self) -> str:
        """Both names in alphabetical order, joined by ``+``: ``coding+investigation``."""
        first, second = self.domains
        return "+".join(sorted((first, second))) if second else first

    @property
    def carried(self) -> bool:
        """True when any part comes from memory."""
        return self.primary.carried or (self.secondary is not None and self.secondary.carried)


class MomentumStep(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Domains of one user message, before and after memory."""

    raw: Compound  # this message alone
    effective: Compound  # after memory
    momentum: int  # strength of the task pair, in turns
    rule: str  # name of the row of the rule table that applied
    passed_over: bool = False  # a second domain matched, too weakly to count


class Pair(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The one or two domains the conversation's task is in."""

    primary: str = ""  # empty: no task yet
    secondary: str = ""
    primary_silent: int = 0  # confirming turns in a row without a signal of the primary
    secondary_silent: int = 0
    rival: str = ""  # the domain that last challenged the secondary

    def __contains__(self, domain: str) -> bool:
        return domain in (self.primary, self.secondary)

    @property
    def signature(self) -> str:
        """Both names in alphabetical order, joined by ``+``."""
        return "+".join(sorted((self.primary, self.secondary))) if self.secondary else self.primary


class DomainMemory(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Session memory of domains. A few hundred bytes as JSON."""

    pair: Pair = Pair()
    momentum: int = 0  # turns that confirmed the pair
    operational: str = ""  # the last operational domain that was accepted
    last: str = ""  # primary of the last message with a signal
    operational_run: int = 0  # operational messages since the last task message
    quiet: int = 0  # messages without a signal since the last one with
    key: str = ""  # the user message that ``outcome`` belongs to
    outcome: MomentumStep | None = None


# The signature of a pair of domains, in the format of docs/sources/compound-domains.md.


def format_signature(primary: Mapping[str, Any], secondary: Mapping[str, Any] | None) -> str:
    """Both domains in alphabetical order, joined by ``+``."""
    return "+".join(sorted(part["domain"] for part in (primary, secondary) if part))


def parse_signature(signature: str) -> set[str]:
    """The domains of a signature."""
    return set(signature.split("+"))


def restore_from_signature(
    signature: str, new_primary: dict[str, Any], new_secondary: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The signature's domains with this turn's confidences; a domain without signals gets 0.

    A single domain takes the confidence and signals of the new primary, whatever domain that is. Of two, the
    new primary comes first; when it is neither, both get 0, in alphabetical order.

    Source: docs/sources/compound-domains.md, "Step 3: apply compound momentum".
    """
    first, *rest = sorted(parse_signature(signature), key=lambda name: (name != new_primary["domain"], name))
    if not rest:
        return {**new_primary, "domain": first}, None
    if first != new_primary["domain"]:
        return as_dict(first, 0, []), as_dict(rest[0], 0, [])
    known = new_secondary if new_secondary and new_secondary["domain"] == rest[0] else None
    return new_primary, known or as_dict(rest[0], 0, [])


def as_dict(domain: str, confidence: int, signals: list[str]) -> dict[str, Any]:
    """One domain of a classification in the documented shape."""
    return {"domain": domain, "confidence": confidence, "matched_signals": signals}


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
