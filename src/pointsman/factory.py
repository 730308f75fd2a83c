"""Builds policy, engine and runtime from a configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgspec

from pointsman.capabilities import (
    CapabilityPolicy,
    CapabilityRegistry,
    CapabilitySettings,
    parse_calibration,
    parse_capabilities,
)
from pointsman.config import (
    AnyKey,
    CapabilitiesSpec,
    Config,
    LearnedRouterSpec,
    LedgerSpec,
    ProjectsSpec,
    SessionsSpec,
    is_profile,
    load,
    read,
)
from pointsman.config.applications import load_classes, load_registry, with_versions
from pointsman.config.edit import as_toml, policy_tables
from pointsman.config.files import state_file
from pointsman.config.shapes import SESSION_STORES
from pointsman.decision.aliases import CLIENT_ALIASES
from pointsman.decision.engine import Engine
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.decoding import mapped
from pointsman.domains import DomainSet, ModelProfile, default_domains, parse_domains, parse_profile
from pointsman.encoders import load_encoder
from pointsman.encoders.learned_routers import encoder_of, load_kinds, load_learned_router, open_kinds
from pointsman.errors import ConfigError
from pointsman.guidance import GuidancePolicy, asks_models
from pointsman.model_calls import Ask, ask_models, ask_nobody, asked_model, build_questions
from pointsman.plugins import load as load_plugin
from pointsman.runtime import Runtime
from pointsman.stores.ledger import Ledger, PolicyText, Retention, SpillFile, SqliteLedger, open_postgres
from pointsman.stores.ledger.redact import redact
from pointsman.stores.pattern_cache import open_scanner
from pointsman.stores.sessions import (
    MemorySessions,
    SessionStore,
    SqliteSessions,
    ValkeySessions,
)
from pointsman.stores.workers import ALONE, Worker
from pointsman.tiers import (
    BUILTIN_PROFILES,
    LearnedRouterPolicy,
    ProjectPolicy,
    TierProfile,
    builtin_profile,
    load_profile,
    read_projects,
)
from pointsman.upstreams.port import UpstreamClient, UpstreamSpec
from pointsman.vocabulary import Mode, ModelQuery, ModelSpec, Tier

__all__ = [
    "asks_somebody",
    "build_ask",
    "build_asked_model",
    "build_engine",
    "build_policy",
    "build_runtime",
    "build_shadow",
    "default_policy",
    "keep_policy",
    "open_ledger",
    "open_sessions",
    "policy_toml",
    "read_policy",
    "read_policy_text",
    "read_profile",
]

log = logging.getLogger(__name__)


def build_engine(policy: Policy, *, read_only: bool = False) -> Engine:
    """Compile a policy with the fastest matching engine that is installed.

    Args:
        policy: The policy.
        read_only: Whether no compiled pattern is written to the user's cache directory.

    Raises:
        MissingExtra: the policy names an encoder without its installed extra.
        ConfigError: the policy names a class of guidance that cannot be loaded.
    """
    own = load_classes(policy.guidance)
    if policy.guidance and own:
        policy = replace(policy, guidance=with_versions(policy.guidance, own))
    encoder = load_encoder(policy.domains.examples) if policy.domains else None
    learned_router_encoder = (
        encoder_of(policy.learned_router.learned_router) if policy.learned_router else None
    )
    selection, profile = policy.capabilities, policy.profile
    return Engine(
        policy,
        open_scanner(
            policy.signals(),
            normalised_for=profile.name if profile.normalise else "",
            lowering=profile.lowering,
            read_only=read_only,
        ),
        encoder,
        learned_router_encoder=learned_router_encoder,
        prompt_kinds=open_kinds(policy.kinds) if policy.kinds else None,
        capability_encoder=load_encoder(selection.encoder) if selection else None,
        guidance_classes=own,
    )


def read_profile(name: str) -> TierProfile:
    """Return a built-in profile, or the one in a file.

    Raises:
        ConfigError: there is no such profile or file, or the file is wrong.
    """
    if name in BUILTIN_PROFILES:
        return builtin_profile(name)
    path = Path(name)
    if not path.exists():
        built_in = ", ".join(BUILTIN_PROFILES)
        raise ConfigError(
            f'no tier profile "{name}"', hint=f"built in: {built_in}; or the path of a TOML file"
        )
    return load_profile(read(path), str(path))


def default_policy() -> Policy:
    """What decides without any configuration: profile ``default``; domains and guidance observed."""
    return Policy(
        profile=builtin_profile("default"),
        domains=DomainPolicy(domains=default_domains()),
        guidance=GuidancePolicy(),
        aliases=CLIENT_ALIASES,
    )


def build_policy(config: Config) -> Policy:
    """Return the part of a configuration that decides.

    Raises:
        ConfigError: the tier profile does not exist or is wrong.
    """
    tiers, escalation = config.tiers, config.tiers.escalation
    profile = read_profile(tiers.profile)
    domains = _domains(config)
    _check_domain_scores(profile, domains)
    if tiers.boundaries is not None:
        profile = msgspec.structs.replace(profile, boundaries=tiers.boundaries)
    return Policy(
        profile=profile,
        models=config.models,
        tier_models=tiers.pools,
        switching=tiers.switching,
        learned_router=_learned_router(tiers.learned_router),
        kinds=load_kinds(tiers.kinds),
        verify=tiers.verify,
        roles=tiers.roles,
        projects=_projects(tiers.projects),
        escalation=None if escalation and escalation.mode is Mode.OFF else escalation,
        domains=domains,
        guidance=None if config.guidance.mode is Mode.OFF else config.guidance,
        aliases=(*config.aliases.items(), *CLIENT_ALIASES),
        capabilities=_capabilities(config.capabilities),
        tools=config.capabilities.tools,
        commands=config.server.router_command,
    )


def _capabilities(spec: CapabilitiesSpec) -> CapabilityPolicy | None:
    """Return the selector of capabilities; None without capabilities."""
    if spec.effective_mode is Mode.OFF:
        return None
    settings = {name: getattr(spec, name) for name in CapabilitySettings.__struct_fields__}
    calibration, file = spec.calibration, spec.file
    registry = parse_capabilities(read(file), str(file)) if file else CapabilityRegistry(())
    return CapabilityPolicy(
        **settings,
        mode=spec.effective_mode,
        registry=load_registry(spec.application) if spec.application else registry,
        calibration=parse_calibration(read(calibration), str(calibration)) if calibration else None,
    )


def read_policy(file: Path, base: Policy) -> Policy:
    """Return the policy of a configuration, or ``base`` with the tier profile in a file.

    It is for deciding alone: the keys that the configuration refers to need not be set.

    Raises:
        ConfigError: the file cannot be read, or is wrong.
    """
    name = str(file)
    hint = (
        f'a copy of pointsman.toml with profile = "{name}" under [tiers] has this profile: name that file'
        if name in BUILTIN_PROFILES
        else ""
    )
    return read_policy_text(read(file, hint=hint), file, base)


def read_policy_text(
    text: str,
    file: Path,
    base: Policy,
    env: Mapping[str, str] | None = None,
    *,
    only: Collection[str] | None = None,
) -> Policy:
    """Return the policy of a text as the content of a file, to which paths are relative.

    Args:
        text: A configuration, or a profile.
        file: The file of that content.
        base: The policy that takes a profile.
        env: Fills references; by default the environment, in which no key is missing.
        only: The tables of a configuration that are read; by default all.

    Raises:
        ConfigError: it is wrong; the message names line and key.
    """
    if is_profile(text):
        return replace(base, profile=load_profile(text, str(file)))
    return build_policy(load(file, AnyKey() if env is None else env, text=text, only=only))


def build_shadow(config: Config) -> Engine | None:
    """Return the engine of the shadow policy; None without one.

    Raises:
        ConfigError: the file of the policy to try is wrong.
    """
    file = config.shadow.policy
    return build_engine(read_policy(file, build_policy(config))) if file else None


def _check_domain_scores(profile: TierProfile, domains: DomainPolicy | None) -> None:
    """Refuse a profile that gives a score to a domain that there is not."""
    for name in profile.domain_scores:
        if domains is None:
            raise ConfigError(
                f"profile {profile.name} has domain_scores, but domains are off",
                hint='[domains] mode = "observe" finds the domain and changes no prompt',
            )
        if name not in domains.domains:
            known = ", ".join(domains.domains.domains)
            raise ConfigError(
                f'profile {profile.name}: domain_scores names an unknown domain "{name}"',
                hint=f"domains: {known}",
            )


def _domains(config: Config) -> DomainPolicy | None:
    spec = config.domains
    if spec.mode is Mode.OFF:
        return None
    domains = default_domains()
    if spec.file is not None:
        domains = parse_domains(read(spec.file), place=str(spec.file))
    profiles = _profiles(config, domains) if spec.profiles else {}
    return DomainPolicy(domains=domains, mode=spec.mode, examples=spec.examples, profiles=profiles)


def _profiles(config: Config, domains: DomainSet) -> dict[str, ModelProfile]:
    """Read each model's profile, ``NAME.json`` or ``ID.json``. A broken one is a warning: all text is on."""
    found: dict[str, ModelProfile] = {}
    for name, model in config.models.items():
        for stem in (name, model.id):
            path = Path(config.domains.profiles or "") / f"{stem}.json"
            if not path.exists():
                continue
            try:
                found[name] = parse_profile(path.read_bytes(), domains, model=name, place=str(path))
            except ConfigError as error:
                log.warning("%s; all domain texts stay enabled for %s", error, name)
            break
    return found


