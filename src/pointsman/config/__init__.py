"""Floor 6: the operator's file, read into one frozen ``Config``."""

from __future__ import annotations

from pointsman.config.check import is_loopback
from pointsman.config.load import Loaded, examine, find, load
from pointsman.config.shapes import (
    CapabilitiesSpec,
    Config,
    DomainsSpec,
    GuidanceSpec,
    HeadSpec,
    LedgerSpec,
    SessionsSpec,
    TiersSpec,
    VerifySpec,
)

__all__ = [
    "CapabilitiesSpec",
    "Config",
    "DomainsSpec",
    "GuidanceSpec",
    "HeadSpec",
    "LedgerSpec",
    "Loaded",
    "SessionsSpec",
    "TiersSpec",
    "VerifySpec",
    "examine",
    "find",
    "is_loopback",
    "load",
]
