"""From an operator's configuration to something that decides: policy, engine, runtime."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pointsman.config import Config
from pointsman.engine import Engine
from pointsman.errors import ConfigError
from pointsman.evidence import ReMatcher, Scanner, SignalTable
from pointsman.policy import Policy, Verify
from pointsman.tiers import BUILTIN_PROFILES, TierProfile, builtin_profile, load_profile

__all__ = ["build_engine", "build_policy", "read_profile"]


def build_engine(policy: Policy) -> Engine:
    """Compile a policy with the fastest matching engine that is installed."""
    table = SignalTable(policy.signals())
    return Engine(policy, Scanner(table, ReMatcher(table)))


def read_profile(name: str) -> TierProfile:
    """Return a built-in profile, or the one in a file.

    Raises:
        ConfigError: there is no such profile or file, or the file is wrong.
    """
    if name in BUILTIN_PROFILES:
        return builtin_profile(name)
    path = Path(name)
    if not path.is_file():
        built_in = ", ".join(BUILTIN_PROFILES)
        raise ConfigError(
            f'no tier profile "{name}"', hint=f"built in: {built_in}; or the path of a TOML file"
        )
    return load_profile(path.read_text(encoding="utf-8"), str(path))


def build_policy(config: Config) -> Policy:
    """Return the part of a configuration that decides.

    Raises:
        ConfigError: the tier profile does not exist or is wrong.
    """
    tiers = config.tiers
    profile = read_profile(tiers.profile)
    if tiers.boundaries is not None:
        profile = msgspec.structs.replace(profile, boundaries=tiers.boundaries)
    return Policy(profile=profile, models=config.models, ladder=tiers.models, verify=_verify(config))


def _verify(config: Config) -> Verify | None:
    spec = config.tiers.verify
    if spec is None:
        return None
    return Verify(
        model=spec.model,
        share=spec.share,
        timeout_ms=spec.timeout_ms,
        money_per_day=spec.money_per_day,
        cache=spec.cache,
    )
