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
    from pointsman.decision.decision import Decision, Injection
    from pointsman.decision.engine import Decided, Engine
    from pointsman.decision.input import RequestInput
    from pointsman.decision.memory import Memory
    from pointsman.decision.policy import DomainPolicy, Policy
    from pointsman.errors import (
        CallerError,
        ConfigError,
        MissingExtra,
        PointsmanError,
        UnknownModel,
        UpstreamError,
    )
    from pointsman.tiers.policy import Verification
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
    "ConfigError",
    "Decided",
    "Decision",
    "DomainPolicy",
    "Engine",
    "Injection",
    "Memory",
    "MissingExtra",
    "Mode",
    "ModelQuery",
    "ModelReply",
    "ModelSpec",
    "Pointsman",
    "PointsmanError",
    "Policy",
    "Purpose",
    "Reason",
    "RequestInput",
    "Stage",
    "Tier",
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
    "pointsman.decision.decision": ("Injection", "Decision"),
    "pointsman.decision.engine": ("Decided", "Engine"),
    "pointsman.decision.input": ("RequestInput",),
    "pointsman.decision.memory": ("Memory",),
    "pointsman.errors": (
        "CallerError",
        "ConfigError",
        "MissingExtra",
        "PointsmanError",
        "UnknownModel",
        "UpstreamError",
    ),
    "pointsman.decision.policy": ("DomainPolicy", "Policy"),
    "pointsman.tiers.policy": ("Verification",),
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


def __getattr__(name: str) -> object:
    """Import a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
