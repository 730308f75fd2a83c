"""Checks across keys: references to names that must exist, and settings that exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pointsman.capabilities import OnFailure, Strategy, parse_calibration, parse_capabilities
from pointsman.config._check_connections import (
    HASHED_BY,
    check_access,
    check_upstreams,
    http_address,
    refused,
)
from pointsman.config.applications import application_at, load_class, load_registry
from pointsman.config.convert import Problem
from pointsman.config.files import read
from pointsman.config.serving import key_digest
from pointsman.config.shapes import SESSION_STORES, Config
from pointsman.decision.aliases import CLIENT_ALIASES, REFUSE, Target, first_of_each, follow
from pointsman.domains import parse_domains
from pointsman.encoders import ENCODERS, is_encoder
from pointsman.errors import did_you_mean
from pointsman.guidance import ClassifierError, classes_of, tables_in
from pointsman.plugins import names
from pointsman.printable import without_credentials
from pointsman.tiers import (
    BUILTIN_KINDS,
    BUILTIN_PROFILES,
    asks_to_decide,
    forced_tier,
    load_profile,
    read_kinds,
    read_learned_router,
    read_projects,
)
from pointsman.toml_source import KeyPath
from pointsman.upstreams.port import ASKABLE_UPSTREAM, DEMO_URL
from pointsman.upstreams.proxies import is_loopback
from pointsman.vocabulary import Mode, Tier, WireFormat
from pointsman.wire import ASKABLE

#: What the client of store ``valkey`` understands.
_VALKEY: Final = frozenset({"redis", "rediss", "unix"})
_POSTGRES: Final = ("postgresql", "postgres")
#: Model ids the gateway gives a meaning of its own.
RESERVED: Final = frozenset({"auto", *(tier.lower() for tier in Tier)})


def check(file: Config, directory: Path) -> list[Problem]:
    """Return the problems of a file that only appear between keys."""
    return [
        *check_upstreams(file),
        *_models(file),
        *_tiers(file),
        *_aliases(file),
        *_profile(file.tiers.profile, directory),
        *_kinds(file.tiers.kinds, directory),
        *_guidance(file),
        *_capabilities(file, directory),
        *_server(file),
        *_ledger(file),
        *_sessions(file),
        *_plugins(file),
        *_shadow(file),
        *_agreement(file),
        *_telemetry(file),
    ]


def _asked_by_us(file: Config, path: KeyPath, model: str) -> Iterator[Problem]:
    """Check that a model which gets requests no caller sent does not need a caller's credential."""
    upstream = file.upstreams.get(file.models[model].upstream)
    if upstream and upstream.forward_auth:
        message = f'"{model}" cannot serve here: its upstream takes the credential of a caller (forward_auth)'
        yield Problem(path, message, "name a model whose upstream has an api_key")


def _models(file: Config) -> Iterator[Problem]:
    for name, model in file.models.items():
        if name.lower() in RESERVED or name.startswith("pointsman/"):
            yield Problem(("models", name), f'"{name}" cannot name a model: it asks for a tier')
        if model.upstream not in file.upstreams:
            yield Problem.unknown(("models", name, "upstream"), "upstream", model.upstream, file.upstreams)


def _tiers(file: Config) -> Iterator[Problem]:
    for tier in file.tiers.pools:
        yield from _pool(file, tier.lower())
    yield from _verify(file)
    escalation = file.tiers.escalation
    if escalation and escalation.mode is not Mode.OFF and file.guidance.mode is Mode.OFF:
        yield Problem(
            ("tiers", "escalation"),
            "escalation follows the agent's run, and guidance is off",
            'mode = "observe" under [guidance] follows it and adds nothing',
        )
    yield from _rising(("tiers", "boundaries"), file.tiers.boundaries)


def _aliases(file: Config) -> Iterator[Problem]:
    followed = first_of_each((*file.aliases.items(), *CLIENT_ALIASES))
    for pattern in file.aliases:
        path = ("aliases", pattern)
        if not pattern:
            yield Problem(path, "an alias has an empty pattern", 'a pattern that matches every name is "*"')
        elif asks_to_decide(pattern) or forced_tier(pattern):
            yield Problem(path, f'"{pattern}" cannot be an alias: it asks for a tier')
        elif pattern in file.models:
            yield Problem(path, f'"{pattern}" cannot be an alias: a model has this name, and comes first')
        else:
            yield from _target(path, *follow(pattern, followed, file.models), followed, file.models)


