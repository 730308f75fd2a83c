"""The clients of all upstreams of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pointsman.errors import MissingExtra
from pointsman.upstreams.demo import DemoClient
from pointsman.upstreams.own_fields import with_own_fields
from pointsman.upstreams.port import DEMO_URL, UpstreamClient, UpstreamSpec

__all__ = ["Connections"]


class Connections:
    """One client for each upstream, shared by callers' requests and questions of our own."""

    def __init__(self, clients: Mapping[UpstreamSpec, UpstreamClient] | None = None) -> None:
        self._clients = dict(clients or {})

    def __call__(self, spec: UpstreamSpec) -> UpstreamClient:
        """Return the client of an upstream.

        Raises:
            MissingExtra: httptools, of the extra ``gateway``, is not installed: who only decides needs none.
        """
        client = self._clients.get(spec)
        if client is None:
            plain = DemoClient() if spec.base_url == DEMO_URL else _http_client(spec)
            client = self._clients[spec] = with_own_fields(spec, plain)
        return client

    def carried_over(self, specs: Iterable[UpstreamSpec]) -> Connections:
        """Return the connections of another configuration: unchanged upstreams keep their client."""
        return Connections({spec: self._clients[spec] for spec in specs if spec in self._clients})

    def close(self, *, but: Connections | None = None) -> None:
        """Close the clients, but those that ``but`` has taken over."""
        kept = set(but._clients.values()) if but else set()
        for spec in [spec for spec, client in self._clients.items() if client not in kept]:
            self._clients.pop(spec).close()


def _http_client(spec: UpstreamSpec) -> UpstreamClient:
    try:
        from pointsman.upstreams.http import HttpClient
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra("gateway", needed_for="a request to an upstream") from error
    return HttpClient(spec)
