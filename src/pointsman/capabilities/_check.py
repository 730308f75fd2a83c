"""Checks of a registry: findings that reduce the accuracy of selection, and what the selection does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pointsman.capabilities._ordinary import CHECKING
from pointsman.capabilities._registry import Capability, CapabilityRegistry
from pointsman.capabilities._scorer import LocalScorer

__all__ = ["MeasuredCapability", "check_registry", "measure_registry"]

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


@dataclass(frozen=True, slots=True)
class MeasuredCapability:
    """What the local score of one capability does.

    Its examples are scored as though they were not in its guide. The ordinary tasks are of kinds that most
    registries do not serve; nothing is fitted on them.
    """

    name: str
    examples: int  # positive ones
    found: int  # of them, selected
    ordinary: tuple[str, ...]  # ordinary tasks that select it

    @property
    def finding(self) -> str:
        """What is wrong; empty where at least half of the examples and few ordinary tasks select it."""
        if self.examples and 2 * self.found < self.examples:
            return f"{self.name}: {self.found} of its {self.examples} examples select it when left out"
        if len(self.ordinary) > _FEW:
            more = f'"{self.ordinary[0]}"'
            return f"{self.name}: {len(self.ordinary)} of {len(CHECKING)} ordinary tasks select it, as {more}"
        return ""


#: Ordinary tasks, of forty, that may select a capability: some people's ordinary task needs it.
_FEW: Final = 2


def measure_registry(
    registry: CapabilityRegistry, scorer: LocalScorer, threshold: float
) -> list[MeasuredCapability]:
    """Measure the selection by the local score, for each capability that is judged, in registry order.

    Args:
        registry: The capabilities.
        scorer: Made from them.
        threshold: Probability from which a capability is selected.
    """
    names = [each.name for each in registry.get_all_capabilities()]
    judged = {each.name for each in registry.get_all_capabilities() if not each.always_active}
    examples, found = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for each in scorer.index.held_out():
        if each.positive:
            name = names[each.capability]
            examples[name] += 1
            probability = scorer.calibration.probabilities(each.scores, names)[each.capability]
            found[name] += probability >= threshold
    scored: list[tuple[str, Mapping[str, float]]] = [(task, scorer.probabilities(task)) for task in CHECKING]
    return [
        MeasuredCapability(
            name,
            examples[name],
            found[name],
            tuple(task for task, scores in scored if scores[name] >= threshold),
        )
        for name in names
        if name in judged
    ]