def _target(
    path: KeyPath, way: list[str], target: Target | None, aliases: Iterable[str], models: Iterable[str]
) -> Iterator[Problem]:
    """Check that an alias leads somewhere."""
    if target is not None:
        return
    if way[-1] in way[:-1]:
        circle = " -> ".join(f'"{name}"' for name in way)
        yield Problem(path, f"an alias leads in a circle: {circle}", 'name a tier, a model or "auto"')
    elif len(way) == 2:  # pattern and target; a longer way is told where its last alias stands
        tiers = (tier.lower() for tier in Tier)
        known = [str(Target()), *tiers, REFUSE, *models, *(name for name in aliases if name != way[0])]
        yield Problem.unknown(path, "target", way[-1], known)


def _pool(file: Config, key: str) -> Iterator[Problem]:
    """Check the models of one tier, at their places in the file."""
    served = getattr(file.tiers, key)
    entries = list(enumerate(served)) if isinstance(served, tuple) else [(None, served)]
    seen = set()
    for place, entry in entries:
        at: KeyPath = ("tiers", key) if place is None else ("tiers", key, place)
        name = entry if isinstance(entry, str) else entry.model
        if name not in file.models:
            path = at if isinstance(entry, str) else (*at, "model")
            yield Problem.unknown(path, "model", name, file.models)
        if name in seen:
            yield Problem(at, f'"{name}" stands twice among the models of one tier', "a model has one share")
        seen.add(name)


def _rising(path: KeyPath, bounds: tuple[float, float, float] | None) -> Iterator[Problem]:
    if bounds is None:
        return
    medium, complex_, reasoning = bounds
    if not medium <= complex_ <= reasoning:  # nor where one of them is no number
        yield Problem(path, "boundaries must not fall from one tier to the next")


def _verify(file: Config) -> Iterator[Problem]:
    verify = file.tiers.verify
    if verify is None:
        return
    path = ("tiers", "verify", "model")
    if not verify.model:
        yield Problem(
            ("tiers", "verify"), "no model to verify with: tier SIMPLE has none", 'verify = { model = "…" }'
        )
        return
    yield from _asked(file, path, verify.model)
    if verify.model not in file.models:
        return
    if verify.money_per_day is not None:
        yield from _priced(file, verify.model, ("tiers", "verify", "money_per_day"))


def _asked(file: Config, path: KeyPath, name: str) -> Iterator[Problem]:
    """Check a model that answers Pointsman's questions."""
    if name not in file.models:
        yield Problem.unknown(path, "model", name, file.models)
        return
    upstream = file.upstreams.get(file.models[name].upstream)
    if upstream and not upstream.formats & ASKABLE.keys():
        message = f'"{name}" cannot be asked: its upstream speaks neither chat nor messages'
        yield Problem(path, message, ASKABLE_UPSTREAM)
    yield from _asked_by_us(file, path, name)


def _priced(
    file: Config, name: str, path: KeyPath, so: str = "this budget cannot be kept"
) -> Iterator[Problem]:
    """Check that a model whose cost is counted has a price."""
    if (model := file.models.get(name)) and not model.is_priced:
        yield Problem(
            path,
            f'the price of "{name}" is unknown, so {so}',
            f"set input_per_million and output_per_million in [models.{name}]",
        )


def _kinds(name: str, directory: Path) -> Iterator[Problem]:
    path, file = ("tiers", "kinds"), directory / name
    if name in BUILTIN_KINDS:
        return
    if file.is_file():
        yield from refused(path, lambda: read_kinds(file.read_bytes(), name))
    else:
        yield Problem(path, f'no kinds "{name}"', '"default", "off", or a file by pointsman fit kinds')


def _profile(name: str, directory: Path) -> Iterator[Problem]:
    path = ("tiers", "profile")
    target = directory / name
    if name in BUILTIN_PROFILES:
        return
    if not target.is_file():
        near = did_you_mean(name, BUILTIN_PROFILES)
        built_in = ", ".join(BUILTIN_PROFILES)
        yield Problem(path, f'no tier profile "{name}"{near}', f"built in: {built_in}; or a TOML file")
        return
    yield from refused(path, lambda: load_profile(read(target), str(target)))


