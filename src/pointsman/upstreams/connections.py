"""The clients of all upstreams of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pointsman.errors import ConfigError, MissingExtra
from pointsman.plugins import load
from pointsman.upstreams.demo import DemoClient
from pointsman.upstreams.port import DEMO_URL, UpstreamClient, UpstreamSpec
from pointsman.upstreams.relayed_headers import with_own_fields

__all__ = ["Connections"]


class Connections:
    """One client for each upstream, shared by callers' requests and Pointsman's questions."""

    def __init__(self, clients: Mapping[UpstreamSpec, UpstreamClient] | None = None) -> None:
        self._clients = dict(clients or {})

    def __call__(self, spec: UpstreamSpec) -> UpstreamClient:
        """Return the client of an upstream.

        Raises:
            MissingExtra: httptools, of the extra ``gateway``, is not installed: deciding alone needs none.
            ConfigError: no installed package offers a client for the scheme of its address.
        """
        client = self._clients.get(spec)
        if client is None:
            plain = DemoClient() if spec.base_url == DEMO_URL else _client(spec)
            client = self._clients[spec] = with_own_fields(spec, plain)
        return client

    def carried_over(self, specs: Iterable[UpstreamSpec]) -> Connections:
        """Return the connections of another configuration: clients of unchanged upstreams are reused."""
        return Connections({spec: self._clients[spec] for spec in specs if spec in self._clients})

    def close(self, *, but: Connections | None = None) -> None:
        """Close the clients, but those that ``but`` has taken over."""
        kept = set(but._clients.values()) if but else set()
        for spec in [spec for spec, client in self._clients.items() if client not in kept]:
            self._clients.pop(spec).close()


def _client(spec: UpstreamSpec) -> UpstreamClient:
    if spec.base_url.startswith(("http:", "https:")):
        return _http_client(spec)
    scheme = spec.base_url.partition(":")[0]
    make = load("upstream", scheme)
    if make is None:
        raise ConfigError(f'no installed package offers an upstream "{scheme}"')
    made: UpstreamClient = make(spec)
    return made


def _http_client(spec: UpstreamSpec) -> UpstreamClient:
    try:
        from pointsman.upstreams.http import HttpClient
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra("gateway", needed_for="a request to an upstream") from error
    return HttpClient(spec)
