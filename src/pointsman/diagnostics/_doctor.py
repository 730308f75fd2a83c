"""The doctor, which checks configuration, engine, stores and upstreams; and the ``/router`` command."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

from pointsman.config import Config, examine, find
from pointsman.config.edit import changing, set_value, write_file
from pointsman.config.files import check_trust, read
from pointsman.decoding import parse_toml, syntax_error
from pointsman.diagnostics.clients import (
    Verdict,
    describe_aliases,
    describe_taken_ids,
    describe_verdict,
    judge_clients,
    list_aliases,
    taken_ids,
)
from pointsman.diagnostics.explained import price_hint, unpriced
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable, did_you_mean
from pointsman.evidence import engine_names
from pointsman.factory import build_engine, build_policy, open_ledger, open_sessions
from pointsman.model_choice.chains import shortfalls
from pointsman.plugins import Plugin, installed
from pointsman.plugins import load as load_plugin
from pointsman.stores.ledger import QueuedLedger, SqliteLedger
from pointsman.upstreams.port import DEMO_URL, KEY_REFUSED, Secret, UpstreamSpec
from pointsman.upstreams.proxies import Proxy, proxy_of, trust
from pointsman.upstreams.relayed_headers import credentials
from pointsman.vocabulary import ModelSpec, Tier
from pointsman.wire import FORMATS

if TYPE_CHECKING:
    from http.client import HTTPConnection


# How an extra is installed: a checkout and a released package need different commands.


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    An editable checkout is installed from its directory: the package index may hold another version, or none.
    """
    checkout = _checkout()
    if checkout is None:
        return f"{_pip()} install 'pointsman[{extra}]'"
    place = "." if checkout == Path.cwd() else str(checkout)
    return f"{_pip()} install -e '{place}[{extra}]'"


def _checkout() -> Path | None:
    """The directory of an editable installation, which PEP 610 records; None for any other."""
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms, for what rarely happens

    try:
        origin = json.loads(distribution("pointsman").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin.get("url", "")).path))


def _pip() -> str:
    """Name the pip of this Python: in a virtual environment that is not activated, ``pip`` is another one."""
    active = os.environ.get("VIRTUAL_ENV")
    is_apart = sys.prefix != sys.base_prefix and (not active or Path(active) != Path(sys.prefix))
    if find_spec("pip") is None:  # made by uv
        return f"uv pip --python {sys.executable}" if is_apart else "uv pip"
    return f"{sys.executable} -m pip" if is_apart else "pip"


#: Seconds an upstream has to answer; the time a connection across an ocean takes, ten times over.
PATIENCE: Final = 5.0

#: Is sent to see whether an upstream looks at keys.
_WRONG_KEY: Final = "pointsman-doctor-is-not-a-key"


