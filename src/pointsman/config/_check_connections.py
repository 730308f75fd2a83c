"""Checks of connections: upstreams on one side, the keys and teams of callers on the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from pointsman import catalogue, plugins
from pointsman.config.convert import Problem
from pointsman.config.serving import HASH, KEY_NAME, MOST_KEYS, KeySpec, TeamSpec
from pointsman.config.shapes import Config
from pointsman.decision.aliases import matches
from pointsman.errors import ConfigError, did_you_mean
from pointsman.printable import without_credentials
from pointsman.toml_source import KeyPath
from pointsman.upstreams.port import DEMO_URL, UpstreamSpec
from pointsman.upstreams.proxies import parse_proxy, trust
from pointsman.upstreams.relayed_headers import RESERVED_MEMBERS, header_problems, name_problems


def check_upstreams(file: Config) -> Iterator[Problem]:
    """Yield the problems of the tables of upstreams."""
    for name, upstream in file.upstreams.items():
        path = ("upstreams", name, "base_url")
        if upstream.base_url == DEMO_URL or _is_plugin(upstream.base_url):
            continue
        url = http_address(upstream.base_url)
        if url is None:
            yield Problem(
                path,
                f'"{without_credentials(upstream.base_url)}" is not an http or https address',
                'as in "https://host/v1"',
            )
        elif url.username or url.password or url.query or url.fragment:
            yield Problem(
                path, "the address must not carry a user, a query or a fragment", "keys go into `api_key`"
            )
        if not upstream.formats:
            yield Problem(("upstreams", name, "formats"), f'upstream "{name}" speaks no format')
        yield from _connection(name, upstream)
        if upstream.provider:
            yield from _provider(name, upstream.provider)
        yield from _own_fields(name, upstream)
        yield from _forwarded(name, upstream)


def _is_plugin(base_url: str) -> bool:
    """Whether an installed package offers the client for the scheme of an upstream's address."""
    scheme, separator, _ = base_url.partition(":")
    return bool(separator) and scheme not in {"http", "https"} and scheme in plugins.names("upstream")


def _provider(name: str, provider: str) -> Iterator[Problem]:
    known = {entry.provider for each in catalogue.installed() for entry in each.entries} - {catalogue.ANY}
    if provider not in known:
        yield Problem.unknown(("upstreams", name, "provider"), "provider", provider, sorted(known))


def _connection(name: str, upstream: UpstreamSpec) -> Iterator[Problem]:
    """Check how an upstream is reached: its proxy, and its certificate authorities."""
    if upstream.proxy and (address := upstream.proxy.reveal()):
        yield from refused(("upstreams", name, "proxy"), lambda: parse_proxy(address, "proxy"))
    if upstream.ca_file:
        yield from refused(("upstreams", name, "ca_file"), lambda: trust(upstream))


def _own_fields(name: str, upstream: UpstreamSpec) -> Iterator[Problem]:
    """Check the headers, query parameters and body members that are set on every request."""
    values = {header: value.reveal() for header, value in upstream.headers.items()}
    for header, message in header_problems(values):
        yield Problem(("upstreams", name, "headers", header), message)
    for key, names in (("pass_headers", upstream.pass_headers), ("return_headers", upstream.return_headers)):
        for place, message in name_problems(names):
            yield Problem(("upstreams", name, key, place), message)
    if "" in upstream.query:
        yield Problem(("upstreams", name, "query"), "a query parameter has no name")
    for member in sorted(upstream.body.keys() & RESERVED_MEMBERS):
        message = f'"{member}" in the body of a request is not for a setting to replace'
        yield Problem(("upstreams", name, "body", member), message)


def _forwarded(name: str, upstream: UpstreamSpec) -> Iterator[Problem]:
    """Check that an upstream which takes the caller's credential has no key configured."""
    if not upstream.forward_auth:
        return
    path: KeyPath = ("upstreams", name, "forward_auth")
    if upstream.api_key:
        yield Problem(path, "the caller's credential is sent instead of `api_key`: set one of the two")
    for header in upstream.headers:
        if header.lower() in {"authorization", "x-api-key"}:
            path = ("upstreams", name, "headers", header)
            yield Problem(path, f'"{header}" would replace the credential that forward_auth sends')