def _projects(spec: ProjectsSpec | None) -> ProjectPolicy | None:
    if spec is None or spec.mode is Mode.OFF:
        return None
    found = read_projects(read(spec.file).encode(), str(spec.file))
    return ProjectPolicy(projects=found, mode=spec.mode, explore=spec.explore, seed=spec.seed)


def _learned_router(spec: LearnedRouterSpec | None) -> LearnedRouterPolicy | None:
    if spec is None:
        return None
    return LearnedRouterPolicy(learned_router=load_learned_router(spec.file), boundaries=spec.boundaries)


def build_runtime(config: Config, worker: Worker = ALONE) -> Runtime:
    """Return everything that decides as configured; its stores open with the first use.

    Args:
        config: The configuration.
        worker: Which of several processes this one is.

    Raises:
        ConfigError: a file the configuration names is wrong.
    """
    policy = build_policy(config)
    return Runtime(
        build_engine(policy),
        sessions=open_sessions(config.sessions),
        ledger=open_ledger(config.ledger),
        questions=build_questions(policy, worker),
    )


def keep_policy(runtime: Runtime, config: Config) -> None:
    """Store the text of a policy with the first decision by it."""
    runtime.ledger.append(PolicyText(version=runtime.engine.version, text=policy_toml(config)))


def policy_toml(config: Config) -> str:
    """Return the deciding part of a configuration as TOML, without secrets and defaults.

    Texts in it, as those of own guidance, are redacted as prompts are.
    """
    tables = mapped(policy_tables(config), lambda value: redact(value) if isinstance(value, str) else value)
    return as_toml(tables)


