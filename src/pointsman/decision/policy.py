"""Everything that decides, as one frozen value with a version.

A policy is made from the operator's configuration above the line, or by hand in a library or a test. Two
policies with the same version decide alike, on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from pointsman.domains import PERMISSIVE, DomainSet, ModelProfile
from pointsman.evidence import Signal
from pointsman.guidance import GuidancePolicy
from pointsman.tiers import LearnedRouterPolicy, TierProfile
from pointsman.vocabulary import Mode, ModelSpec, Tier

__all__ = ["DomainPolicy", "Policy", "Verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """When a model may be asked to verify a tier, and what that may cost."""

    model: str  # configured name of the model to ask
    share: float = 0.15  # of requests; source: docs/decisions/0023
    timeout_ms: int = 500  # source: docs/decisions/0083
    money_per_day: float | None = None  # in the currency of the prices
    cache: int = 4_096  # answers remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPolicy:
    """Which domains there are, and for which models their text does harm."""

    domains: DomainSet
    mode: Mode = Mode.OBSERVE
    examples: str = "none"  # name of the encoder that compares messages with the domains' examples
    profiles: Mapping[str, ModelProfile] = field(default_factory=dict)  # by configured model name

    def profile(self, model: str) -> ModelProfile:
        """The profile of a model; a model nobody evaluated gets all enrichment."""
        return self.profiles.get(model, PERMISSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a user can set about deciding."""

    profile: TierProfile
    models: Mapping[str, ModelSpec] = field(default_factory=dict)  # by configured name
    tier_models: Mapping[Tier, str] = field(default_factory=dict)  # tier -> configured model name
    learned_router: LearnedRouterPolicy | None = None  # None: the rules decide alone
    verify: Verify | None = None  # None: no model is ever asked
    domains: DomainPolicy | None = None  # None: domains are off
    guidance: GuidancePolicy | None = None  # None: guidance is off
    tools: int | None = None  # of a request's tools, pass on so many at most; None: all

    def signals(self) -> Iterator[Signal]:
        """Every signal some part of the policy listens for."""
        yield from self.profile.signals()
        if self.domains:
            yield from self.domains.domains.signals()

    def version(self) -> str:
        """Twelve hex digits over everything in the policy; the same on every machine and hash seed."""
        data = msgspec.json.encode(self, order="deterministic", enc_hook=_content)
        if self.learned_router:
            data += repr(self.learned_router.boundaries).encode()  # JSON writes both infinities as null
        return hashlib.sha256(data).hexdigest()[:12]


def _content(value: object) -> object:
    if isinstance(value, DomainSet):
        return [list(value.domains.values()), value.cues]
    raise TypeError(f"a policy cannot hold a {type(value).__name__}")
