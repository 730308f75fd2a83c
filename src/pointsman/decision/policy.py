"""The policy: everything that affects decisions, as one immutable value with a version hash.

A policy is made from the operator's configuration above the line, or by hand in a library or a test. Two
policies with the same version decide alike, on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec
from msgspec import Meta

from pointsman.capabilities import CapabilityPolicy, CapabilityRegistry
from pointsman.decision.aliases import Aliases
from pointsman.domains import DomainSet, ModelProfile
from pointsman.evidence import Signal
from pointsman.guidance import GuidancePolicy
from pointsman.model_choice.chains import TierModels
from pointsman.model_choice.choice import Switching
from pointsman.tiers import (
    EscalationPolicy,
    LearnedRouterPolicy,
    ProjectPolicy,
    PromptKinds,
    RoleTiers,
    TierProfile,
    Verification,
)
from pointsman.vocabulary import Mode, ModelSpec

__all__ = ["DomainPolicy", "DomainSettings", "Policy"]


class DomainSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the prompt is enriched for the task domains of the conversation."""

    mode: Annotated[
        Mode,
        Meta(description="`observe` decides and records but adds nothing to a prompt; `on` adds the text."),
    ] = Mode.OBSERVE
    examples: Annotated[
        str,
        Meta(
            description="Local encoder that compares messages without signals with the domains' examples: "
            "`none`, `static`, `sentence` (each needs the extra of its name), or a plug-in's."
        ),
    ] = "none"


class DomainPolicy(DomainSettings, frozen=True, kw_only=True):
    """Which domains there are, and for which models their text does harm."""

    domains: DomainSet
    profiles: Mapping[str, ModelProfile] = {}  # by configured model name; others get all enrichment


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings of decisions."""

    profile: TierProfile
    models: Mapping[str, ModelSpec] = field(default_factory=dict)  # by configured name
    tier_models: TierModels = field(default_factory=dict)  # tier -> configured model names, see ``pools``
    switching: Switching = "upward"  # when a session leaves the tier of its start
    learned_router: LearnedRouterPolicy | None = None  # None: the rules decide alone
    kinds: PromptKinds | None = None  # None: no kind of prompts shifts the score of the rules
    verify: Verification | None = None  # None: no model is ever asked
    roles: RoleTiers = field(
        default_factory=RoleTiers
    )  # which tier serves what agents send beside their main conversation
    projects: ProjectPolicy | None = None  # None: no project has a tier of its own
    escalation: EscalationPolicy | None = None  # None: trouble raises no tier
    domains: DomainPolicy | None = None  # None: domains are off
    guidance: GuidancePolicy | None = None  # None: guidance is off
    aliases: Aliases = ()  # patterns of model names and their targets; the first that matches counts
    capabilities: CapabilityPolicy | None = None  # None: selected only where ``tools`` says so, and locally
    commands: bool = False  # a message may begin with one: "/caps:off"
    tools: int | None = None  # of a request's tools, pass on so many at most; None: all

    def signals(self) -> Iterator[Signal]:
        """Every signal some part of the policy listens for."""
        yield from self.profile.signals()
        if self.domains:
            yield from self.domains.domains.signals()

    def without_changes(self, *, texts: bool) -> Policy:
        """Return the policy for a host that cannot change a request as this one would: tools are not cut.

        Without ``texts`` guidance and domains decide and are recorded, and say nothing.
        """
        policy = replace(self, tools=None)
        if texts:
            return policy
        guidance, domains = policy.guidance, policy.domains
        if guidance is not None and guidance.mode is Mode.ON:
            policy = replace(policy, guidance=msgspec.structs.replace(guidance, mode=Mode.OBSERVE))
        if domains is not None and domains.mode is Mode.ON:
            policy = replace(policy, domains=msgspec.structs.replace(domains, mode=Mode.OBSERVE))
        return policy

    def version(self) -> str:
        """Twelve hex digits over everything in the policy; the same on every machine and hash seed."""
        data = msgspec.json.encode(self, order="deterministic", enc_hook=_content)
        if self.learned_router:
            data += repr(self.learned_router.boundaries).encode()  # JSON writes both infinities as null
        return hashlib.sha256(data).hexdigest()[:12]


def _content(value: object) -> object:
    if isinstance(value, DomainSet):
        return [list(value.domains.values()), value.cues]
    if isinstance(value, CapabilityRegistry):
        return value.version
    raise TypeError(f"a policy cannot hold a {type(value).__name__}")
