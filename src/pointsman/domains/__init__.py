"""Floor 3: task domains of a conversation, and the enrichment of the prompt."""

from __future__ import annotations

from pointsman.domains.data import (
    PERMISSIVE,
    Compound,
    Concept,
    Domain,
    DomainClass,
    DomainMemory,
    DomainSet,
    ModelProfile,
    Part,
    Source,
    parse_profile,
)
from pointsman.domains.enrichment import EnrichmentPlan
from pointsman.domains.parsing import default_domains, parse_domains
from pointsman.domains.scoring import SECONDARY_MIN_SIGNALS
from pointsman.domains.tracker import MOMENTUM_THRESHOLD, DomainDecision, DomainTracker

__all__ = [
    "MOMENTUM_THRESHOLD",
    "PERMISSIVE",
    "SECONDARY_MIN_SIGNALS",
    "Compound",
    "Concept",
    "Domain",
    "DomainClass",
    "DomainDecision",
    "DomainMemory",
    "DomainSet",
    "DomainTracker",
    "EnrichmentPlan",
    "ModelProfile",
    "Part",
    "Source",
    "default_domains",
    "parse_domains",
    "parse_profile",
]
