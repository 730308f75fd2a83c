"""From an operator's configuration to something that decides: policy, engine, runtime."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from pointsman.config import Config
from pointsman.domains import DomainSet, ModelProfile, default_domains, parse_domains, parse_profile
from pointsman.engine import Engine
from pointsman.errors import ConfigError
from pointsman.evidence import ReMatcher, Scanner, SignalTable
from pointsman.ledger import Retention, SqliteLedger
from pointsman.policy import DomainPolicy, Mode, Policy, Verify
from pointsman.runtime import Runtime
from pointsman.sessions import MemorySessions
from pointsman.tiers import BUILTIN_PROFILES, TierProfile, builtin_profile, load_profile

__all__ = ["build_engine", "build_policy", "build_runtime", "default_policy", "read_profile"]

log = logging.getLogger(__name__)


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


def default_policy() -> Policy:
    """What decides without any configuration: profile ``default``, the built-in domains observed."""
    return Policy(profile=builtin_profile("default"), domains=DomainPolicy(domains=default_domains()))


def build_policy(config: Config) -> Policy:
    """Return the part of a configuration that decides.

    Raises:
        ConfigError: the tier profile does not exist or is wrong.
    """
    tiers = config.tiers
    profile = read_profile(tiers.profile)
    if tiers.boundaries is not None:
        profile = msgspec.structs.replace(profile, boundaries=tiers.boundaries)
    return Policy(
        profile=profile,
        models=config.models,
        ladder=tiers.models,
        verify=_verify(config),
        domains=_domains(config),
    )


def _domains(config: Config) -> DomainPolicy | None:
    spec = config.domains
    if spec.mode == "off":
        return None
    domains = default_domains()
    if spec.file is not None:
        domains = parse_domains(spec.file.read_text(encoding="utf-8"), place=str(spec.file))
    profiles = _profiles(config, domains) if spec.profiles else {}
    return DomainPolicy(domains=domains, mode=Mode(spec.mode), profiles=profiles)


def _profiles(config: Config, domains: DomainSet) -> dict[str, ModelProfile]:
    """Read each model's profile, ``NAME.json`` or ``ID.json``. A broken one is a warning: all text is on."""
    found: dict[str, ModelProfile] = {}
    for name, model in config.models.items():
        for stem in (name, model.id):
            path = Path(config.domains.profiles or "") / f"{stem}.json"
            if not path.is_file():
                continue
            try:
                found[name] = parse_profile(path.read_bytes(), domains, model=name, place=str(path))
            except ConfigError as error:
                log.warning("%s; all domain texts are on for %s", error, name)
            break
    return found


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


def build_runtime(config: Config) -> Runtime:
    """Return everything that decides as configured; its stores open with the first use.

    Raises:
        ConfigError: a file the configuration names is wrong.
    """
    spec = config.ledger
    ledger = SqliteLedger(
        spec.path,
        queue=spec.queue,
        text=spec.text,
        retention=Retention(keep_days=spec.keep_days, max_mb=spec.max_mb),
    )
    sessions = MemorySessions(size=config.sessions.size, ttl=config.sessions.ttl)
    return Runtime(build_engine(build_policy(config)), sessions=sessions, ledger=ledger)