def asks_somebody(config: Config) -> bool:
    """Whether decisions under a configuration may ask a model."""
    selection = config.capabilities
    selects = selection.effective_mode is not Mode.OFF and selection.model
    return config.tiers.verify is not None or bool(selects) or asks_models(config.guidance)


def build_ask(config: Config, connect: Callable[[UpstreamSpec], UpstreamClient]) -> Ask:
    """Return the function that answers model queries of decisions, if models are configured.

    A query that names none is answered by the model that verifies tiers, or else by tier SIMPLE's.

    Args:
        config: Names the models and their upstreams.
        connect: Returns the client of an upstream.
    """
    if not asks_somebody(config):
        return ask_nobody
    from pointsman.upstreams.chat_model import chat_models  # brings asyncio, which most commands do without

    models = chat_models(config.models, config.upstreams, connect)
    return ask_models(models, default=_default_model(config))


def build_asked_model(config: Config) -> Callable[[ModelQuery], ModelSpec | None] | None:
    """Return the function that maps a decision's query to a model; None without models."""
    if not asks_somebody(config):
        return None
    models, default = config.models, _default_model(config)
    return lambda need: models.get(asked_model(need, models, default))


def _default_model(config: Config) -> str:
    """Return the model that is asked where a query names none."""
    verify = config.tiers.verify
    return verify.model if verify else config.tiers.models.get(Tier.SIMPLE, "")


def open_ledger(spec: LedgerSpec) -> Ledger:
    """Return the ledger a configuration names; its file or connection opens with the first entry.

    Raises:
        MissingExtra: the client of its database is not installed.
        ConfigError: its address is wrong.
    """
    retention = Retention(
        keep_days=spec.keep_days or None, max_mb=spec.most_mb, keep_sums_days=spec.keep_sums_days or None
    )
    if spec.url is not None:
        password = spec.password.reveal() if spec.password else None
        return open_postgres(
            spec.url,
            password=password,
            queue=spec.queue,
            text=spec.text,
            retention=retention,
            spill=_spill_of(spec),
        )
    if spec.jsonl is not None:
        from pointsman.stores.ledger.lines import JsonLinesLedger

        return JsonLinesLedger(
            None if spec.is_output else spec.jsonl,
            queue=spec.queue,
            text=spec.text,
            rotate_mb=spec.rotate_mb,
            gzip=spec.gzip,
            retention=retention,
        )
    return SqliteLedger(
        spec.path, queue=spec.queue, text=spec.text, retention=retention, spill=_spill_of(spec)
    )


def _spill_of(spec: LedgerSpec) -> SpillFile | None:
    """Return the file behind a ledger's queue: next to a file, in the state directory for a database."""
    if not spec.spill_mb:
        return None
    if spec.url is None:
        path = spec.path.with_name(f"{spec.path.name}.spill")
    else:
        path = state_file(f"spill/{sha256(spec.url.encode()).hexdigest()[:16]}")
    return SpillFile(path, max_mb=spec.spill_mb, text=spec.text)


def open_sessions(spec: SessionsSpec) -> SessionStore:
    """Return the session store a configuration names.

    Raises:
        MissingExtra: its client is not installed.
        ConfigError: no installed package offers a store of its name.
    """
    if spec.store not in SESSION_STORES:
        return _offered_store(spec)
    if spec.store == "sqlite":
        return SqliteSessions(spec.path, size=spec.size, ttl=spec.ttl)
    if spec.store == "valkey" and spec.url is not None:
        password = spec.password.reveal() if spec.password else None
        return ValkeySessions(spec.url, password=password, ttl=spec.ttl)
    return MemorySessions(size=spec.size, ttl=spec.ttl)


def _offered_store(spec: SessionsSpec) -> SessionStore:
    """Return the store of an installed package; each of several processes opens another one."""
    make: Callable[[SessionsSpec], SessionStore] | None = load_plugin("store", spec.store)
    if make is None:
        raise ConfigError(f'no installed package offers a session store "{spec.store}"')
    return make(spec)
