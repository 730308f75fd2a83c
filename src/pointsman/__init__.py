"""Pointsman: the decision layer for LLM agents.

>>> from pointsman import Pointsman
>>> Pointsman().decide("Hello!").tier.tier.name
'SIMPLE'
"""

from __future__ import annotations

from pointsman.client import Pointsman
from pointsman.decision import Addition, Decision
from pointsman.engine import Decided, Engine, Memory
from pointsman.errors import (
    CallerError,
    ConfigError,
    MissingExtra,
    PointsmanError,
    UnknownModel,
    UpstreamError,
)
from pointsman.policy import DomainPolicy, Policy, Verify
from pointsman.types import Answer, Mode, ModelSpec, Need, Reason, Stage, Tier, Turn, WireFormat

__all__ = [
    "Addition",
    "Answer",
    "CallerError",
    "ConfigError",
    "Decided",
    "Decision",
    "DomainPolicy",
    "Engine",
    "Memory",
    "MissingExtra",
    "Mode",
    "ModelSpec",
    "Need",
    "Pointsman",
    "PointsmanError",
    "Policy",
    "Reason",
    "Stage",
    "Tier",
    "Turn",
    "UnknownModel",
    "UpstreamError",
    "Verify",
    "WireFormat",
    "__version__",
]

__version__ = "0.1.0"
