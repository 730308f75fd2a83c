"""Checks of a registry: findings that reduce the accuracy of selection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from pointsman.capabilities._registry import Capability, CapabilityRegistry

__all__ = ["check_registry"]

#: Positive examples from which local scores are worth having: on CLINC150 with n-grams alone, top-1 is .46
#: from instructions, .67 with five examples, .76 with ten (docs/decisions/0051).
_ENOUGH: Final = 5


def check_registry(registry: CapabilityRegistry) -> list[str]:
    """Findings, one line each; an empty list when there is nothing to say."""
    capabilities = registry.get_all_capabilities()
    findings = [line for each in capabilities for line in _alone(each)]
    findings += _unprovided(registry)
    findings += _collisions(capabilities)
    return findings


def _alone(each: Capability) -> Iterator[str]:
    if each.always_active:
        return
    if not each.guide.instructions.strip():
        yield f"{each.name}: no instructions; say when it is needed"
    positives = len(each.guide.positives)
    if positives < _ENOUGH:
        yield f"{each.name}: {positives} examples of when it is needed; {_ENOUGH} make scores reliable"


def _unprovided(registry: CapabilityRegistry) -> Iterator[str]:
    for each in registry.get_all_capabilities():
        for kind in each.requires:
            if not registry.providers(kind):
                yield f"{each.name}: requires {kind}, which nothing provides; only the context can hold it"


def _collisions(capabilities: list[Capability]) -> Iterator[str]:
    """A query that is an example for two capabilities teaches neither, unless both are always needed."""
    owners: dict[str, list[str]] = defaultdict(list)
    for each in capabilities:
        both = {query.casefold() for query in each.guide.positives} & {
            query.casefold() for query in each.guide.negatives
        }
        for query in sorted(both):
            yield f'{each.name}: "{query}" is an example both ways'
        for query in dict.fromkeys(query.casefold() for query in each.guide.positives):
            owners[query].append(each.name)
    for query, names in owners.items():
        if len(names) > 1:
            yield f'{", ".join(names)}: "{query}" is an example for each of them'
