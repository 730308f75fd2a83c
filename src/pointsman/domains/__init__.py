"""Floor 3: which task domains a conversation is in, and what guidance follows."""

from __future__ import annotations

from pointsman.domains.data import Concept, Domain, DomainSet
from pointsman.domains.enrichment import EnrichmentPlan
from pointsman.domains.momentum import MOMENTUM_THRESHOLD
from pointsman.domains.parsing import default_domains, parse_domains
from pointsman.domains.profiles import PERMISSIVE, ModelProfile, parse_profile
from pointsman.domains.scoring import SECONDARY_MIN_SIGNALS
from pointsman.compat.domains import COMPOUND_KEY, DOMAIN_CONFIGS, DOMAIN_KEY, DOMAIN_PRIORITY, CompoundClassification, apply_compound_momentum, build_enrichment_plan, extract_compound, generate_enrichment, load_model_profile, score_all_domains
from pointsman.domains.signature import format_signature, parse_signature, restore_from_signature
from pointsman.domains.tracker import DomainDecision, DomainTracker
from pointsman.domains.values import Compound, DomainClass, DomainMemory, Part, Source

__all__ = [
    "COMPOUND_KEY",
    "DOMAIN_CONFIGS",
    "DOMAIN_KEY",
    "DOMAIN_PRIORITY",
    "MOMENTUM_THRESHOLD",
    "PERMISSIVE",
    "SECONDARY_MIN_SIGNALS",
    "Compound",
    "CompoundClassification",
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
    "apply_compound_momentum",
    "build_enrichment_plan",
    "default_domains",
    "extract_compound",
    "format_signature",
    "generate_enrichment",
    "load_model_profile",
    "parse_domains",
    "parse_profile",
    "parse_signature",
    "restore_from_signature",
    "score_all_domains",
]