def _guidance(file: Config) -> Iterator[Problem]:
    """Check the providers' references: models to ask, and classes to load."""
    for place, spec in enumerate(file.guidance.providers):
        table: KeyPath = ("guidance", "providers", place)
        for path, classifier in tables_in(spec.classifier, ("classifier",)):
            if classifier.get("name") == "llm":
                yield from _asked(file, (*table, *path, "model"), classifier["model"])
        named = classes_of(spec)
        broken = [
            problem
            for path, entry_point in named
            for problem in refused((*table, *path), partial(load_class, entry_point))
        ]
        yield from broken
        if named and not broken:
            own = {entry_point: load_class(entry_point) for _, entry_point in named}
            try:
                spec.with_classes(own)
            except ClassifierError as error:
                yield Problem((*table, *error.path), error.message, error.hint)


#: Keys that name a file -> what reads it, and how it is made.
_READERS: Final[Mapping[KeyPath, tuple[Callable[[Path], object], str]]] = {
    ("tiers", "learned_router", "file"): (
        lambda named: read_learned_router(named.read_bytes(), str(named)),
        "make one: pointsman fit tiers",
    ),
    ("tiers", "projects", "file"): (
        lambda named: read_projects(named.read_bytes(), str(named)),
        "make one: pointsman fit projects",
    ),
    ("domains", "file"): (lambda named: parse_domains(read(named), place=str(named)), ""),
    ("capabilities", "file"): (lambda named: parse_capabilities(read(named), str(named)), ""),
    ("capabilities", "calibration"): (lambda named: parse_calibration(read(named), str(named)), ""),
}


def check_files(named: Mapping[KeyPath, Path]) -> Iterator[Problem]:
    """Yield the problems of the files and folders that keys name, also where a table has other problems."""
    for path, (parse, hint) in _READERS.items():
        file = named.get(path)
        if file is not None and file.is_file():
            yield from refused(path, partial(parse, file))
        elif file is not None:
            yield Problem(path, f"{file} does not exist", hint)
    profiles = named.get(("domains", "profiles"))
    if profiles is not None and not profiles.is_dir():
        yield Problem(("domains", "profiles"), f"{profiles} is not a directory")


def _capabilities(file: Config, directory: Path) -> Iterator[Problem]:
    spec = file.capabilities
    table: KeyPath = ("capabilities",)
    if spec.application and spec.file is not None:
        yield Problem((*table, "application"), "`file` names capabilities too", "keep one of them")
    elif spec.application:
        named_by = application_at(spec.application, directory)
        yield from refused((*table, "application"), partial(load_registry, named_by))
    if spec.model:
        yield from _asked(file, (*table, "model"), spec.model)
        if spec.money_per_day is not None and spec.model in file.models:
            yield from _priced(file, spec.model, (*table, "money_per_day"))
    elif spec.strategy is not Strategy.LOCAL:
        yield Problem(
            (*table, "strategy"), f'strategy "{spec.strategy}" asks a model, and none is named', 'model = "…"'
        )
    if spec.fallback and spec.on_failure is not OnFailure.LIST:
        yield Problem(
            (*table, "fallback"), "`fallback` counts only with another policy", 'on_failure = "list"'
        )


def _server(file: Config) -> Iterator[Problem]:
    server = file.server
    if not is_loopback(server.host) and not (server.written_keys or file.keys):
        yield Problem(
            ("server", "host"),
            f'"{server.host}" can be reached by others, and [server] has no keys',
            'keys = ["${POINTSMAN_KEY}"]',
        )
    if server.passthrough is not None and server.passthrough not in file.upstreams:
        yield Problem.unknown(("server", "passthrough"), "upstream", server.passthrough, file.upstreams)
    try:
        listed = [key_digest(key) for key in server.written_keys]
    except ValueError as error:
        yield Problem(("server", "keys"), str(error), HASHED_BY)
        return
    yield from check_access(file, listed)


def _parts(url: str) -> SplitResult:
    """The parts of an address; all empty if it is none. PostgreSQL's may name several hosts."""
    try:
        parts = urlsplit(url)
        ports = [urlsplit(f"//{host}").port for host in parts.netloc.rpartition("@")[2].split(",")]
    except ValueError:  # a port that is no number may be half of a password
        return urlsplit("")
    return urlsplit("") if 0 in ports else parts