class Check(NamedTuple):
    """One thing looked at."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    is_advice: bool = False  # not ok, and yet as the configuration wants it: no failure of the installation


def diagnose(file: Path | None, *, ask_upstreams: bool = True) -> Iterator[Check]:
    """Look at an installation, one check after the other; with a wrong file the rest cannot be looked at.

    Args:
        file: the configuration; None looks for it where ``serve`` does.
        ask_upstreams: whether to ask each upstream for its list of models: with its key, and if that
            is not refused once with a wrong one, to see whether the upstream looks at keys at all.
    """
    file = file or find()
    if file is None:
        yield Check(
            "configuration", ok=False, detail="there is no pointsman.toml", hint="pointsman config init"
        )
        return
    loaded = examine(file)
    for error in loaded.errors:
        yield Check("configuration", ok=False, detail=error.message, hint=error.hint)
    if loaded.config is None:
        return
    yield Check("configuration", ok=True, detail=str(file))
    yield _gateway()
    yield from map(_plugin, installed())
    yield _tried("engine", _engine, loaded.config)
    yield _ledger(loaded.config)
    yield _sessions(loaded.config)
    yield _prices(loaded.config)
    yield from map(_shortfall, shortfalls(loaded.config.tiers.pools, loaded.config.models))
    yield from map(_client, judge_clients(loaded.config))
    for upstream in loaded.config.upstreams.values() if ask_upstreams else ():
        yield _upstream(upstream)


def _shortfall(detail: str) -> Check:
    hint = "a model that can serve it in this tier: a tier takes a list"
    return Check("tiers", ok=False, detail=detail, hint=hint, is_advice=True)


def _client(verdict: Verdict) -> Check:
    well = verdict.fits and not verdict.warning
    name, detail = f"client {verdict.client.name}", describe_verdict(verdict)
    return Check(name, ok=well, detail=detail, hint=verdict.hint, is_advice=not well)


def _prices(config: Config) -> Check:
    unknown = unpriced(config.models.values())
    if not unknown:
        return Check("prices", ok=True, detail=f"{len(config.models)} models have a price")
    return Check(
        "prices",
        ok=False,
        detail=f"unknown: {', '.join(unknown)}; reports leave their requests out",
        hint=price_hint(config),
        is_advice=True,
    )


def _gateway() -> Check:
    missing = [
        name for name in ("uvicorn", "starlette", "httptools", "prometheus_client") if find_spec(name) is None
    ]
    if missing:
        detail = f"not installed: {', '.join(missing)}"
        return Check("gateway", ok=False, detail=detail, hint=install_command("gateway"))
    return Check("gateway", ok=True, detail="installed")


def _plugin(plugin: Plugin) -> Check:
    name, detail = f"plug-in {plugin.kind} {plugin.name}", f"{plugin.value}, {plugin.package}"
    try:
        load_plugin(plugin.kind, plugin.name)
    except ConfigError as error:
        return Check(name, ok=False, detail=error.message, hint=error.hint or f"uninstall {plugin.package}")
    return Check(name, ok=True, detail=detail)


def _tried(name: str, look: Callable[[Config], str], config: Config) -> Check:
    """Check one part: its state, or the error."""
    try:
        return Check(name, ok=True, detail=look(config))
    except PointsmanError as error:
        return Check(name, ok=False, detail=error.message, hint=error.hint)


def _engine(config: Config) -> str:
    engine = build_engine(build_policy(config))
    return f"{engine_names()[0]}, {len(engine.scanner.table)} signals"


def _ledger(config: Config) -> Check:
    if config.ledger.url is not None:
        return _tried("ledger", _entries, config)
    if config.ledger.is_output:
        return Check("ledger", ok=True, detail="JSON lines to standard output")
    path = config.ledger.jsonl or config.ledger.path
    if not path.exists():
        return _can_be_made("ledger", path)
    if not os.access(path, os.W_OK):
        return Check("ledger", ok=False, detail=f"{path} cannot be written")
    if config.ledger.jsonl:
        return Check("ledger", ok=True, detail=f"JSON lines in {path}")
    return _tried("ledger", _entries, config)


def _entries(config: Config) -> str:
    """Say whether a ledger is in use."""
    spec = config.ledger
    with closing(SqliteLedger(spec.path) if spec.url is None else open_ledger(spec)) as ledger:
        if spec.url is not None and isinstance(ledger, QueuedLedger):
            ledger.check()
        newest = next(ledger.decisions(limit=1), None)
    return f"{spec.place}, {'in use' if newest else 'empty'}"


def _sessions(config: Config) -> Check:
    spec = config.sessions
    if spec.store == "memory":
        return Check("sessions", ok=True, detail="in the memory of the gateway")
    if spec.store == "sqlite" and not spec.path.exists():
        return _can_be_made("sessions", spec.path)
    return _tried("sessions", _kept_sessions, config)


def _kept_sessions(config: Config) -> str:
    """Count the stored sessions.

    Raises:
        StoreUnavailable: it has a fault.
    """
    with closing(open_sessions(config.sessions)) as store:
        count = sum(1 for _ in store.sessions())
        if store.fault:
            raise StoreUnavailable(store.fault)
    return f"{config.sessions.store}, {count} kept"


def _can_be_made(name: str, path: Path) -> Check:
    there = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(there, os.W_OK | os.X_OK):
        return Check(name, ok=True, detail=f"{path} will be made")
    return Check(name, ok=False, detail=f"{path} cannot be made: no right to write in {there}")


def _upstream(spec: UpstreamSpec) -> Check:
    name = f"upstream {spec.name}"
    if spec.base_url == DEMO_URL:
        return Check(name, ok=True, detail="built in")
    if not spec.base_url.startswith(("http:", "https:")):
        return Check(name, ok=True, detail=f"a plug-in serves {spec.base_url}: not asked")
    from http.client import HTTPException

    try:
        proxy = proxy_of(spec)
        if proxy and proxy.tls and spec.base_url.startswith("https:"):  # http.client has no TLS inside TLS
            return Check(name, ok=True, detail=f"not asked: the proxy {proxy} is reached over TLS")
        status = _status(spec)
    except ConfigError as error:
        return Check(name, ok=False, detail=error.message, hint=error.hint)
    except (OSError, HTTPException) as error:
        via = f" through the proxy {proxy}" if proxy else ""
        detail = f"{spec.base_url} cannot be reached{via}: {str(error) or type(error).__name__}"
        return Check(name, ok=False, detail=detail, hint="is the address right, and reachable from here?")
    if status in KEY_REFUSED and not spec.forward_auth:
        return Check(name, ok=False, detail=f"refuses the key (status {status})")
    # Not every provider lists its models: any other answer shows that it is there.
    detail = f"answers (status {status})"
    if spec.api_key is None or status >= 500:
        return Check(name, ok=status < 500, detail=detail)
    if status < 300 and _asks_for_key(spec):
        return Check(name, ok=True, detail=f"{detail}, accepts the key")
    hint = "pointsman router doctor --live sends requests with it"
    return Check(name, ok=False, detail=f"{detail}; the key is not tested", hint=hint, is_advice=True)


def _asks_for_key(spec: UpstreamSpec) -> bool:
    """Whether the list of models is refused to a wrong key. Some providers give it to everybody."""
    from http.client import HTTPException

    try:
        return _status(msgspec.structs.replace(spec, api_key=Secret(_WRONG_KEY))) in KEY_REFUSED
    except (OSError, HTTPException, ConfigError):
        return False


def _status(spec: UpstreamSpec) -> int:
    """Ask for the list of models. Follows no redirect: the key is sent to the configured address alone."""
    url = urlsplit(spec.base_url)
    wire = next(wire for wire in FORMATS if wire in spec.formats)
    proof = {name.decode(): value.decode() for name, value in credentials(spec, wire)}
    own = {name.lower(): value.reveal() for name, value in spec.headers.items()}
    headers = {"anthropic-version": "2023-06-01", **proof, **own}
    query = urlencode({name: value.reveal() for name, value in spec.query.items()})
    target = f"{url.path.rstrip('/')}/models" + (f"?{query}" if query else "")
    connection, proxy = _connection(spec), proxy_of(spec)
    if proxy and url.scheme == "http":
        target = f"http://{url.netloc}{target}"
        headers |= _authorization(proxy)
    with closing(connection):
        connection.request("GET", target, headers=headers)
        return int(connection.getresponse().status)


def _connection(spec: UpstreamSpec) -> HTTPConnection:
    """Return a connection to an upstream, through its proxy if it has one.

    Raises:
        ConfigError: the address of the proxy, or the CA file, cannot be used.
    """
    from http.client import HTTPConnection, HTTPSConnection

    url, proxy = urlsplit(spec.base_url), proxy_of(spec)
    host, port = (proxy.host, proxy.port) if proxy else (url.hostname or "", url.port)
    if url.scheme == "http":
        return (HTTPSConnection if proxy and proxy.tls else HTTPConnection)(host, port, timeout=PATIENCE)
    connection = HTTPSConnection(host, port, timeout=PATIENCE, context=trust(spec))
    if proxy:
        connection.set_tunnel(url.hostname or "", url.port or 443, headers=_authorization(proxy))
    return connection


def _authorization(proxy: Proxy) -> dict[str, str]:
    return {"proxy-authorization": proxy.authorization.reveal()} if proxy.authorization else {}


# The ``/router`` command: show, ``classifier MODEL``, doctor; on the terminal and in band.
#
# Source: docs/sources/prompt-classifier.md, "Configuration".


USAGE = "/router [show] | /router classifier MODEL | /router doctor"

_VERIFY = ("tiers", "verify", "model")


def describe_routing(config: Config) -> str:
    """Return which model serves which tier, how the tier is decided, and what other names mean."""
    tiers = config.tiers
    lines = [f"profile {tiers.profile}, from {config.source or 'no file'}"]
    for tier in Tier:
        lines += _tier(config, tier)
    if verify := tiers.verify:
        money = "" if verify.money_per_day is None else f", {verify.money_per_day:g} a day"
        margin = "the profile's margin" if verify.margin is None else f"margin {verify.margin:g}"
        lines.append(
            f"classifier {verify.model}: {margin}, "
            f"at most {verify.share:.0%} of requests{money}, {verify.timeout_ms} ms"
        )
    else:
        lines.append("classifier none: the rules decide alone")
    selecting = config.capabilities.effective_mode
    lines.append(f"guidance {config.guidance.mode}, domains {config.domains.mode}, capabilities {selecting}")
    lines.extend(describe_aliases(list_aliases(config)))
    lines.extend(describe_taken_ids(taken_ids(config)))
    return "\n".join(lines)


def choose_classifier(file: Path, wanted: str) -> str:
    """Make another model the one that is asked when the rules are unsure; returns its configured name.

    Args:
        file: the configuration; comments and everything else in it stay as they are.
        wanted: a configured name, or the id of a configured model.

    Raises:
        ConfigError: no such model is configured, it cannot be asked, or the file cannot be changed.
    """
    with changing(file):
        text = read(file)
        check_trust(file, text)
        name = _configured(_models(text, file), wanted)
        edited = set_value(text, _VERIFY, json.dumps(name))
        before = {_without_place(error) for error in examine(file, text=text).errors}
        for error in examine(file, text=edited).errors:
            if _without_place(error) not in before:
                raise error
        write_file(file, edited)
    return name


def describe_check(check: Check) -> str:
    """Return a check as one line, and its way out as another."""
    mark = "ok  " if check.ok else "note" if check.is_advice else "FAIL"
    line = f"{mark} {check.name}: {check.detail}"
    return f"{line}\n     hint: {check.hint}" if check.hint else line


def answer_in_band(text: str, config: Config, file: Path | None) -> str:
    """Answer what follows ``/router`` in a message. Upstreams are not asked: the caller waits for this.

    Raises:
        ConfigError: as ``choose_classifier``.
    """
    match text.split():
        case [] | ["show"]:
            return describe_routing(config)
        case ["classifier", wanted] if file is not None:
            return f'classifier is now "{choose_classifier(file, wanted)}"'
        case ["doctor"]:
            return "\n".join(describe_check(check) for check in diagnose(file, ask_upstreams=False))
        case _:
            return USAGE


def _tier(config: Config, tier: Tier) -> Iterator[str]:
    """A line for each model of a tier."""
    pool = config.tiers.pools.get(tier, ())
    if not pool:
        yield f"  {tier:<9}  -"
    for place, entry in enumerate(pool):
        model = config.models[entry.model]
        share = f", weight {entry.weight:g}" if entry.weight is not None else ""
        given = f", {entry.parameters}" if entry.parameters else ""
        line = f"{model.name}: {model.id} at {model.upstream}, {_prices_of(model)}{share}{given}"
        yield f"  {'' if place else tier:<9}  {line}"


def _prices_of(model: ModelSpec) -> str:
    if model.input_per_million is None or model.output_per_million is None:
        return "price unknown"
    return f"{model.input_per_million:g} in, {model.output_per_million:g} out"


def _models(text: str, file: Path) -> Mapping[str, Any]:
    try:
        models = parse_toml(text).get("models")
    except tomllib.TOMLDecodeError as error:
        message, line = syntax_error(error, text)
        raise ConfigError(message, place=f"{file}:{line}") from None
    return models if isinstance(models, dict) else {}


def _configured(models: Mapping[str, Any], wanted: str) -> str:
    ids = {model.get("id"): name for name, model in models.items() if isinstance(model, dict)}
    if name := wanted if wanted in models else ids.get(wanted):
        return name
    near = did_you_mean(wanted, [*models, *filter(None, ids)])
    raise ConfigError(f'unknown model "{wanted}"{near}', hint=f"configured: {', '.join(models) or 'none'}")


def _without_place(error: ConfigError) -> str:
    return str(error).removeprefix(error.place)
