"""Floor 5: the configuration file, loaded into one immutable ``Config``."""

from __future__ import annotations

from pointsman.config._check_connections import http_address
from pointsman.config.files import read
from pointsman.config.load import AnyKey, Loaded, examine, find, find_named, is_profile, load
from pointsman.config.serving import AccessSpec, BudgetSpec, KeySpec, Role, TeamSpec
from pointsman.config.shapes import (
    CapabilitiesSpec,
    Config,
    ConsoleSpec,
    DomainsSpec,
    GuidanceSpec,
    LearnedRouterSpec,
    LedgerSpec,
    ProjectsSpec,
    RunSpec,
    SessionsSpec,
    ShadowSpec,
    TiersSpec,
)
from pointsman.upstreams.proxies import is_loopback

__all__ = [
    "AccessSpec",
    "AnyKey",
    "BudgetSpec",
    "CapabilitiesSpec",
    "Config",
    "ConsoleSpec",
    "DomainsSpec",
    "GuidanceSpec",
    "KeySpec",
    "LearnedRouterSpec",
    "LedgerSpec",
    "Loaded",
    "ProjectsSpec",
    "Role",
    "RunSpec",
    "SessionsSpec",
    "ShadowSpec",
    "TeamSpec",
    "TiersSpec",
    "examine",
    "find",
    "find_named",
    "http_address",
    "is_loopback",
    "is_profile",
    "load",
    "read",
]
