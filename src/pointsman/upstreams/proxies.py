"""The HTTP proxy of an upstream: configured, from the environment, or none."""

from __future__ import annotations

import ipaddress
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from pointsman.errors import ConfigError
from pointsman.upstreams.port import Secret, UpstreamSpec

if TYPE_CHECKING:
    import ssl

__all__ = ["Proxy", "is_loopback", "parse_proxy", "proxy_of", "trust"]

PORTS: Final = {"http": 80, "https": 443}
_HINT: Final = 'as in "http://proxy.example.com:3128"'


class Proxy(NamedTuple):
    """An HTTP proxy."""

    host: str
    port: int
    tls: bool  # the connection to the proxy itself
    authorization: Secret | None  # value of the header proxy-authorization

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def proxy_of(spec: UpstreamSpec, env: Mapping[str, str] = os.environ) -> Proxy | None:
    """Return the proxy of an upstream; None when it is reached directly.

    The upstream's setting comes first; an empty one means none. Then the environment, lower case before upper
    case: ``https_proxy`` or ``http_proxy`` by the scheme of the upstream's address, then ``all_proxy``. What
    ``no_proxy`` lists, and this machine, are reached directly.

    Raises:
        ConfigError: the address of the proxy is none; the message names the setting, never its value.
    """
    if spec.proxy is not None:
        address = spec.proxy.reveal()
        return parse_proxy(address, f'upstream "{spec.name}": proxy') if address else None
    url = urlsplit(spec.base_url)
    if is_loopback(url.hostname or "") or _is_excepted(url, _variable(env, "no_proxy")[1]):
        return None
    for name in (f"{url.scheme}_proxy", "all_proxy"):
        variable, address = _variable(env, name)
        if address:
            return parse_proxy(address, f"environment variable {variable}")
    return None


def parse_proxy(address: str, where: str) -> Proxy:
    """Return the parts of a proxy's address; without a scheme it is one of ``http``.

    Args:
        address: ``http://user:password@host:port``; user and password percent-encoded.
        where: What to call the setting in an error.

    Raises:
        ConfigError: it is no address, or the scheme is not supported.
    """
    try:
        url = urlsplit(address if "://" in address else f"http://{address}")
        host, port = url.hostname, url.port
    except ValueError:  # a port beyond 65,535, half a bracket
        host, port = None, None
    if not host or port == 0:
        raise ConfigError(f"{where} is not a proxy address", hint=_HINT)
    if url.scheme not in PORTS:
        raise ConfigError(f'{where}: proxies of the scheme "{url.scheme}" are not supported', hint=_HINT)
    return Proxy(host, port or PORTS[url.scheme], url.scheme == "https", _authorization(url))


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, whatever networks it is in."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _authorization(url: SplitResult) -> Secret | None:
    """Return basic authentication (RFC 7617)."""
    if not url.username:
        return None
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return Secret("Basic " + b64encode(pair.encode()).decode())


def _variable(env: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the name and the value of an environment variable that is written in either case."""
    return next(((each, env[each]) for each in (name, name.upper()) if env.get(each)), (name, ""))


def _is_excepted(url: SplitResult, no_proxy: str) -> bool:
    """Tell whether ``no_proxy`` lists an address: ``*``, a domain, an IP address, a network."""
    host = (url.hostname or "").rstrip(".")
    port = url.port or PORTS.get(url.scheme)
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        pass  # one of the two is a name, or has a port
    name, colon, of_port = entry.rpartition(":")
    if colon and of_port.isdecimal():
        if int(of_port) != port:
            return False
        entry = name.strip("[]")
    domain = entry.removeprefix("*").lstrip(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


# Certificate authorities that an upstream's certificate is verified against.


def trust(spec: UpstreamSpec) -> ssl.SSLContext:
    """Return the authorities for an upstream's certificate: its CA file, else the system's authorities.

    OpenSSL's own variables, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, name the system's.

    Raises:
        ConfigError: the CA file cannot be read, or holds no certificate.
    """
    import ssl  # a command that reads a configuration needs it only for a CA file

    try:
        return ssl.create_default_context(cafile=spec.ca_file)
    except ssl.SSLError:  # a kind of OSError
        why = "holds no certificate in PEM"
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    raise ConfigError(f'upstream "{spec.name}": ca_file {spec.ca_file} {why}')
