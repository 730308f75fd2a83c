"""The names of the founding specification, with their signatures, for code written against it.

They work on plain dicts and on the built-in domains. ``DomainTracker`` decides the same from one shared scan
and never comes here; docs/notebook/0041 and 0042 list what differs from the specification's code, and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pointsman.domains import MOMENTUM_THRESHOLD, SECONDARY_MIN_SIGNALS
from pointsman.domains.data import (
    CONVERSATION,
    Compound,
    Domain,
    DomainClass,
    DomainMemory,
    DomainSet,
    Pair,
    Part,
    as_dict,
    disabled_domains,
    format_signature,
    parse_signature,
    restore_from_signature,
)
from pointsman.domains.enrichment import plan_enrichment, primary_text, secondary_text
from pointsman.domains.parsing import default_domains
from pointsman.domains.scoring import Reading, pick_secondary
from pointsman.domains.tracker import remember
from pointsman.evidence import Kind, Signal
from pointsman.integrations.agent_zero import (
    COMPOUND_KEY,
    DOMAIN_KEY,
    LABEL,
    model_name,
)
from pointsman.integrations.agent_zero import read_model_profile as load_model_profile

__all__ = [
    "COMPOUND_KEY",
    "DOMAIN_CONFIGS",
    "DOMAIN_KEY",
    "DOMAIN_PRIORITY",
    "LABEL",
    "MOMENTUM_THRESHOLD",
    "SECONDARY_MIN_SIGNALS",
    "CompoundClassification",
    "apply_compound_momentum",
    "build_enrichment_plan",
    "extract_compound",
    "format_signature",
    "generate_enrichment",
    "load_model_profile",
    "model_name",
    "parse_signature",
    "restore_from_signature",
    "score_all_domains",
]

_DOMAINS: Final[DomainSet] = default_domains()


def _alternative(signal: Signal) -> str:
    if signal.kind is Kind.REGEX:
        return f"(?:{signal.pattern})"
    literal = re.escape(signal.pattern)
    if signal.kind is Kind.SUBSTRING:
        return literal
    return rf"(?<!\w){literal}" if signal.kind is Kind.PREFIX else rf"(?<!\w){literal}(?!\w)"


#: Ties go to the smaller number.
DOMAIN_PRIORITY: Final[dict[str, int]] = {domain.name: domain.priority for domain in _DOMAINS}

#: The built-in domains as plain data; one regular expression per concept.
DOMAIN_CONFIGS: Final[dict[str, dict[str, Any]]] = {
    domain.name: {
        "signals": ["|".join(map(_alternative, concept.signals)) for concept in domain.concepts],
        "enrichment_template": domain.enrichment_template,
        "brief_description": domain.brief_description,
    }
    for domain in _DOMAINS
}


@dataclass
class CompoundClassification:
    """One turn's domains, as readers of ``_bst_compound`` expect them."""

    primary_domain: str
    primary_confidence: int  # signal matches, not a fraction
    primary_signals: list[str]
    secondary_domain: str | None
    secondary_confidence: int | None
    secondary_signals: list[str] | None
    compound_signature: str
    momentum_turns: int
    enrichment_plan: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The documented shape of ``_bst_compound``."""
        secondary = None
        if self.secondary_domain:
            secondary = {
                "domain": self.secondary_domain,
                "confidence": self.secondary_confidence,
                "matched_signals": self.secondary_signals,
            }
        return {
            "primary": {
                "domain": self.primary_domain,
                "confidence": self.primary_confidence,
                "matched_signals": self.primary_signals,
            },
            "secondary": secondary,
            "compound_signature": self.compound_signature,
            "momentum_turns": self.momentum_turns,
            "enrichment_plan": self.enrichment_plan,
        }


def score_all_domains(message: str, domain_configs: Mapping[str, Any]) -> list[tuple[str, int, list[str]]]:
    """Score every domain of ``domain_configs``: ``(domain, score, matched patterns)``, best first.

    Runs one search per pattern, on any patterns ``re`` accepts: slow, and the oracle of the shared scan.
    """
    scores = []
    for name, config in domain_configs.items():
        matched = [pattern for pattern in config["signals"] if re.search(pattern, message, re.IGNORECASE)]
        if matched:
            scores.append((name, len(matched), matched))
    return sorted(scores, key=lambda score: (-score[1], DOMAIN_PRIORITY.get(score[0], 99), score[0]))


def extract_compound(
    scores: list[tuple[str, int, list[str]]],
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The primary domain and, when it is strong enough, a secondary one; small talk is neither."""
    null = {domain.name for domain in _DOMAINS if domain.kind is DomainClass.NULL}
    telling = [score for score in scores if score[0] not in null]
    if not telling:
        return as_dict(*(scores[0] if scores else (CONVERSATION, 0, []))), None
    if len(telling) == 1 or not pick_secondary(telling[0][1], telling[1][1]):
        return as_dict(*telling[0]), None
    return as_dict(*telling[0]), as_dict(*telling[1])