def _ledger(file: Config) -> Iterator[Problem]:
    if file.ledger.path.is_dir():
        yield Problem(("ledger", "path"), f"{file.ledger.path} is a folder", 'path = "…/ledger.sqlite"')
    url = file.ledger.url
    if url is not None and file.ledger.jsonl is not None:
        yield Problem(("ledger", "jsonl"), "[ledger] has url and jsonl: decisions are kept in one place")
    if url is None:
        return
    parts = _parts(url)
    if parts.scheme not in _POSTGRES:  # not shown: it may hold a password
        yield Problem(
            ("ledger", "url"), "this is not a PostgreSQL URL", 'url = "postgresql://user@host:5432/name"'
        )
    elif parts.password or "password=" in parts.query:
        yield Problem(
            ("ledger", "url"), "the address must not carry a password", 'password = "${PGPASSWORD}"'
        )


def _sessions(file: Config) -> Iterator[Problem]:
    sessions = file.sessions
    if sessions.store != "valkey" and file.access.store != "valkey":
        return
    table = "sessions" if sessions.store == "valkey" else "access"
    parts = _parts(sessions.url or "")
    if sessions.url is None:
        address = 'url = "redis://127.0.0.1:6379/0"'
        yield Problem(
            (table, "store"),
            'store "valkey" needs its address',
            address if table == "sessions" else f"{address} under [sessions]",
        )
    elif parts.scheme not in _VALKEY:
        yield Problem(
            ("sessions", "url"),
            f'"{without_credentials(sessions.url)}" is no address of Valkey',
            'as in "redis://host:6379/0"',
        )
    elif parts.password:
        yield Problem(("sessions", "url"), "the address must not carry a password", 'password = "${NAME}"')


def _shadow(file: Config) -> Iterator[Problem]:
    model = file.shadow.model
    if model is not None and model not in file.models:
        yield Problem.unknown(("shadow", "model"), "model", model, file.models)
    elif model is not None:
        yield from _asked_by_us(file, ("shadow", "model"), model)
    if model is not None and file.shadow.money_per_day is not None:
        yield from _priced(file, model, ("shadow", "money_per_day"))


def _agreement(file: Config) -> Iterator[Problem]:
    for name, policy in file.agreement.items():
        table: KeyPath = ("agreement", name)
        places = [((*table, "cheap"), model) for model in policy.cheap]
        places += [((*table, "strong"), policy.strong)] if policy.strong is not None else []
        missing = [(path, model) for path, model in places if model not in file.models]
        yield from (Problem.unknown(path, "model", model, file.models) for path, model in missing)
        if missing:
            continue
        if len({model for _, model in places}) < len(places):
            yield Problem((*table, "cheap"), "the models must differ: a model always agrees with itself")
            continue
        for path, model in places:
            yield from _asked_by_us(file, path, model)
            yield from _priced(file, model, path, "nobody could tell what agreement saves")
        yield from _comparable(file, table, [model for _, model in places])


def _comparable(file: Config, table: KeyPath, models: Sequence[str]) -> Iterator[Problem]:
    """Check that models can answer the same requests: in one format at least, and with tools or without."""
    path: KeyPath = (*table, "cheap")
    found = [(file.models[model], file.upstreams.get(file.models[model].upstream)) for model in models]
    spoken = [frozenset(WireFormat) if up is None or up.translate else up.formats for _, up in found]
    if not frozenset.intersection(*spoken):
        named = ", ".join(f'"{model}"' for model in models)
        yield Problem(path, f"{named} have no format in common", "translate = true in [upstreams.NAME]")
    for feature in ("tools", "structured"):
        able = [model.features is None or feature in model.features for model, _ in found]
        if any(able) and not all(able):
            lacking = models[able.index(False)]
            message = f'"{lacking}" has no {feature}, so nothing agrees on requests that need them'
            yield Problem(path, message, f"name a model that has {feature}")


def _telemetry(file: Config) -> Iterator[Problem]:
    endpoint = file.telemetry.endpoint
    if endpoint is not None and (endpoint == DEMO_URL or http_address(endpoint) is None):
        hint = 'the base URL of a collector: "http://localhost:4318"'
        yield Problem(("telemetry", "endpoint"), "not an address of OTLP over HTTP", hint)


def _plugins(file: Config) -> Iterator[Problem]:
    """Check the names that an installed package may offer: encoders and session stores."""
    named = (
        (("domains", "examples"), "encoder", file.domains.examples),
        (("capabilities", "encoder"), "encoder", file.capabilities.encoder),
    )
    for path, kind, name in named:
        if not is_encoder(name):
            yield Problem.unknown(path, kind, name, ["none", *ENCODERS, *names("encoder")])
    store = file.sessions.store
    if store not in SESSION_STORES and store not in (offered := names("store")):
        yield Problem.unknown(("sessions", "store"), "session store", store, [*SESSION_STORES, *offered])