def http_address(text: str) -> SplitResult | None:
    """Return the parts of an HTTP address; None when it is none, or it cannot be connected to."""
    try:
        url = urlsplit(text)
        url.netloc.encode("idna")
        usable = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:  # a port beyond 65,535, half a bracket, a name that is none
        return None
    return url if usable else None


def refused(path: KeyPath, read: Callable[[], object]) -> Iterator[Problem]:
    """Report an error of another part of the program about a key's target."""
    try:
        read()
    except ConfigError as error:
        yield Problem(path, error.message, error.hint)
    except (OSError, UnicodeError) as error:
        yield Problem(path, f"cannot read it: {error}")


# Checks of keys and teams: names, hashes, references, and limits that contradict each other.


#: How an operator makes the hash of a key.
HASHED_BY: Final = "printf %s KEY | sha256sum, or pointsman keys new NAME"
_NAME: Final = re.compile(KEY_NAME)
_WHAT: Final = {"keys": "a key", "teams": "a team"}


def check_access(file: Config, listed: Iterable[bytes]) -> Iterator[Problem]:
    """Yield the problems of the tables of keys and teams.

    Args:
        file: The configuration.
        listed: Digests of the keys under [server].
    """
    for table, entries in (("keys", file.keys), ("teams", file.teams)):
        if len(entries) > MOST_KEYS:
            yield Problem((table,), f"[{table}] has {len(entries)} entries; {MOST_KEYS} is the most")
        for name, entry in entries.items():
            if not _NAME.fullmatch(name):
                message = f'"{name}" cannot name {_WHAT[table]}'
                yield Problem((table, name), message, "letters, digits, '.', '_' and '-', at most 64")
            yield from _limits(file, (table, name), entry)
            yield from _vouched(file, (table, name), entry)
    yield from _hashes(file, listed)
    for name, key in file.keys.items():
        if key.team and key.team not in file.teams:
            yield Problem.unknown(("keys", name, "team"), "team", key.team, file.teams)
        if key.role == "caller" and name in file.console.callers:
            message = f'[console] callers names "{name}", whose role is "caller"'
            yield Problem(("keys", name, "role"), message, 'role = "viewer" or "admin"')


def _limits(file: Config, path: KeyPath, entry: KeySpec | TeamSpec) -> Iterator[Problem]:
    for place, pattern in enumerate(entry.models):
        if not any(matches(pattern, model) for model in file.models):
            near = did_you_mean(pattern, file.models)
            there_are = f"there are: {', '.join(file.models) or 'none'}"
            message = f'"{pattern}" is no configured model{near}'
            yield Problem((*path, "models", place), message, "" if near else there_are)
    if entry.when_low == "lower_tier" and entry.budget is None:
        hint = 'budget = { money = 10, per = "day" }'
        yield Problem((*path, "when_low"), "there is no budget that could be low", hint)


def _vouched(file: Config, path: KeyPath, entry: KeySpec | TeamSpec) -> Iterator[Problem]:
    """A budget is for a store that outlives the process."""
    if entry.budget is not None and file.access.store == "memory":
        message = 'no store can vouch for this budget: [access] store = "memory" begins at 0 with each start'
        yield Problem((*path, "budget"), message, '[access] store = "sqlite" keeps what is spent in a file')


def _hashes(file: Config, listed: Iterable[bytes]) -> Iterator[Problem]:
    """A key has one name."""
    known = dict.fromkeys(listed, "[server]")
    for name, key in file.keys.items():
        places: list[tuple[KeyPath, str]] = [(("keys", name, "sha256"), key.sha256)]
        places += [(("keys", name, "more_sha256", i), each) for i, each in enumerate(key.more_sha256)]
        for path, digits in places:
            if not HASH.fullmatch(digits):  # not shown: it may be the key itself
                yield Problem(path, "a SHA-256 hash has 64 hexadecimals", HASHED_BY)
                continue
            digest = bytes.fromhex(digits)
            if digest in known:
                yield Problem(path, f"this key is that of {known[digest]} too")
            known[digest] = f"[keys.{name}]"