def apply_compound_momentum(
    new_primary: dict[str, Any],
    new_secondary: dict[str, Any] | None,
    current_signature: str,
    current_momentum: int,
) -> tuple[dict[str, Any], dict[str, Any] | None, str, int]:
    """Apply the rule table to the session data in a signature.

    A signature knows neither the roles nor the counters of a pair: the domain of higher priority counts as
    primary, and nothing repeats. ``DomainTracker`` has the whole memory.
    """
    if format_signature(new_primary, new_secondary) == current_signature:
        return new_primary, new_secondary, current_signature, current_momentum + 1
    parts = tuple(_as_part(part) for part in (new_primary, new_secondary) if part)
    names = (*(part.domain for part in parts), *parse_signature(current_signature))
    # The built-in domains and, as tasks, whatever else is named.
    domains = DomainSet({**{name: Domain(name, DomainClass.TASK) for name in names}, **_DOMAINS.domains})
    reading = Reading(
        tuple(part for part in parts if domains[part.domain].kind is not DomainClass.NULL), Compound(*parts)
    )
    before = _from_signature(current_signature, current_momentum, domains)
    outcome, _ = remember(reading, before, domains, key="")
    effective = outcome.effective
    return (
        _from_part(effective.primary),
        _from_part(effective.secondary) if effective.secondary else None,
        effective.signature,
        1 if outcome.rule == "R1b" else outcome.momentum,
    )


def _from_signature(signature: str, momentum: int, domains: DomainSet) -> DomainMemory:
    kinds = {name: domains[name].kind for name in domains.domains if name in parse_signature(signature)}
    if DomainClass.TASK in kinds.values():
        tasks_first = sorted(kinds, key=lambda name: kinds[name] is not DomainClass.TASK)
        return DomainMemory(pair=Pair(tasks_first[0], "".join(tasks_first[1:2])), momentum=momentum)
    chores = [name for name in kinds if kinds[name] is DomainClass.OPERATIONAL]
    return DomainMemory(operational=chores[0] if chores else "")


def build_enrichment_plan(
    primary: Mapping[str, Any], secondary: Mapping[str, Any] | None, model_profile: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What to inject, given a decoded model profile; no profile disables nothing."""
    names = disabled_domains(model_profile) if model_profile else []
    compound = Compound(_as_part(primary), _as_part(secondary) if secondary else None)
    return msgspec.structs.asdict(plan_enrichment(compound, {_DOMAINS.resolve(name) for name in names}))


def generate_enrichment(classification: CompoundClassification, domain_configs: Mapping[str, Any]) -> str:
    """The text to inject for a classification. Skipped enrichment is a matter for the log."""
    plan, lines = classification.enrichment_plan, []
    if plan["primary_enrichment"]:
        config = domain_configs.get(classification.primary_domain, {})
        lines.append(
            primary_text(classification.primary_domain, config.get("enrichment_template", ""), LABEL)
        )
    if plan["secondary_enrichment"] and classification.secondary_domain:
        config = domain_configs.get(classification.secondary_domain, {})
        lines.append(
            secondary_text(classification.secondary_domain, config.get("brief_description", ""), LABEL)
        )
    return "\n".join(filter(None, lines))


def _as_part(part: Mapping[str, Any]) -> Part:
    return Part(part["domain"], part["confidence"], tuple(part.get("matched_signals") or ()))


def _from_part(part: Part) -> dict[str, Any]:
    return as_dict(part.domain, part.confidence, list(part.signals))
