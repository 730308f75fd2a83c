"""Dependency expansion: adds providers of what a selection requires, to a fixed point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pointsman.capabilities._registry import CapabilityRegistry
from pointsman.vocabulary import Reason

__all__ = ["expand"]


def expand(
    selected: Sequence[str],
    registry: CapabilityRegistry,
    *,
    held: Collection[str] = (),
    scores: Mapping[str, float] | None = None,
) -> tuple[list[str], list[Reason]]:
    """Add a provider for every kind of result that a selected capability requires.

    A kind that the context holds, or that a selected capability provides, needs no provider. Among several
    providers the highest score wins, then the earlier in the registry. Terminates, cycles or not: every round
    adds a capability or is the last.

    Args:
        selected: names already selected, in their order.
        registry: the capabilities.
        held: kinds of results the context holds already.
        scores: probabilities that rank providers.

    Returns:
        The selection with providers appended in the order found, and a reason for each and for each kind that
        nothing provides.
    """
    chosen = list(selected)
    reasons: list[Reason] = []
    unmet: set[str] = set()
    for name in chosen:  # grows while it is read: a provider's own requirements are met in turn
        for kind in _missing(name, chosen, registry, held):
            provider = _best(registry.providers(kind), scores or {})
            if provider:
                chosen.append(provider)
                reasons.append(Reason("capabilities.required", f"{provider} provides {kind} for {name}"))
            elif kind not in unmet:
                unmet.add(kind)
                reasons.append(
                    Reason("capabilities.unprovided", f"nothing provides {kind}, which {name} requires")
                )
    return chosen, reasons


def _missing(
    name: str, chosen: Sequence[str], registry: CapabilityRegistry, held: Collection[str]
) -> Iterator[str]:
    """Kinds still missing, each looked for only when the one before it has been provided."""
    capability = registry.get_capability(name)
    for kind in capability.requires if capability else ():
        if kind not in held and not any(provider in chosen for provider in registry.providers(kind)):
            yield kind


def _best(providers: Sequence[str], scores: Mapping[str, float]) -> str:
    return max(providers, key=lambda name: scores.get(name, 0.0), default="")  # max keeps the first of equals
