"""Enrichment of the prompt with domain guidance: the plan and the text.

Nothing but guidance enters the text. Why something was left out is in the plan and in the log: a sentence
about skipped enrichment helps no model.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

import msgspec

from pointsman.domains.data import Compound, DomainSet, Part
from pointsman.domains.scoring import SECONDARY_MIN_SIGNALS

__all__ = [
    "BELOW_THRESHOLD",
    "DISABLED",
    "NO_SECONDARY",
    "NO_TEMPLATE",
    "PRIMARY_DISABLED",
    "EnrichmentPlan",
    "Texts",
    "plan_enrichment",
    "primary_text",
    "secondary_text",
]

#: Results remembered, under 1 kB each.
_KEPT: Final = 1_024

DISABLED: Final = "disabled_in_profile"
NO_SECONDARY: Final = "no_secondary_classified"
BELOW_THRESHOLD: Final = "below_threshold"
#: Not among the reasons in docs/sources/compound-domains.md, "Data structures", which leave these cases
#: unexplained.
NO_TEMPLATE: Final = "no_template"
PRIMARY_DISABLED: Final = "primary_disabled_in_profile"


class EnrichmentPlan(msgspec.Struct, frozen=True, gc=False):
    """What will be injected, and why the rest will not.

    Source of the field names: docs/sources/compound-domains.md, "Data structures".
    """

    primary_enrichment: bool
    secondary_enrichment: bool
    reason_primary_skipped: str | None = None
    reason_secondary_skipped: str | None = None


def plan_enrichment(
    compound: Compound, disabled: AbstractSet[str], *, passed_over: bool = False
) -> EnrichmentPlan:
    """Decide what to inject. A secondary without a signal in this message is not injected.

    Args:
        compound: the effective domains.
        disabled: domains the model's profile switches off.
        passed_over: a second domain matched too weakly to be the secondary.
    """
    primary_on = compound.primary.domain not in disabled
    reason = _skip_secondary(compound.secondary, disabled, passed_over=passed_over, primary_on=primary_on)
    return EnrichmentPlan(primary_on, reason is None, None if primary_on else DISABLED, reason)


def _skip_secondary(
    secondary: Part | None, disabled: AbstractSet[str], *, passed_over: bool, primary_on: bool
) -> str | None:
    if secondary is None:
        return BELOW_THRESHOLD if passed_over else NO_SECONDARY
    if secondary.domain in disabled:
        return DISABLED
    if not primary_on:
        return PRIMARY_DISABLED
    return BELOW_THRESHOLD if secondary.confidence < SECONDARY_MIN_SIGNALS else None


class Texts:
    """Injected text for each domain of a set, composed once; ``label`` goes before each domain's text."""

    def __init__(self, domains: DomainSet, label: str = "") -> None:
        self._primary = {
            each.name: primary_text(each.name, each.enrichment_template, label) for each in domains
        }
        self._secondary = {
            each.name: secondary_text(each.name, each.brief_description, label) for each in domains
        }

        #: What to inject and the text of it, as ``plan_enrichment``: conversations have the same few domains.
        self.enrichment: Final = lru_cache(_KEPT)(self._enrichment)

    def _enrichment(
        self, compound: Compound, disabled: AbstractSet[str], *, passed_over: bool
    ) -> tuple[EnrichmentPlan, str]:
        plan = plan_enrichment(compound, disabled, passed_over=passed_over)
        if plan.primary_enrichment and not self._primary[compound.primary.domain]:
            plan = msgspec.structs.replace(plan, primary_enrichment=False, reason_primary_skipped=NO_TEMPLATE)
        return plan, self._compose(compound, plan)

    def _compose(self, compound: Compound, plan: EnrichmentPlan) -> str:
        """The text to inject for a decision; often empty."""
        first = self._primary[compound.primary.domain] if plan.primary_enrichment else ""
        if not plan.secondary_enrichment or compound.secondary is None:
            return first
        second = self._secondary[compound.secondary.domain]
        return f"{first}\n{second}" if first else second


def primary_text(domain: str, template: str, label: str = "") -> str:
    """The primary domain's guidance in full; empty without a template."""
    return f"{label}Domain: {domain}\n{template}" if template else ""


def secondary_text(domain: str, brief: str, label: str = "") -> str:
    """The secondary domain's one line."""
    return f"{label}Secondary context: {domain} — {brief or f'{domain} context is also relevant.'}"
