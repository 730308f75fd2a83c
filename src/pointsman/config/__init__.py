"""Floor 6: the operator's file, read into one frozen ``Config``."""

from __future__ import annotations

from pointsman.config.check import is_loopback
from pointsman.config.load import Loaded, examine, find, load
from pointsman.config.secret import Secret
from pointsman.config.shapes import (
    CapabilitiesSpec,
    Config,
    DomainsSpec,
    GuidanceSpec,
    LedgerSpec,
    ServerSpec,
    SessionsSpec,
    TiersSpec,
    UpstreamSpec,
    VerifySpec,
)

__all__ = [
    "CapabilitiesSpec",
    "Config",
    "DomainsSpec",
    "GuidanceSpec",
    "LedgerSpec",
    "Loaded",
    "Secret",
    "ServerSpec",
    "SessionsSpec",
    "TiersSpec",
    "UpstreamSpec",
    "VerifySpec",
    "examine",
    "find",
    "is_loopback",
    "load",
]
