"""The log lines of a turn. Source of the formats: docs/sources/compound-domains.md, "Logging"."""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.domains.enrichment import DISABLED, EnrichmentPlan
from pointsman.domains.profiles import ModelProfile
from pointsman.domains.values import DomainMemory, MomentumStep, Part, Source

__all__ = ["lines"]

#: Rules under which the pair withstood a message, and under which it gave way.
_HELD = frozenset({"R1a", "R4b"})
_BROKEN = frozenset({"R4a"})


def lines(
    before: DomainMemory, outcome: MomentumStep, plan: EnrichmentPlan, profile: ModelProfile
) -> Iterator[str]:
    """Describe one turn, for the log and never for a prompt."""
    parts = [part for part in (outcome.effective.primary, outcome.effective.secondary) if part]
    switches = f"primary={_switch(plan.primary_enrichment)} secondary={_switch(plan.secondary_enrichment)}"
    yield (
        f"{' + '.join(map(_part, parts))} | sig={outcome.effective.signature}"
        f" | momentum={outcome.momentum} | enrichment: {switches}"
    )
    was = f"{before.pair.signature} ({_turns(before.momentum)})"
    rival = outcome.raw.primary
    if outcome.rule in _HELD:
        yield f"Momentum held: {was} resisted {rival.domain} ({_signals(rival.confidence)})"
    if outcome.rule in _BROKEN:
        yield f"Momentum break: {was} → {rival.domain} ({_signals(rival.confidence)}, not in compound)"
    model = f" ({profile.model})" if profile.model else ""
    reasons = (plan.reason_primary_skipped, plan.reason_secondary_skipped)
    for role, part, reason in zip(("Primary", "Secondary"), parts, reasons, strict=False):
        if reason == DISABLED:
            yield f"{role} enrichment skipped for {part.domain}: {reason}{model}"


def _part(part: Part) -> str:
    carried = ", carried" if part.carried else ""
    found = "1 example" if part.source is Source.EXAMPLES else _signals(part.confidence)
    return f"{part.domain} ({found}{carried})"


def _signals(count: int) -> str:
    return f"{count} signal" if count == 1 else f"{count} signals"


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"
