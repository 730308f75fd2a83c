"""Checks of a domain file: phrases that never match, or that count twice.

Patterns that are not linear-time, or that match everything, are refused when the file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import reduce
from operator import or_

import msgspec

from pointsman.domains.data import Concept, Domain, DomainSet
from pointsman.domains.values import DomainClass
from pointsman.evidence import Scanner

__all__ = ["Finding", "Severity", "check_domains"]


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"  # the phrase cannot do its work
    WARNING = "warning"  # it does more than its place in the file says


class Finding(msgspec.Struct, frozen=True):
    """One mistake, at one phrase."""

    severity: Severity
    domain: str
    concept: str
    phrase: str
    message: str


def check_domains(domains: DomainSet, scanner: Scanner) -> list[Finding]:
    """Score each phrase alone and report the domains found.

    Args:
        domains: the domains to check.
        scanner: over a table that holds their signals.
    """
    heard_as = [
        (domain, concept, reduce(or_, map(scanner.table.bit, concept.signals), 0))
        for domain in domains
        for concept in domain.concepts
    ]
    findings: list[Finding] = []
    for domain, concept, _ in heard_as:
        for phrase in concept.phrases:
            hits = scanner.scan(" ".join(phrase.removesuffix("*").split())).hits  # as people space words
            heard = [(other, what) for other, what, mask in heard_as if hits & mask]
            findings += (
                Finding(severity, domain.name, concept.name, phrase, message)
                for severity, message in _judge(domain, concept, heard)
            )
    return [*findings, *_repeated(domains)]


def _judge(
    domain: Domain, concept: Concept, heard: list[tuple[Domain, Concept]]
) -> Iterator[tuple[Severity, str]]:
    if (domain, concept) not in heard:
        yield Severity.ERROR, "cannot match"
    for other, what in heard:
        if other is domain and what is not concept:
            yield Severity.WARNING, f'one mention counts twice: "{what.name}" hears it too'
        elif other is not domain and other.kind is not DomainClass.NULL:
            yield Severity.WARNING, f'counts for {other.name} too: "{what.name}" hears it'


def _repeated(domains: DomainSet) -> Iterator[Finding]:
    for domain in domains:
        for concept in domain.concepts:
            seen: set[str] = set()
            for phrase in concept.phrases:
                if phrase.lower() in seen:
                    yield Finding(Severity.WARNING, domain.name, concept.name, phrase, "is there twice")
                seen.add(phrase.lower())
