"""Checks of upstreams: address, proxy, certificates, headers, and the credential that is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import SplitResult, urlsplit

from pointsman import catalogue, plugins
from pointsman.config.convert import Problem
from pointsman.config.shapes import File
from pointsman.errors import ConfigError
from pointsman.toml_source import KeyPath
from pointsman.upstreams.port import DEMO_URL, UpstreamSpec
from pointsman.upstreams.proxies import parse_proxy, trust
from pointsman.upstreams.relayed_headers import RESERVED_MEMBERS, header_problems, name_problems


def check_upstreams(file: File) -> Iterator[Problem]:
    """Yield the problems of the tables of upstreams."""
    for name, upstream in file.upstreams.items():
        path = ("upstreams", name, "base_url")
        if upstream.base_url == DEMO_URL or _is_plugin(upstream.base_url):
            continue
        url = http_address(upstream.base_url)
        if url is None:
            yield Problem(
                path, f'"{upstream.base_url}" is not an http or https address', 'as in "https://host/v1"'
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
