"""Pointsman: the decision layer for LLM agents.

>>> from pointsman import Pointsman
>>> Pointsman().decide("Hello!").tier.tier.name
'SIMPLE'
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as ``typing`` has it, whose import costs more than all of this module
if TYPE_CHECKING:
    from pointsman.api import Pointsman
    from pointsman.capabilities import CapabilityDecision
    from pointsman.decision.decision import Decision, Injection, RequestInput
    from pointsman.decision.engine import Decided, Engine
    from pointsman.decision.memory import Memory
    from pointsman.decision.policy import DomainPolicy, Policy
    from pointsman.diagnostics.explained import Explained
    from pointsman.domains import DomainDecision
    from pointsman.errors import (
        CallerError,
        ConfigError,
        MissingExtra,
        PointsmanDeprecationWarning,
        PointsmanError,
        UnknownModel,
        UpstreamError,
    )
    from pointsman.guidance import GuidanceDecision
    from pointsman.tiers import TierDecision
    from pointsman.tiers.decision import Verification
    from pointsman.vocabulary import (
        AgentRequest,
        AgentRole,
        Mode,
        ModelQuery,
        ModelReply,
        ModelSpec,
        Purpose,
        Reason,
        Stage,
        Tier,
        WireFormat,
    )
    from pointsman.wire.project import project_key

__all__ = [
    "AgentRequest",
    "AgentRole",
    "CallerError",
    "CapabilityDecision",
    "ConfigError",
    "Decided",
    "Decision",
    "DomainDecision",
    "DomainPolicy",
    "Engine",
    "Explained",
    "GuidanceDecision",
    "Injection",
    "Memory",
    "MissingExtra",
    "Mode",
    "ModelQuery",
    "ModelReply",
    "ModelSpec",
    "Pointsman",
    "PointsmanDeprecationWarning",
    "PointsmanError",
    "Policy",
    "Purpose",
    "Reason",
    "RequestInput",
    "Stage",
    "Tier",
    "TierDecision",
    "UnknownModel",
    "UpstreamError",
    "Verification",
    "WireFormat",
    "__version__",
    "project_key",
]

__version__ = "0.1.0"

#: Where each name lives. They are imported when first used (PEP 562), so that a command which needs a part
#: of the package, such as the hook that runs after every tool call of an agent, does not pay for all of it.
_NAMES = {
    "pointsman.api": ("Pointsman",),
    "pointsman.capabilities": ("CapabilityDecision",),
    "pointsman.decision.decision": ("Decision", "Injection", "RequestInput"),
    "pointsman.decision.engine": ("Decided", "Engine"),
    "pointsman.decision.memory": ("Memory",),
    "pointsman.diagnostics.explained": ("Explained",),
    "pointsman.domains": ("DomainDecision",),
    "pointsman.errors": (
        "CallerError",
        "ConfigError",
        "MissingExtra",
        "PointsmanDeprecationWarning",
        "PointsmanError",
        "UnknownModel",
        "UpstreamError",
    ),
    "pointsman.decision.policy": ("DomainPolicy", "Policy"),
    "pointsman.guidance": ("GuidanceDecision",),
    "pointsman.tiers": ("TierDecision",),
    "pointsman.tiers.decision": ("Verification",),
    "pointsman.vocabulary": (
        "ModelReply",
        "Mode",
        "ModelSpec",
        "Purpose",
        "ModelQuery",
        "Reason",
        "Stage",
        "Tier",
        "AgentRequest",
        "AgentRole",
        "WireFormat",
    ),
    "pointsman.wire.project": ("project_key",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

#: Former name of a public name -> (its name today, the version that removes the former one). Empty: none is
#: deprecated. The rules are in ``docs/reference/public.md``.
_DEPRECATED: dict[str, tuple[str, str]] = {}


def __getattr__(name: str) -> object:
    """Import a public name; a deprecated one with a warning that names its successor."""
    if name in _DEPRECATED:
        return _former(name)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def _former(name: str) -> object:
    from warnings import warn

    from pointsman.errors import PointsmanDeprecationWarning

    today, removed_in = _DEPRECATED[name]
    said = f"pointsman.{name} is now pointsman.{today}; {removed_in} removes the former name"
    warn(said, PointsmanDeprecationWarning, stacklevel=3)
    return __getattr__(today)


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
